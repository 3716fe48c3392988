//! Keys of records: big-endian bytes, so that byte order is scan order. docs/formats/metadata.md has the table.

mod parse;
mod range;
#[cfg(test)]
mod tests;

pub use parse::ParsedKey;
pub use range::KeyRange;

use crate::interest::Interest;
use gupfs_proto::{InodeId, Name, OstId, SessionId, Slot, VirtualShard, VolumeId};
use smallvec::SmallVec;
use std::fmt;

/// A record's key, ordered by its bytes. Keys with names up to 45 bytes need no allocation.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordKey(SmallVec<[u8; 64]>);

/// The kind of a record: the letter after the virtual shard in its key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum RecordKind {
    BackLink = b'B',
    Entry = b'E',
    Format = b'F',
    KnownTarget = b'G',
    Inode = b'I',
    Rebalance = b'J',
    RetiredVerifier = b'K',
    Unconfirmed = b'L',
    WriteLease = b'M',
    InodeCounter = b'N',
    Orphan = b'O',
    Purge = b'P',
    AcceptedLoss = b'Q',
    Reply = b'R',
    Session = b'S',
    Usage = b'U',
    Xattr = b'X',
    StaleMembers = b'Y',
    Interest = b'Z',
}

impl RecordKind {
    pub const ALL: [RecordKind; 19] = [
        RecordKind::BackLink,
        RecordKind::Entry,
        RecordKind::Format,
        RecordKind::KnownTarget,
        RecordKind::Inode,
        RecordKind::Rebalance,
        RecordKind::RetiredVerifier,
        RecordKind::Unconfirmed,
        RecordKind::WriteLease,
        RecordKind::InodeCounter,
        RecordKind::Orphan,
        RecordKind::Purge,
        RecordKind::AcceptedLoss,
        RecordKind::Reply,
        RecordKind::Session,
        RecordKind::Usage,
        RecordKind::Xattr,
        RecordKind::StaleMembers,
        RecordKind::Interest,
    ];
}

/// Identifies a removal or truncate of objects: the inode, and a number that the inode never uses twice (it shares the counter of
/// the layout's generations).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct PurgeId {
    pub ino: InodeId,
    pub number: u32,
}

/// Records of the whole cluster (sessions, the format) are in the first shard.
const FIRST_SHARD: VirtualShard = VirtualShard(0);

/// `U` counts per volume ('v'); users, groups and projects come with quotas.
const USAGE_OF_VOLUME: u8 = b'v';

impl RecordKey {
    fn new(shard: VirtualShard, kind: RecordKind) -> RecordKey {
        let mut bytes = SmallVec::new();
        bytes.extend_from_slice(&shard.0.to_be_bytes());
        bytes.push(kind as u8);
        RecordKey(bytes)
    }

    fn u64(mut self, number: u64) -> RecordKey {
        self.0.extend_from_slice(&number.to_be_bytes());
        self
    }

    fn bytes(mut self, bytes: &[u8]) -> RecordKey {
        self.0.extend_from_slice(bytes);
        self
    }

    fn of_inode(ino: InodeId, kind: RecordKind) -> RecordKey {
        RecordKey::new(ino.shard(), kind).u64(ino.0)
    }

    pub fn format() -> RecordKey {
        RecordKey::new(FIRST_SHARD, RecordKind::Format)
    }

    /// Used by the metadata server only: the write verifiers of a target that a failed sync retired.
    pub fn retired_verifier(ost: OstId) -> RecordKey {
        RecordKey::new(FIRST_SHARD, RecordKind::RetiredVerifier).bytes(&ost.0.to_be_bytes())
    }

    /// Used by the metadata server only: the identity that a target last reported.
    pub fn known_target(ost: OstId) -> RecordKey {
        RecordKey::new(FIRST_SHARD, RecordKind::KnownTarget).bytes(&ost.0.to_be_bytes())
    }

    /// Used by the metadata server only: that an operator accepted the loss of newer metadata.
    pub fn accepted_loss() -> RecordKey {
        RecordKey::new(FIRST_SHARD, RecordKind::AcceptedLoss)
    }

    /// Used by the metadata server only: the rebalance that is going on, or how the last one ended.
    pub fn rebalance() -> RecordKey {
        RecordKey::new(FIRST_SHARD, RecordKind::Rebalance)
    }

    pub fn inode_counter(shard: VirtualShard) -> RecordKey {
        RecordKey::new(shard, RecordKind::InodeCounter)
    }

    pub fn usage(shard: VirtualShard, volume: VolumeId) -> RecordKey {
        RecordKey::new(shard, RecordKind::Usage)
            .bytes(&volume.0.to_be_bytes())
            .bytes(&[USAGE_OF_VOLUME])
    }

    pub fn inode(ino: InodeId) -> RecordKey {
        RecordKey::of_inode(ino, RecordKind::Inode)
    }

    /// Entries are in their directory's shard, in readdir order.
    pub fn entry(dir: InodeId, hash: u64, name: &Name) -> RecordKey {
        RecordKey::of_inode(dir, RecordKind::Entry)
            .u64(hash)
            .bytes(name.as_bytes())
    }

    pub fn xattr(ino: InodeId, name: &[u8]) -> RecordKey {
        RecordKey::of_inode(ino, RecordKind::Xattr).bytes(name)
    }

    /// The name is part of the key: two names of one inode in one directory may have the same hash.
    pub fn back_link(ino: InodeId, dir: InodeId, hash: u64, name: &Name) -> RecordKey {
        RecordKey::of_inode(ino, RecordKind::BackLink)
            .u64(dir.0)
            .u64(hash)
            .bytes(name.as_bytes())
    }

    pub fn orphan(ino: InodeId, session: SessionId) -> RecordKey {
        RecordKey::of_inode(ino, RecordKind::Orphan).u64(session.0)
    }

    pub fn write_lease(ino: InodeId, session: SessionId) -> RecordKey {
        RecordKey::of_inode(ino, RecordKind::WriteLease).u64(session.0)
    }

    pub fn unconfirmed(ino: InodeId) -> RecordKey {
        RecordKey::of_inode(ino, RecordKind::Unconfirmed)
    }

    pub fn stale_members(ino: InodeId) -> RecordKey {
        RecordKey::of_inode(ino, RecordKind::StaleMembers)
    }

    pub fn purge(id: PurgeId) -> RecordKey {
        RecordKey::of_inode(id.ino, RecordKind::Purge).bytes(&id.number.to_be_bytes())
    }

    pub fn session(session: SessionId) -> RecordKey {
        RecordKey::new(FIRST_SHARD, RecordKind::Session).u64(session.0)
    }

    /// Used by the metadata server only: there is a record for each interest of each session, since this record is there.
    pub fn interests_recorded() -> RecordKey {
        RecordKey::new(FIRST_SHARD, RecordKind::Interest)
    }

    /// Used by the metadata server only.
    pub fn interest(session: SessionId, interest: Interest) -> RecordKey {
        let (letter, number) = interest.to_parts();
        RecordKey::new(FIRST_SHARD, RecordKind::Interest)
            .u64(session.0)
            .bytes(&[letter])
            .u64(number)
    }

    pub fn reply(shard: VirtualShard, session: SessionId, slot: Slot) -> RecordKey {
        RecordKey::new(shard, RecordKind::Reply)
            .u64(session.0)
            .bytes(&slot.0.to_be_bytes())
    }

    /// Takes the bytes unchecked: for drivers that read keys from a store.
    pub fn from_bytes(bytes: &[u8]) -> RecordKey {
        RecordKey(SmallVec::from_slice(bytes))
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The first key after this one.
    pub fn successor(&self) -> RecordKey {
        self.clone().bytes(&[0])
    }
}

impl AsRef<[u8]> for RecordKey {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for RecordKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.parse() {
            Some(parsed) => write!(f, "{parsed:?}"),
            None => write!(f, "Key({:02x?})", self.as_bytes()),
        }
    }
}
