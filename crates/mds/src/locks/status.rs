//! Who waits for a lock, and who has it.

use super::Locks;
use crate::waits::WaitStatus;
use gupfs_namespace::locks::{Table, Waiter};
use gupfs_platform::BootTime;
use gupfs_proto::lock::{Extent, Kind, Mode};

impl Locks {
    /// How many there are.
    pub fn count(&self) -> u64 {
        self.table.lock().len() as u64
    }

    pub fn waits(&self, now: BootTime) -> Vec<WaitStatus> {
        let table = self.table.lock();
        let status = |waiter: &Waiter| WaitStatus {
            session: waiter.session,
            op: "lock",
            waits_for: waits_for(&table, waiter),
            millis: now.since(BootTime(waiter.since)).as_millis() as u64,
        };
        table.waiters().map(status).collect()
    }
}

fn waits_for(table: &Table, waiter: &Waiter) -> String {
    let lock = waiter.lock;
    let mode = match lock.mode {
        Mode::Shared => "a shared",
        Mode::Exclusive => "an exclusive",
    };
    let what = match (lock.holder.kind, lock.extent) {
        (Kind::Flock, _) => "flock".to_string(),
        (Kind::Record, Extent { first, last }) if last == Extent::END => {
            format!("lock of bytes {first} and beyond")
        }
        (Kind::Record, Extent { first, last }) => format!("lock of bytes {first} to {last}"),
    };
    let holder = match table.conflict(waiter.session, lock) {
        Some(held) => format!("held by session {}, pid {}", held.session, held.lock.pid),
        None => "free in a moment".to_string(),
    };
    let (ino, pid) = (lock.holder.ino.0, lock.pid);
    format!("{mode} {what} of inode {ino:x} for pid {pid}, {holder}")
}
