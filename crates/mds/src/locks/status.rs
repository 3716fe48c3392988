//! Lock waiters and lock holders, for `status`.

use super::LockService;
use crate::waits::WaitStatus;
use gupfs_namespace::locks::{LockTable, LockWaiter};
use gupfs_platform::BootTime;
use gupfs_proto::lock::{LockFamily, LockMode, LockRange};

impl LockService {
    /// The number of locks held.
    pub fn count(&self) -> u64 {
        self.table.lock().len() as u64
    }

    pub fn waits(&self, now: BootTime) -> Vec<WaitStatus> {
        let table = self.table.lock();
        let status = |waiter: &LockWaiter| WaitStatus {
            session: waiter.session,
            op: "lock",
            waits_for: waits_for(&table, waiter),
            millis: now.since(BootTime(waiter.since)).as_millis() as u64,
        };
        table.waiters().map(status).collect()
    }
}

fn waits_for(table: &LockTable, waiter: &LockWaiter) -> String {
    let lock = waiter.lock;
    let mode = match lock.mode {
        LockMode::Shared => "a shared",
        LockMode::Exclusive => "an exclusive",
    };
    let what = match (lock.holder.family, lock.range) {
        (LockFamily::Flock, _) => "flock".to_string(),
        (LockFamily::Record, LockRange { first, last }) if last == LockRange::END => {
            format!("lock of bytes {first} and beyond")
        }
        (LockFamily::Record, LockRange { first, last }) => {
            format!("lock of bytes {first} to {last}")
        }
    };
    let holder = match table.conflict(waiter.session, lock) {
        Some(held) => format!("held by session {}, pid {}", held.session, held.lock.pid),
        None => "about to be granted".to_string(),
    };
    let (ino, pid) = (lock.holder.ino.0, lock.pid);
    format!("{mode} {what} of inode {ino:x} for pid {pid}, {holder}")
}
