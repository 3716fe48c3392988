//! Which inodes' attributes the kernel may use without a request, and until when. Pure: no lock, no clock.

use crate::limits::KERNEL_ATTRIBUTES_MAX;
use gupfs_platform::BootTime;
use gupfs_platform::hash::Map;
use gupfs_proto::InodeId;
use std::time::Duration;

/// The kernel counts a lifetime from the moment at which it takes the reply, in its own ticks: later than `until` by at most this.
const SLACK: Duration = Duration::from_secs(1);

#[derive(Default)]
pub struct AttributeLedger {
    given: Map<InodeId, GivenAttributes>,
    replies: u64,
}

/// Attributes of an inode that replies to the kernel contained with a lifetime.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GivenAttributes {
    until: BootTime,
    /// Rises with each reply.
    reply: u64,
}

impl GivenAttributes {
    /// Whether the kernel has dropped them by its own clock.
    pub fn has_expired(&self, now: BootTime) -> bool {
        now >= self.until + SLACK
    }
}

impl AttributeLedger {
    /// A reply is about to contain attributes of this inode with a lifetime. False if the ledger is full: then they must have none.
    pub fn give(&mut self, ino: InodeId, until: BootTime, now: BootTime) -> bool {
        if self.given.len() >= KERNEL_ATTRIBUTES_MAX && !self.given.contains_key(&ino) {
            self.given.retain(|_, given| !given.has_expired(now));
            if self.given.len() >= KERNEL_ATTRIBUTES_MAX {
                return false;
            }
        }
        self.replies += 1;
        let reply = self.replies;
        let given = (self.given.entry(ino)).or_insert(GivenAttributes { until, reply });
        given.until = given.until.max(until);
        given.reply = reply;
        true
    }

    /// What the kernel may have of an inode. It counts, however long ago it was given: the kernel's clock stops while the host is suspended.
    pub fn given(&self, ino: InodeId) -> Option<GivenAttributes> {
        self.given.get(&ino).copied()
    }

    /// All inodes of which the kernel may have something.
    pub fn all_given(&self) -> Vec<InodeId> {
        let mut all: Vec<InodeId> = self.given.keys().copied().collect();
        all.sort_unstable();
        all
    }

    /// The kernel has none of these any more. A reply that was given since counts on.
    pub fn remove(&mut self, ino: InodeId, removed: GivenAttributes) {
        if self.given.get(&ino) == Some(&removed) {
            self.given.remove(&ino);
        }
    }

    pub fn len(&self) -> usize {
        self.given.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: InodeId = InodeId(5);
    const B: InodeId = InodeId(6);

    fn at(seconds: u64) -> BootTime {
        BootTime(0) + Duration::from_secs(seconds)
    }

    #[test]
    fn an_inode_is_given_until_the_longest_of_its_lifetimes() {
        let mut ledger = AttributeLedger::default();
        assert!(ledger.give(A, at(20), at(1)));
        assert!(ledger.give(A, at(10), at(2)));
        let given = ledger.given(A).unwrap();
        assert!(!given.has_expired(at(20)) && given.has_expired(at(21)));
        assert_eq!(ledger.given(B), None);
    }

    #[test]
    fn what_was_given_after_an_invalidation_began_stays_given() {
        let mut ledger = AttributeLedger::default();
        ledger.give(A, at(20), at(1));
        let before = ledger.given(A).unwrap();
        ledger.give(A, at(20), at(1));
        ledger.remove(A, before);
        assert_eq!(ledger.all_given(), [A]);
        let given = ledger.given(A).unwrap();
        ledger.remove(A, given);
        assert_eq!(ledger.given(A), None);
        assert_eq!(ledger.all_given(), []);
    }

    #[test]
    fn a_full_ledger_gives_no_more_until_something_expires() {
        let mut ledger = AttributeLedger::default();
        for ino in 0..KERNEL_ATTRIBUTES_MAX as u64 {
            assert!(ledger.give(InodeId(ino), at(10), at(1)));
        }
        let other = InodeId(u64::MAX);
        assert!(!ledger.give(other, at(20), at(10)));
        assert!(ledger.give(A, at(20), at(10)));
        assert!(ledger.give(other, at(30), at(12)));
        assert_eq!(ledger.len(), 2);
    }
}
