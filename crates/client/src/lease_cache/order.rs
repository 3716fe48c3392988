//! Which replies may still fill the cache: the order of requests, revocations and this client's own changes. Pure.
//!
//! A reply brings values that were true when the server executed its request, at some moment between sending and reply. It may fill
//! the cache only if nothing that it says was voided after it was sent: by a revocation, or by the end of a change of this client. So a late
//! grant of a revoked lease is void without a look at its number, and a read that was sent before a change of this client was
//! answered never brings the former value back.
//!
//! While a change of this client is under way, the values that it may change are *blocked*: true before, or true after, and this client does
//! not know which. They are not answered from the cache.

use gupfs_platform::hash::Map;
use gupfs_proto::{InodeId, Name};
use std::collections::{BTreeMap, BTreeSet};

/// What a change voids or blocks.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum CacheKey {
    /// All that an attribute lease covers.
    Attributes(InodeId),
    /// A directory's attributes but mode, owner and ACL: what a change of its names changes.
    Times(InodeId),
    Name(InodeId, Name),
    /// The names of a directory with this hash: a revocation names no name.
    NameHash(InodeId, u64),
    /// The listing of a directory.
    Names(InodeId),
    Data(InodeId),
}

impl CacheKey {
    fn is_about_an_inode(&self) -> bool {
        matches!(
            self,
            CacheKey::Attributes(_) | CacheKey::Times(_) | CacheKey::Data(_)
        )
    }
}

/// What a change of this client may change.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Affected {
    /// Without duplicates.
    pub keys: Vec<CacheKey>,
    /// Also attributes and data of an inode that this client does not know: all are blocked.
    pub any_inode: bool,
}

impl Affected {
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty() && !self.any_inode
    }
}

/// The moment at which a request was sent, in the order of this client's events.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct SentAt(u64);

/// Void marks that are kept for requests under way; above it, everything under way is void.
pub const VOID_MARKS_MAX: usize = 1 << 14;

#[derive(Default)]
pub struct RequestOrder {
    events: u64,
    under_way: BTreeSet<SentAt>,
    /// When each was voided last. Marks that no request under way is older than are of no use.
    voided: BTreeMap<CacheKey, u64>,
    any_inode_voided: u64,
    all_voided: u64,
    blocked: BTreeMap<CacheKey, u32>,
    any_inode_blocked: u32,
    /// How many names of each directory are blocked.
    names_blocked: Map<InodeId, u32>,
}

impl RequestOrder {
    pub fn start(&mut self) -> SentAt {
        self.events += 1;
        let sent = SentAt(self.events);
        self.under_way.insert(sent);
        sent
    }

    pub fn end(&mut self, sent: SentAt) {
        self.under_way.remove(&sent);
        if self.under_way.is_empty() {
            self.voided.clear();
        }
    }

    /// Replies to requests that are under way now do not fill `key`.
    pub fn void(&mut self, key: CacheKey) {
        self.events += 1;
        if self.under_way.is_empty() {
            return;
        }
        self.voided.insert(key, self.events);
        if self.voided.len() > VOID_MARKS_MAX {
            self.drop_useless_marks();
        }
    }

    fn drop_useless_marks(&mut self) {
        let oldest = self.under_way.first().map_or(u64::MAX, |sent| sent.0);
        self.voided.retain(|_, at| *at > oldest);
        if self.voided.len() > VOID_MARKS_MAX / 2 {
            self.void_all();
        }
    }

    /// Replies to requests that are under way now fill nothing.
    pub fn void_all(&mut self) {
        self.events += 1;
        self.all_voided = self.events;
        self.voided.clear();
    }

    pub fn block(&mut self, affected: &Affected) {
        self.any_inode_blocked += u32::from(affected.any_inode);
        for key in &affected.keys {
            *self.blocked.entry(key.clone()).or_default() += 1;
            if let CacheKey::Name(dir, _) = key {
                *self.names_blocked.entry(*dir).or_default() += 1;
            }
        }
    }

    /// A change under way may affect any inode after all.
    pub fn block_any_inode(&mut self) {
        self.any_inode_blocked += 1;
    }

    /// The change has ended, and requests under way may have been executed before it.
    pub fn unblock_and_void(&mut self, affected: &Affected) {
        self.any_inode_blocked -= u32::from(affected.any_inode);
        if affected.any_inode {
            self.events += 1;
            self.any_inode_voided = self.events;
        }
        for key in &affected.keys {
            decrement(&mut self.blocked, key);
            self.void(key.clone());
            if let CacheKey::Name(dir, _) = key
                && let Some(count) = self.names_blocked.get_mut(dir)
            {
                *count -= 1;
                if *count == 0 {
                    self.names_blocked.remove(dir);
                }
            }
        }
    }

    /// Whether attributes and data of all inodes are blocked.
    pub fn is_any_inode_blocked(&self) -> bool {
        self.any_inode_blocked > 0
    }

    pub fn is_blocked(&self, key: &CacheKey) -> bool {
        (self.any_inode_blocked > 0 && key.is_about_an_inode()) || self.blocked.contains_key(key)
    }

    /// The same for a name; it copies the name only if some name of the directory is blocked.
    pub fn is_name_blocked(&self, dir: InodeId, name: &Name) -> bool {
        self.is_any_name_blocked(dir) && self.is_blocked(&CacheKey::Name(dir, name.clone()))
    }

    /// Whether any name of the directory is blocked.
    pub fn is_any_name_blocked(&self, dir: InodeId) -> bool {
        self.names_blocked.contains_key(&dir)
    }

    /// Whether a change other than `own` blocks the key.
    pub fn is_blocked_by_others(&self, key: &CacheKey, own: &Affected) -> bool {
        if key.is_about_an_inode() && self.any_inode_blocked > u32::from(own.any_inode) {
            return true;
        }
        let ours = u32::from(own.keys.contains(key));
        self.blocked.get(key).copied().unwrap_or(0) > ours
    }

    /// Whether the reply to a request sent then, of the change `own` or of none, may fill the key.
    pub fn may_fill(&self, key: &CacheKey, sent: SentAt, own: &Affected) -> bool {
        if self.all_voided > sent.0 || self.is_blocked_by_others(key, own) {
            return false;
        }
        if key.is_about_an_inode() && self.any_inode_voided > sent.0 {
            return false;
        }
        self.voided.get(key).is_none_or(|at| *at < sent.0)
    }
}

fn decrement(counts: &mut BTreeMap<CacheKey, u32>, key: &CacheKey) {
    let Some(count) = counts.get_mut(key) else {
        return;
    };
    *count -= 1;
    if *count == 0 {
        counts.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Affected = Affected {
        keys: Vec::new(),
        any_inode: false,
    };

    fn attributes(ino: u64) -> CacheKey {
        CacheKey::Attributes(InodeId(ino))
    }

    fn change(keys: &[CacheKey], any_inode: bool) -> Affected {
        Affected {
            keys: keys.to_vec(),
            any_inode,
        }
    }

    #[test]
    fn a_reply_to_a_request_that_was_sent_before_a_revocation_fills_nothing_revoked() {
        let mut order = RequestOrder::default();
        let before = order.start();
        order.void(attributes(5));
        let after = order.start();
        let fills = |order: &RequestOrder, sent, ino| order.may_fill(&attributes(ino), sent, &NONE);
        assert!(!fills(&order, before, 5) && fills(&order, before, 6));
        assert!(fills(&order, after, 5));
        order.end(before);
        order.end(after);
        assert!(order.voided.is_empty());
    }

    #[test]
    fn a_change_blocks_what_it_affects_and_voids_reads_that_overlapped_it() {
        let mut order = RequestOrder::default();
        let early = order.start();
        let own = change(&[attributes(5)], false);
        order.block(&own);
        let during = order.start();
        assert!(order.is_blocked(&attributes(5)) && !order.is_blocked(&attributes(6)));
        assert!(!order.may_fill(&attributes(5), during, &NONE));
        assert!(order.may_fill(&attributes(5), during, &own));
        let other = change(&[attributes(5)], false);
        order.block(&other);
        assert!(!order.may_fill(&attributes(5), during, &own));
        order.unblock_and_void(&other);
        order.unblock_and_void(&own);
        assert!(!order.is_blocked(&attributes(5)));
        for overlapped in [early, during] {
            assert!(!order.may_fill(&attributes(5), overlapped, &NONE));
        }
        let after = order.start();
        assert!(order.may_fill(&attributes(5), after, &NONE));
    }

    #[test]
    fn a_change_of_an_unknown_inode_blocks_attributes_and_data_of_all() {
        let mut order = RequestOrder::default();
        let early = order.start();
        let own = change(&[], true);
        order.block(&own);
        let name = CacheKey::Name(InodeId(1), Name::new(b"n").unwrap());
        assert!(order.is_blocked(&attributes(5)) && order.is_blocked(&CacheKey::Data(InodeId(9))));
        assert!(!order.is_blocked(&name));
        order.unblock_and_void(&own);
        assert!(!order.is_blocked(&attributes(5)));
        assert!(!order.may_fill(&attributes(5), early, &NONE));
        assert!(order.may_fill(&name, early, &NONE));
    }

    #[test]
    fn with_too_many_void_marks_everything_under_way_is_void() {
        let mut order = RequestOrder::default();
        let before = order.start();
        for ino in 0..=VOID_MARKS_MAX as u64 {
            order.void(attributes(ino));
        }
        assert!(order.voided.len() <= VOID_MARKS_MAX / 2);
        assert!(!order.may_fill(&attributes(u64::MAX), before, &NONE));
        assert!(!order.may_fill(&attributes(0), before, &NONE));
        let after = order.start();
        assert!(order.may_fill(&attributes(0), after, &NONE));
    }
}
