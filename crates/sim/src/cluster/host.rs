//! One host: its clock, its random source, its network, and its disks.

use super::request_monitor::RequestMonitor;
use gupfs_client::RelayMode;
use gupfs_platform::fake::{
    FakeClock, FakeDisk, FakeNet, FakeOptions, FakePlatform, FakeRandom, FakeTasks,
};
use gupfs_platform::{Disk, Random};
use gupfs_proto::Timestamp;
use gupfs_rpc::{ClusterKey, ProcessIdentity};
use gupfs_store::index::{FakeIndex, Index};
use std::sync::Arc;

/// How much faster or slower than true time a host's clock runs at most, in parts in a million. Two such clocks differ by 1 %,
/// the most that the terms of sessions and capabilities allow for.
const CLOCK_GAIN_MAX: i64 = 5_000;

/// Capacity of a disk that is not full, in bytes.
const CAPACITY: u64 = 1 << 40;

/// Capacity of a small disk of an object server: a client can fill it, and the reserve of a tenth has space for another segment of the log.
const SMALL_CAPACITY: u64 = 8 << 20;

pub struct Host {
    pub name: String,
    pub clock: FakeClock,
    pub net: FakeNet,
    random: FakeRandom,
}

/// What the hosts of a cluster share.
pub struct HostOptions {
    pub net: FakeNet,
    pub random: FakeRandom,
    pub monitor: Arc<RequestMonitor>,
    /// The hosts' clocks run at different rates.
    pub clocks_differ: bool,
    /// The clients keep small writes in memory before they send them.
    pub write_behind: bool,
    pub relay: RelayMode,
    /// The disks of the object servers are small.
    pub disks_are_small: bool,
    /// Of the metadata server's hosts.
    pub metadata_addresses: Vec<String>,
}

impl HostOptions {
    /// The address of the metadata server that the process with this number knows; it learns the others.
    pub fn metadata_address(&self, number: usize) -> String {
        self.metadata_addresses[number % self.metadata_addresses.len()].clone()
    }

    pub fn host(&self, name: &str) -> Host {
        let random = self.random.fork();
        let clock = match self.clocks_differ {
            true => FakeClock::of_runtime_gaining(clock_gain(&random)),
            false => FakeClock::of_runtime(),
        };
        Host {
            name: name.to_string(),
            clock,
            net: self.net.clone(),
            random,
        }
    }
}

/// In most cases an extreme, because the differences count.
fn clock_gain(random: &FakeRandom) -> i64 {
    match random.below(5) {
        0 | 1 => CLOCK_GAIN_MAX,
        2 | 3 => -CLOCK_GAIN_MAX,
        _ => random.below(2 * CLOCK_GAIN_MAX as u64) as i64 - CLOCK_GAIN_MAX,
    }
}

impl Host {
    /// The platform for a new process on this host.
    pub fn platform(&self) -> FakePlatform {
        FakePlatform {
            clock: self.clock.clone(),
            random: self.random.fork(),
            tasks: FakeTasks::new(),
        }
    }

    pub fn identity(&self, platform: &FakePlatform) -> ProcessIdentity {
        let key = ClusterKey::new([7; 32]);
        let net = self.net.host(&self.name);
        ProcessIdentity::new(
            &platform.platform(),
            net,
            self.name.clone(),
            Some(key.into()),
        )
    }

    pub fn disk(&self) -> FakeDisk {
        let (net, name) = (self.net.clone(), self.name.clone());
        let options = FakeOptions {
            yields: true,
            clock: Some(self.clock.clone()),
            capacity: CAPACITY,
            syncfs_reports_errors: true,
            // A dead process sends nothing more to its peers.
            on_death: Some(Arc::new(move || net.kill(&name))),
        };
        FakeDisk::new(options, self.random.u64())
    }

    pub fn store(&self) -> Store {
        Store {
            disk: self.disk(),
            index: FakeIndex::new(),
        }
    }

    /// Shifts the host's wall clock, as an operator or NTP would.
    pub fn shift_wall_clock(&self, seconds: i64) {
        let now = self.clock.now();
        let nanos = now.nanos;
        self.clock
            .set_wall(Timestamp::new(now.secs + seconds, nanos));
    }

    /// Ends the process, its tasks and its connections. The caller must have stopped its disks.
    pub async fn end(&self, platform: &FakePlatform) {
        self.net.kill(&self.name);
        platform.tasks.kill();
        tokio::task::yield_now().await;
    }

    pub fn random(&self) -> FakeRandom {
        self.random.fork()
    }
}

/// A disk, and the index stored on it.
pub struct Store {
    pub disk: FakeDisk,
    index: FakeIndex,
}

impl Store {
    pub fn index(&self) -> Index {
        Index::fake(self.index.clone())
    }

    pub fn handle(&self) -> Disk {
        self.disk.disk()
    }

    /// Fills the disk except for this many bytes.
    pub async fn leave_free(&self, free_bytes: u64) {
        if self.disk.is_dead() {
            return;
        }
        if let Ok(space) = self.handle().space().await {
            self.disk
                .set_capacity(space.total - space.free + free_bytes);
        }
    }

    /// Makes the disk small.
    pub fn shrink(&self) {
        self.disk.set_capacity(SMALL_CAPACITY);
    }

    pub fn restore_capacity(&self) {
        self.disk.set_capacity(CAPACITY);
    }

    /// Restarts the disk. After a kill, written bytes are in the page cache; after a power loss a part of the unsynced
    /// bytes is gone.
    pub fn restart(&self, power_loss: bool, random: &FakeRandom) {
        match power_loss {
            false => self.disk.restart(),
            true => {
                self.disk.crash();
                self.index.crash(&Random::fake(random.fork()));
            }
        }
    }
}
