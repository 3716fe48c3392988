//! The hosts, and the register that says who owns the store and which copies count.

use super::host::Host;
use gupfs_platform::fake::FakeRandom;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

pub const HOSTS: usize = 3;

pub struct Cluster {
    pub hosts: Vec<Host>,
    pub register: Mutex<Register>,
    pub random: FakeRandom,
    pub seen: Mutex<Coverage>,
}

/// What the arbiter stores. Every change names the epoch that it expects.
#[derive(Clone, Default, Debug)]
pub struct Register {
    pub epoch: u64,
    pub owner: usize,
    /// The copies that count, the owner among them, each with the run of its process: a later process has lost its memory, and does not count.
    pub counting: BTreeMap<usize, u64>,
    /// Copies that the owner brings up to date.
    pub joining: BTreeSet<usize>,
}

/// Counts of what happened, to prove that the test covers it.
#[derive(Default, Debug)]
pub struct Coverage {
    pub take_overs: u64,
    pub tails_cut: u64,
    pub tails_filled: u64,
    pub killed_meanwhile: u64,
    pub struck: u64,
    pub joined: u64,
    pub deposed: u64,
    pub all_lost: u64,
    pub answered_lost_with_all: u64,
    pub batches: u64,
    pub rolled: u64,
}

/// Of each, at least so many in the seeds of the test.
pub const LEAST: [(&str, u64); 9] = [
    ("take-overs", 400),
    ("tails cut", 50),
    ("tails filled", 50),
    ("killed meanwhile", 100),
    ("struck", 400),
    ("joined", 400),
    ("deposed", 50),
    ("all lost power", 50),
    ("batches lost with all", 10),
];

impl Coverage {
    pub fn counts(&self) -> [(&'static str, u64); 11] {
        [
            ("take-overs", self.take_overs),
            ("tails cut", self.tails_cut),
            ("tails filled", self.tails_filled),
            ("killed meanwhile", self.killed_meanwhile),
            ("struck", self.struck),
            ("joined", self.joined),
            ("deposed", self.deposed),
            ("all lost power", self.all_lost),
            ("batches lost with all", self.answered_lost_with_all),
            ("batches", self.batches),
            ("segments", self.rolled),
        ]
    }
}

impl Cluster {
    pub fn new(seed: u64) -> Arc<Cluster> {
        let random = FakeRandom::new(seed);
        Arc::new(Cluster {
            hosts: (0..HOSTS).map(|_| Host::new(random.u64())).collect(),
            register: Mutex::new(Register::default()),
            seen: Mutex::new(Coverage::default()),
            random,
        })
    }

    /// The copies that this owner is to bring up to date.
    pub fn joining(&self, epoch: u64) -> BTreeSet<usize> {
        let register = self.register.lock();
        match register.epoch == epoch {
            true => register.joining.clone(),
            false => BTreeSet::new(),
        }
    }

    pub fn change(&self, epoch: u64, change: impl FnOnce(&mut Register)) -> Result<(), String> {
        let mut register = self.register.lock();
        if register.epoch != epoch {
            return Err(format!("owner {epoch} is deposed"));
        }
        change(&mut register);
        Ok(())
    }

    pub fn strike(&self, epoch: u64, host: usize) -> Result<(), String> {
        self.change(epoch, |register| {
            register.counting.remove(&host);
            register.joining.remove(&host);
        })?;
        self.seen.lock().struck += 1;
        Ok(())
    }

    /// Whether the host's process is the one that counts.
    pub fn has_memory(&self, host: usize) -> bool {
        let register = self.register.lock();
        register.counting.get(&host) == Some(&self.hosts[host].run())
    }

    pub fn can_reach(&self, from: usize, to: usize) -> bool {
        from == to
            || [from, to]
                .iter()
                .all(|host| !self.hosts[*host].is_cut.load(SeqCst))
    }
}

/// Lets the other tasks run for a while.
pub async fn pause(random: &FakeRandom, most: u64) {
    for _ in 0..random.below(most + 1) {
        tokio::task::yield_now().await;
    }
}
