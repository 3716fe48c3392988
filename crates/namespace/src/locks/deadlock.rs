//! Whether waiting for a record lock would be for ever: who is in the way waits for the one who asks.
//!
//! As Linux does it, a process that waits in one thread counts as one that waits. An open file (OFD) counts as a process of its
//! own: the kernel does not say which of the two an owner is.

use super::table::Table;
use gupfs_proto::SessionId;
use gupfs_proto::lock::{Kind, Lock};
use std::collections::{BTreeMap, BTreeSet};

/// A holder of record locks, over all its files.
type Party = (SessionId, u64);

impl Table {
    pub(super) fn would_wait_for_ever(&self, session: SessionId, lock: Lock) -> bool {
        if lock.holder.kind != Kind::Record {
            return false;
        }
        let mut waits: BTreeMap<Party, Vec<(SessionId, Lock)>> = BTreeMap::new();
        for waiter in self.waiters() {
            if waiter.lock.holder.kind == Kind::Record {
                let party = (waiter.session, waiter.lock.holder.owner);
                let theirs = waits.entry(party).or_default();
                theirs.push((waiter.session, waiter.lock));
            }
        }
        let me: Party = (session, lock.holder.owner);
        let mut seen = BTreeSet::new();
        let mut look = vec![(session, lock)];
        while let Some((session, lock)) = look.pop() {
            for party in self.in_the_way(session, lock) {
                if party == me {
                    return true;
                }
                if seen.insert(party) {
                    look.extend(waits.get(&party).into_iter().flatten());
                }
            }
        }
        false
    }

    fn in_the_way(&self, session: SessionId, lock: Lock) -> impl Iterator<Item = Party> {
        let locks = self.locks_of(lock.holder.ino).into_iter();
        let conflicts = locks.flat_map(move |locks| locks.conflicts(session, lock));
        conflicts.map(|held| (held.session, held.lock.holder.owner))
    }
}
