//! Which interests of each session are recorded, where another server may go on at any moment.
//!
//! A reply with a lease, and the reply to a lock, leaves when the record of its interest is where all other changes are that were answered.

use crate::limits::{INTERESTS_KEPT, LOCK_INTERESTS_MAX};
use gupfs_namespace::{Interest, InterestSet};
use gupfs_proto::lease::LeaseKey;
use gupfs_proto::{InodeId, Seq, SessionId};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Default)]
pub struct RecordedInterests(BTreeMap<SessionId, SessionInterests>);

#[derive(Default)]
struct SessionInterests {
    /// The batch of each record.
    recorded: BTreeMap<Interest, Seq>,
    /// How many of them are of locks.
    of_locks: usize,
    /// Records of leases that are gone are removed when there are so many.
    collect_at: usize,
}

impl RecordedInterests {
    /// A session from before this start, with what the former owner has recorded.
    pub fn restore(&mut self, session: SessionId, interests: &InterestSet) {
        let old: Vec<Interest> = interests.iter().collect();
        self.note(session, &old, Seq(0));
    }

    /// Which of these must be recorded, and the newest batch that has one of the others.
    pub fn unrecorded(
        &self,
        session: SessionId,
        wanted: impl IntoIterator<Item = Interest>,
    ) -> (BTreeSet<Interest>, Seq) {
        let recorded = self.0.get(&session).map(|of| &of.recorded);
        let (mut unrecorded, mut newest) = (BTreeSet::new(), Seq(0));
        for interest in wanted {
            match recorded.and_then(|recorded| recorded.get(&interest)) {
                Some(seq) => newest = newest.max(*seq),
                None => {
                    unrecorded.insert(interest);
                }
            }
        }
        (unrecorded, newest)
    }

    /// The interest of a lock on this file: that of all locks, once the session has had locks on many files.
    pub fn of_lock(&self, session: SessionId, ino: InodeId) -> Interest {
        let count = self.0.get(&session).map_or(0, |of| of.of_locks);
        match count < LOCK_INTERESTS_MAX {
            true => Interest::of_lock(ino),
            false => Interest::AllLocks,
        }
    }

    /// These are staged with this batch.
    pub fn note<'a>(
        &mut self,
        session: SessionId,
        interests: impl IntoIterator<Item = &'a Interest>,
        seq: Seq,
    ) {
        let of = self.0.entry(session).or_default();
        for interest in interests {
            if of.recorded.insert(*interest, seq).is_none() && interest.is_of_locks() {
                of.of_locks += 1;
            }
        }
    }

    /// Removes and returns interests of leases that the session has no more, if it has recorded many. `leases`: those that it has.
    pub fn collect(
        &mut self,
        session: SessionId,
        leases: impl IntoIterator<Item = LeaseKey>,
    ) -> Vec<Interest> {
        let Some(of) = self.0.get_mut(&session) else {
            return Vec::new();
        };
        if of.recorded.len() < of.collect_at.max(INTERESTS_KEPT) {
            return Vec::new();
        }
        let held: BTreeSet<Interest> = (leases.into_iter())
            // The table does not say what is a directory.
            .flat_map(|key| [true, false].map(|is_directory| Interest::of_lease(key, is_directory)))
            .collect();
        let is_stale = |interest: &Interest| !interest.is_of_locks() && !held.contains(interest);
        let stale: Vec<Interest> = of.recorded.keys().copied().filter(is_stale).collect();
        stale.iter().for_each(|interest| {
            of.recorded.remove(interest);
        });
        of.collect_at = 2 * of.recorded.len();
        stale
    }

    pub fn drop_session(&mut self, session: SessionId) {
        self.0.remove(&session);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: SessionId = SessionId(3);

    fn files(numbers: std::ops::Range<u64>) -> Vec<Interest> {
        numbers.map(Interest::Files).collect()
    }

    #[test]
    fn an_interest_is_recorded_once_and_a_reply_waits_for_its_batch() {
        let mut recorded = RecordedInterests::default();
        let (new, newest) = recorded.unrecorded(SESSION, files(0..2));
        assert_eq!((new.len(), newest), (2, Seq(0)));
        recorded.note(SESSION, &new, Seq(9));
        let (new, newest) = recorded.unrecorded(SESSION, files(1..3));
        assert_eq!(
            (new, newest),
            (BTreeSet::from([Interest::Files(2)]), Seq(9))
        );
        assert_eq!(recorded.unrecorded(SessionId(4), files(0..2)).0.len(), 2);
    }

    #[test]
    fn interests_without_leases_are_removed_when_there_are_many() {
        let mut recorded = RecordedInterests::default();
        let kept = INTERESTS_KEPT as u64;
        recorded.note(SESSION, &files(0..kept - 1), Seq(1));
        recorded.note(SESSION, &[Interest::Locks(InodeId(5))], Seq(1));
        let held = || (0..10).map(|number| LeaseKey::Attributes(InodeId(number << 4)));
        let stale = recorded.collect(SESSION, held());
        assert_eq!(stale, files(10..kept - 1));
        assert!(recorded.collect(SESSION, held()).is_empty());
        assert!(recorded.unrecorded(SESSION, files(0..10)).0.is_empty());
        assert!(
            recorded
                .unrecorded(SESSION, [Interest::Locks(InodeId(5))])
                .0
                .is_empty()
        );
    }

    #[test]
    fn a_session_with_locks_on_many_files_has_one_interest_in_all() {
        let mut recorded = RecordedInterests::default();
        for number in 1..=LOCK_INTERESTS_MAX as u64 {
            let interest = recorded.of_lock(SESSION, InodeId(number));
            assert_eq!(interest, Interest::Locks(InodeId(number)));
            recorded.note(SESSION, &[interest], Seq(1));
        }
        assert_eq!(
            recorded.of_lock(SESSION, InodeId(1 << 40)),
            Interest::AllLocks
        );
    }
}
