//! The hosts, the arbiter and the network between them.

use super::host::{Host, OnOwned, Process};
use super::program::Told;
use gupfs_copies::{Register, Standing};
use gupfs_platform::Clock;
use gupfs_platform::fake::{FakeArbiter, FakeClock, FakeNet, FakeRandom};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

pub const HOSTS: usize = 3;

pub struct Cluster {
    pub hosts: Vec<Arc<Host>>,
    pub net: FakeNet,
    pub arbiter: FakeArbiter,
    pub random: FakeRandom,
    pub told: Mutex<Told>,
    /// Programs read and write the counter in turns.
    pub turn: Mutex<()>,
    pub seen: Mutex<Coverage>,
    pub is_over: AtomicBool,
    newest_epoch: AtomicU64,
    /// A host has lost power or its disk since all copies counted.
    pub has_lost_power: AtomicBool,
}

/// Counts of what happened, to prove that the test covers it.
#[derive(Default, Debug)]
pub struct Coverage {
    pub owners: u64,
    pub elected: u64,
    pub deposed_silent: u64,
    pub counts: BTreeMap<&'static str, u64>,
}

impl Cluster {
    pub fn new(seed: u64) -> Arc<Cluster> {
        let random = FakeRandom::new(seed);
        let delay = match random.below(3) {
            0 => (Duration::from_micros(50), Duration::from_micros(200)),
            1 => (Duration::from_micros(100), Duration::from_millis(5)),
            _ => (Duration::from_millis(1), Duration::from_millis(30)),
        };
        let net = FakeNet::new(random.u64(), delay);
        let arbiter = FakeArbiter::new(random.u64(), Clock::fake(FakeClock::of_runtime()));
        let hosts = (0..HOSTS).map(|number| Arc::new(Host::new(number, &net, &arbiter, &random)));
        Arc::new(Cluster {
            hosts: hosts.collect(),
            net,
            arbiter,
            random,
            told: Mutex::default(),
            turn: Mutex::default(),
            seen: Mutex::default(),
            is_over: AtomicBool::new(false),
            newest_epoch: AtomicU64::new(0),
            has_lost_power: AtomicBool::new(false),
        })
    }

    /// A cluster whose hosts have started one after the other, and all count.
    pub async fn started(seed: u64) -> Arc<Cluster> {
        let cluster = Cluster::new(seed);
        for host in &cluster.hosts {
            cluster.start(host).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        cluster.wait_whole().await;
        cluster
    }

    /// Returns when all copies count.
    pub async fn wait_whole(&self) {
        while !self.is_whole().await {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    pub async fn start(self: &Arc<Self>, host: &Arc<Host>) {
        let cluster = self.clone();
        let on_owned: OnOwned = Arc::new(move |epoch, kept_memory| {
            cluster.note_owner(epoch, kept_memory);
        });
        host.start(on_owned).await;
    }

    fn note_owner(&self, epoch: u64, kept_memory: bool) {
        println!("  owner {epoch}, memory kept: {kept_memory}");
        let former = self.newest_epoch.fetch_max(epoch, SeqCst);
        assert!(former < epoch, "owner {epoch} after owner {former}");
        let able = self.hosts.iter().filter_map(|host| host.process());
        let able = able.filter(|process| process.send_deadline.may_send());
        assert!(able.count() <= 1, "two processes may answer");
        let mut seen = self.seen.lock();
        seen.owners += 1;
        if !kept_memory {
            seen.elected += 1;
            if self.has_lost_power.load(SeqCst) {
                let mut told = self.told.lock();
                told.losses += 1;
                let durable = told.durable;
                told.counter = durable;
                told.answered.retain(|number| *number <= durable);
            }
        }
    }

    pub fn newest_epoch(&self) -> u64 {
        self.newest_epoch.load(SeqCst)
    }

    /// Whether this is the process that runs on its host now.
    pub fn runs_now(&self, process: &Process) -> bool {
        let mut running = self.hosts.iter().filter_map(|host| host.process());
        running.any(|running| running.is(process))
    }

    pub fn count(&self, what: &'static str) {
        *self.seen.lock().counts.entry(what).or_default() += 1;
    }

    /// The register as the arbiter has it.
    pub async fn register(&self) -> Option<Register> {
        let arbiter = gupfs_platform::Arbiter::fake(self.arbiter.clone());
        let state = arbiter.read().await.ok()?;
        Some(Register::decode(&state.value?).expect("only copies write it"))
    }

    /// Whether all processes count, and one of them is the owner.
    pub async fn is_whole(&self) -> bool {
        let Some(register) = self.register().await else {
            return false;
        };
        let owners = self.hosts.iter().filter(|host| host.owned().is_some());
        let counts = register.members.iter();
        let counts = counts.filter(|member| {
            let host = &self.hosts[member.id.0 as usize - 1];
            let run = host
                .process()
                .map(|process| process.copy.host().state().run);
            member.standing == Standing::Counting && run == Some(member.run)
        });
        owners.count() == 1 && counts.count() == HOSTS
    }
}
