//! A simulated host with a copy of the store, or with its owner.

use gupfs_platform::fake::{FakeDisk, FakeOptions, FakePlatform, FakeRandom};
use gupfs_proto::{ClusterId, Incarnation, OwnerEpoch, Seq};
use gupfs_store::index::{FakeIndex, Index};
use gupfs_store::kv::{Kv, KvCopy, KvError, KvOptions};
use gupfs_store::log::{CopySet, LogError, LogOptions, LogPosition, StoreId};
use parking_lot::Mutex;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

pub struct Host {
    disk: Mutex<FakeDisk>,
    pub index: Mutex<FakeIndex>,
    pub random: FakeRandom,
    pub role: Mutex<Role>,
    platform: Mutex<Option<FakePlatform>>,
    /// Rises with each process: the memory of a former one is lost.
    run: AtomicU64,
    /// Rises with the end of each process.
    ended: AtomicU64,
    /// No other host reaches it.
    pub is_cut: AtomicBool,
    /// It was being brought up to date: records say that batches are durable which it may not have synced.
    pub may_be_torn: AtomicBool,
}

#[derive(Clone)]
pub enum Role {
    Down,
    Copy(Arc<KvCopy>),
    Owner(Arc<Kv>),
}

pub fn options() -> KvOptions {
    let store = StoreId {
        cluster: ClusterId(1),
        incarnation: Incarnation(2),
    };
    KvOptions::new(LogOptions {
        segment_bytes: 16 << 10,
        ..LogOptions::new(store)
    })
}

impl Host {
    pub fn new(seed: u64) -> Host {
        Host {
            disk: Mutex::new(new_disk(seed)),
            index: Mutex::new(FakeIndex::new()),
            random: FakeRandom::new(seed ^ 0xabc),
            role: Mutex::new(Role::Down),
            platform: Mutex::new(None),
            run: AtomicU64::new(1),
            ended: AtomicU64::new(0),
            is_cut: AtomicBool::new(false),
            may_be_torn: AtomicBool::new(false),
        }
    }

    pub fn copy(&self) -> Option<Arc<KvCopy>> {
        match &*self.role.lock() {
            Role::Copy(copy) => Some(copy.clone()),
            Role::Down | Role::Owner(_) => None,
        }
    }

    pub fn kv(&self) -> Option<Arc<Kv>> {
        match &*self.role.lock() {
            Role::Owner(kv) => Some(kv.clone()),
            Role::Down | Role::Copy(_) => None,
        }
    }

    pub fn run(&self) -> u64 {
        self.run.load(SeqCst)
    }

    /// The result of a call to this host's process; None if the process ends before.
    pub async fn while_it_runs<T>(&self, call: impl Future<Output = T>) -> Option<T> {
        let process = self.ended.load(SeqCst);
        let ended = async {
            while self.ended.load(SeqCst) == process {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::select! {
            biased;
            result = call => Some(result),
            () = ended => None,
        }
    }

    pub fn is_down(&self) -> bool {
        matches!(&*self.role.lock(), Role::Down)
    }

    fn start_process(&self) -> FakePlatform {
        let platform = FakePlatform::new(self.random.u64());
        *self.platform.lock() = Some(platform.clone());
        platform
    }

    /// Opens the copy, without the records after a position if one is given.
    pub async fn open_copy(&self, end_at: Option<LogPosition>) -> Result<(), KvError> {
        let mut options = options();
        options.log.end_at = end_at;
        let platform = self.start_process().platform();
        let index = Index::fake(self.index.lock().clone());
        let begin = LogPosition::default();
        let disk = self.disk.lock().disk();
        let (copy, _) = KvCopy::open(disk, index, options, begin, platform).await?;
        *self.role.lock() = Role::Copy(Arc::new(copy));
        Ok(())
    }

    /// Makes the host the owner: its copy, which is stopped, has everything.
    pub async fn become_owner(&self, epoch: u64, copies: CopySet) -> Result<Seq, KvError> {
        let mut options = options();
        options.log.epoch = Some(OwnerEpoch(epoch));
        options.log.copies = copies;
        let platform = self.start_process().platform();
        let index = Index::fake(self.index.lock().clone());
        let disk = self.disk.lock().disk();
        let (kv, found) = Kv::open(disk, index, options, platform).await?;
        *self.role.lock() = Role::Owner(Arc::new(kv));
        Ok(found.log.last)
    }

    /// Closes the copy in order: its files are as they are for the next process.
    pub async fn stop_copy(&self) -> Result<(), KvError> {
        if let Some(copy) = self.copy() {
            copy.stop().await?;
        }
        self.end_process();
        Ok(())
    }

    fn end_process(&self) {
        self.ended.fetch_add(1, SeqCst);
        *self.role.lock() = Role::Down;
        if let Some(platform) = self.platform.lock().take() {
            platform.tasks.kill();
        }
    }

    /// Its directory is made anew, empty.
    pub fn wipe(&self) {
        self.kill(true);
        *self.disk.lock() = new_disk(self.random.u64());
        *self.index.lock() = FakeIndex::new();
    }

    /// Kills the process; with a power loss, too, what was not synced is lost.
    pub fn kill(&self, loses_power: bool) {
        self.disk.lock().kill();
        self.end_process();
        self.run.fetch_add(1, SeqCst);
        match loses_power {
            true => self.disk.lock().crash(),
            false => self.disk.lock().restart(),
        }
        // A copy: what the former process still does reaches its own index alone.
        let index = self.index.lock().copy();
        index.crash(&FakePlatform::new(self.random.u64()).platform().random);
        *self.index.lock() = index;
    }
}

fn new_disk(seed: u64) -> FakeDisk {
    let yielding = FakeOptions {
        yields: true,
        ..FakeOptions::default()
    };
    FakeDisk::new(yielding, seed)
}

pub fn is_disk_error(error: &KvError) -> bool {
    matches!(error, KvError::Log(LogError::Disk(_)))
}
