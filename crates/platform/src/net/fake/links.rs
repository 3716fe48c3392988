//! The links between the hosts of a simulated network: how long bytes take, and which directions are partitioned.

use crate::random::fake::FakeRandom;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::sync::Notify;

pub(super) struct Links {
    /// Directions (sender, receiver) that are partitioned.
    partitions: Mutex<BTreeSet<(String, String)>>,
    /// A partition began or ended.
    changed: Notify,
    delay: (Duration, Duration),
    random: FakeRandom,
}

impl Links {
    pub fn new(seed: u64, delay: (Duration, Duration)) -> Links {
        Links {
            partitions: Mutex::default(),
            changed: Notify::new(),
            delay,
            random: FakeRandom::new(seed),
        }
    }

    pub fn partition_one_way(&self, from: &str, to: &str) {
        self.partitions.lock().insert(direction(from, to));
        self.changed.notify_waiters();
    }

    /// Ends the partition of two hosts in both directions.
    pub fn heal(&self, a: &str, b: &str) {
        let mut partitions = self.partitions.lock();
        partitions.remove(&direction(a, b));
        partitions.remove(&direction(b, a));
        drop(partitions);
        self.changed.notify_waiters();
    }

    pub fn heal_all(&self) {
        self.partitions.lock().clear();
        self.changed.notify_waiters();
    }

    pub fn is_partitioned(&self, from: &str, to: &str) -> bool {
        let partitions = self.partitions.lock();
        !partitions.is_empty() && partitions.contains(&direction(from, to))
    }

    /// The time that the next bytes take.
    pub fn delay(&self) -> Duration {
        let (least, most) = self.delay;
        let span = (most - least).as_nanos() as u64;
        match span {
            0 => least,
            _ => least + Duration::from_nanos(self.random.u64() % span),
        }
    }

    /// Returns when the direction is not partitioned.
    pub async fn wait_until_healed(&self, from: &str, to: &str) {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if !self.is_partitioned(from, to) {
                return;
            }
            changed.await;
        }
    }

    /// Returns when neither direction is partitioned.
    pub async fn wait_until_both_healed(&self, a: &str, b: &str) {
        while self.is_partitioned(a, b) || self.is_partitioned(b, a) {
            self.wait_until_healed(a, b).await;
            self.wait_until_healed(b, a).await;
        }
    }
}

fn direction(from: &str, to: &str) -> (String, String) {
    (from.to_string(), to.to_string())
}
