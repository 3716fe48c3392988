//! The leased values, and the order in which replies fill them. Pure: no lock, no await, no clock.

use super::affected::affected_by;
use super::inode::{LeasedData, LeasedInode};
use super::listing::Listing;
use super::lru::Lru;
use super::names::LeasedNames;
use super::order::{Affected, CacheKey, RequestOrder, SentAt};
use crate::lease_number::LeaseNumber;
use crate::limits::{
    LEASED_DATA_MAX, LEASED_INODES_MAX, LEASED_NAMES_MAX, LISTED_ATTRIBUTES_MAX, LISTED_NAMES_MAX,
};
use gupfs_proto::lease::LeaseKey;
use gupfs_proto::meta::MetaOp;
use gupfs_proto::{Attr, InodeId, Name, Slot};
use std::collections::BTreeMap;

pub struct LeasedValues {
    pub(super) inodes: Lru<InodeId, LeasedInode>,
    pub(super) names: LeasedNames,
    /// Complete ones, and those of which pages are missing.
    pub(super) listings: Lru<InodeId, Listing>,
    pub(super) data: Lru<InodeId, LeasedData>,
    pub(super) order: RequestOrder,
    /// The changes of this client that are under way.
    changes: BTreeMap<ChangeId, Affected>,
    last_change: u64,
    /// Changes whose outcome this client will not learn, by the slot of their request: what they affect stays blocked while the server can
    /// execute them.
    abandoned: Vec<(Option<Slot>, Affected)>,
}

/// The inodes whose attributes change, or may.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AffectedInodes {
    These(Vec<InodeId>),
    All,
}

/// A change of this client that is under way.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ChangeId(u64);

impl Default for LeasedValues {
    fn default() -> LeasedValues {
        LeasedValues {
            inodes: Lru::new(LEASED_INODES_MAX),
            names: LeasedNames::new(LEASED_NAMES_MAX),
            listings: Lru::new(LISTED_NAMES_MAX),
            data: Lru::new(LEASED_DATA_MAX),
            order: RequestOrder::default(),
            changes: BTreeMap::new(),
            last_change: 0,
            abandoned: Vec::new(),
        }
    }
}

impl LeasedValues {
    /// Leased values of all kinds.
    pub fn len(&self) -> usize {
        self.inodes.len() + self.names.len() + self.listings.len() + self.data.len()
    }

    /// A request is about to be sent.
    pub fn start_request(&mut self) -> SentAt {
        self.order.start()
    }

    pub fn end_request(&mut self, sent: SentAt) {
        self.order.end(sent);
    }

    /// A change is about to be sent. None if it affects nothing that is leased.
    pub fn start_change(&mut self, op: &MetaOp) -> Option<ChangeId> {
        let affected = affected_by(op, |dir, name| self.certain_target(dir, name));
        if affected.is_empty() {
            return None;
        }
        // Whichever of two changes of a name the server executes first changes what the name refers to for the other.
        for key in &affected.keys {
            if matches!(key, CacheKey::Name(..)) && self.order.is_blocked(key) {
                self.doubt_targets(|other| other == key);
            }
        }
        self.order.block(&affected);
        self.last_change += 1;
        let change = ChangeId(self.last_change);
        self.changes.insert(change, affected);
        Some(change)
    }

    /// The inode that a name refers to, or none. None if that is not known, or changing.
    fn certain_target(&self, dir: InodeId, name: &Name) -> Option<Option<InodeId>> {
        match self.order.is_name_blocked(dir, name) {
            true => None,
            false => self.names.target(dir, name),
        }
    }

    /// The inode that a name refers to. None: that is not known, or it refers to none.
    pub fn named_inode(&self, dir: InodeId, name: &Name) -> Option<InodeId> {
        self.certain_target(dir, name).flatten()
    }

    /// Whether these are an inode's attributes, by a lease and by no change of this client that is under way.
    pub fn has_attributes(&self, attr: &Attr) -> bool {
        let known = self.inodes.peek(&attr.ino);
        known.is_some_and(|known| known.attr == *attr)
            && !self.order.is_blocked(&CacheKey::Attributes(attr.ino))
            && !self.order.is_blocked(&CacheKey::Times(attr.ino))
    }

    /// Whether the next pages of a listing should have attributes: its first pages are here by a lease, and it is not too long.
    pub fn wants_listed_attributes(&self, dir: InodeId) -> bool {
        let listing = self.listings.peek(&dir);
        listing.is_some_and(|pages| {
            !pages.is_complete() && pages.len() > 0 && pages.len() < LISTED_ATTRIBUTES_MAX
        })
    }

    /// The lease that covers the file's data, if no change of this client to it is under way.
    pub fn data_lease(&self, ino: InodeId) -> Option<LeaseNumber> {
        let data = self.data.peek(&ino)?;
        (!self.order.is_blocked(&CacheKey::Data(ino))).then_some(data.number)
    }

    /// The inodes whose attributes the change may change, as it has begun.
    pub fn inodes_of_change(&self, change: ChangeId) -> AffectedInodes {
        let Some(affected) = self.changes.get(&change) else {
            return AffectedInodes::These(Vec::new());
        };
        if self.order.is_any_inode_blocked() {
            return AffectedInodes::All;
        }
        let inodes = affected.keys.iter().filter_map(|key| match key {
            CacheKey::Attributes(ino) | CacheKey::Times(ino) => Some(*ino),
            _ => None,
        });
        AffectedInodes::These(inodes.collect())
    }

    /// The inodes whose attributes may change once these keys are revoked: also those of changes under way that are in doubt now.
    pub fn inodes_of_revocation(&self, keys: &[LeaseKey]) -> AffectedInodes {
        if self.order.is_any_inode_blocked() {
            return AffectedInodes::All;
        }
        let inodes = keys.iter().filter_map(|key| match key {
            LeaseKey::Attributes(ino) => Some(*ino),
            _ => None,
        });
        AffectedInodes::These(inodes.collect())
    }

    pub(super) fn affected_by_change(&self, change: Option<ChangeId>) -> Affected {
        let affected = change.and_then(|change| self.changes.get(&change));
        affected.cloned().unwrap_or_default()
    }

    /// The change has ended: everything that it may have changed is dropped, but `kept`, which its reply has told.
    pub fn end_change(&mut self, change: ChangeId, kept: &[CacheKey]) {
        let Some(affected) = self.changes.remove(&change) else {
            return;
        };
        self.drop_affected(&affected, kept);
        self.order.unblock_and_void(&affected);
    }

    /// The change has ended, and its reply tells nothing.
    pub fn end_untold_change(&mut self, change: ChangeId) {
        if self.affected_by_change(Some(change)).any_inode {
            self.drop_all_inodes();
        }
        self.end_change(change, &[]);
    }

    /// This client will not learn the change's outcome, and the server may still execute it.
    pub fn abandon_change(&mut self, change: ChangeId, slot: Option<Slot>) {
        if let Some(affected) = self.changes.remove(&change) {
            self.drop_affected(&affected, &[]);
            self.abandoned.push((slot, affected));
        }
    }

    /// The server has executed a later request of this slot: it executes none of the earlier ones any more.
    pub fn end_abandoned(&mut self, slot: Slot) {
        let is_over = |(of, _): &mut (Option<Slot>, Affected)| *of == Some(slot);
        let ended: Vec<_> = self.abandoned.extract_if(.., is_over).collect();
        for (_, affected) in ended {
            self.unblock_abandoned(&affected);
        }
    }

    fn unblock_abandoned(&mut self, affected: &Affected) {
        if affected.any_inode {
            self.drop_all_inodes();
        }
        self.drop_affected(affected, &[]);
        self.order.unblock_and_void(affected);
    }

    fn drop_affected(&mut self, affected: &Affected, kept: &[CacheKey]) {
        for key in &affected.keys {
            if !kept.contains(key) {
                self.drop_value(key);
            }
        }
    }

    /// The values of inodes may be anything.
    pub(super) fn drop_all_inodes(&mut self) {
        self.inodes.clear();
        self.data.clear();
    }

    fn drop_value(&mut self, key: &CacheKey) -> usize {
        match key {
            CacheKey::Attributes(ino) | CacheKey::Times(ino) => {
                usize::from(self.inodes.remove(ino).is_some())
            }
            CacheKey::Name(dir, name) => {
                self.names.remove(*dir, name);
                1
            }
            CacheKey::NameHash(dir, hash) => self.names.remove_hash(*dir, *hash),
            CacheKey::Names(dir) => usize::from(self.listings.remove(dir).is_some()),
            CacheKey::Data(ino) => usize::from(self.data.remove(ino).is_some()),
        }
    }

    /// The server revokes a lease: the value is dropped, and no reply to a request under way brings it back. Which grant it is does not
    /// matter: a value that was granted later is dropped, too, and is read again. Returns how many values were dropped.
    pub fn revoke(&mut self, key: LeaseKey) -> usize {
        match key {
            LeaseKey::Attributes(ino) => self.void(CacheKey::Attributes(ino)),
            LeaseKey::Data(ino) => self.void(CacheKey::Data(ino)),
            LeaseKey::Names(dir) => self.void(CacheKey::Names(dir)),
            LeaseKey::Name { dir, hash } => {
                if self.order.is_any_name_blocked(dir) {
                    self.doubt_targets(|key| matches!(key, CacheKey::Name(of, _) if *of == dir));
                }
                self.void(CacheKey::NameHash(dir, hash)) + self.void(CacheKey::Names(dir))
            }
        }
    }

    fn void(&mut self, key: CacheKey) -> usize {
        let dropped = self.drop_value(&key);
        self.order.void(key);
        dropped
    }

    /// Changes under way that are about such a name may affect other inodes than the name referred to when they were sent.
    fn doubt_targets(&mut self, is_doubtful: impl Fn(&CacheKey) -> bool) {
        let abandoned = self.abandoned.iter_mut().map(|(_, affected)| affected);
        for affected in self.changes.values_mut().chain(abandoned) {
            if !affected.any_inode && affected.keys.iter().any(&is_doubtful) {
                affected.any_inode = true;
                self.order.block_any_inode();
            }
        }
    }

    /// Drops all values; replies to requests under way bring none back.
    pub fn clear(&mut self) {
        self.drop_all_inodes();
        self.names.clear();
        self.listings.clear();
        self.order.void_all();
    }

    /// The session is another one, or the server's instance: no change that was abandoned can be executed any more.
    pub fn restart(&mut self) {
        self.clear();
        for (_, affected) in std::mem::take(&mut self.abandoned) {
            self.order.unblock_and_void(&affected);
        }
        // The client may send a change that is under way again. It has no lease on the name then, so the server does not tell it when
        // the name refers to another inode.
        self.doubt_targets(|key| matches!(key, CacheKey::Name(..)));
    }
}
