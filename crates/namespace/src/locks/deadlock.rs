//! Deadlock detection for record locks: whether an owner of a conflicting lock waits, directly or through others, for the
//! requester.
//!
//! As in Linux, a process of which one thread waits counts as waiting. An open file description (OFD) counts as a process of its
//! own: the kernel does not say which of the two an owner is.

use super::table::LockTable;
use gupfs_proto::SessionId;
use gupfs_proto::lock::{AdvisoryLock, LockFamily};
use std::collections::{BTreeMap, BTreeSet};

/// An owner of record locks, over all files.
type RecordLockOwner = (SessionId, u64);

impl LockTable {
    pub(super) fn would_deadlock(&self, session: SessionId, lock: AdvisoryLock) -> bool {
        if lock.holder.family != LockFamily::Record {
            return false;
        }
        let mut waits: BTreeMap<RecordLockOwner, Vec<(SessionId, AdvisoryLock)>> = BTreeMap::new();
        for waiter in self.waiters() {
            if waiter.lock.holder.family == LockFamily::Record {
                let owner = (waiter.session, waiter.lock.holder.owner);
                let wanted = waits.entry(owner).or_default();
                wanted.push((waiter.session, waiter.lock));
            }
        }
        let requester: RecordLockOwner = (session, lock.holder.owner);
        let mut seen = BTreeSet::new();
        let mut unvisited = vec![(session, lock)];
        while let Some((session, lock)) = unvisited.pop() {
            for owner in self.conflicting_owners(session, lock) {
                if owner == requester {
                    return true;
                }
                if seen.insert(owner) {
                    unvisited.extend(waits.get(&owner).into_iter().flatten());
                }
            }
        }
        false
    }

    fn conflicting_owners(
        &self,
        session: SessionId,
        lock: AdvisoryLock,
    ) -> impl Iterator<Item = RecordLockOwner> {
        let locks = self.locks_of(lock.holder.ino).into_iter();
        let conflicts = locks.flat_map(move |locks| locks.conflicts(session, lock));
        conflicts.map(|held| (held.session, held.lock.holder.owner))
    }
}
