//! Keys of records: big-endian bytes, so that byte order is scan order. docs/formats/metadata.md has the table.

use gupfs_proto::{InodeId, Name, OstId, SessionId, Slot, VirtualShard, VolumeId};
use smallvec::SmallVec;
use std::fmt;

/// A record's key, ordered by its bytes. Keys with names up to 45 bytes need no allocation.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordKey(SmallVec<[u8; 64]>);

/// The keys `from .. to` in ascending order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyRange {
    pub from: RecordKey,
    pub to: RecordKey,
}

/// The kind of a record: the letter after the virtual shard in its key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum RecordKind {
    BackLink = b'B',
    Entry = b'E',
    Format = b'F',
    KnownTarget = b'G',
    Inode = b'I',
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
}

impl RecordKind {
    pub const ALL: [RecordKind; 16] = [
        RecordKind::BackLink,
        RecordKind::Entry,
        RecordKind::Format,
        RecordKind::KnownTarget,
        RecordKind::Inode,
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
    ];
}

/// Identifies a removal or truncate of objects: the inode, and a number that the inode never uses twice (it shares the counter of
/// the layout's generations).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct PurgeId {
    pub ino: InodeId,
    pub number: u32,
}

/// The components of a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ParsedKey {
    BackLink {
        ino: InodeId,
        dir: InodeId,
        hash: u64,
        name: Name,
    },
    Entry {
        dir: InodeId,
        hash: u64,
        name: Name,
    },
    Format,
    Inode(InodeId),
    Unconfirmed(InodeId),
    WriteLease {
        ino: InodeId,
        session: SessionId,
    },
    InodeCounter(VirtualShard),
    Orphan {
        ino: InodeId,
        session: SessionId,
    },
    AcceptedLoss,
    Purge(PurgeId),
    Reply {
        shard: VirtualShard,
        session: SessionId,
        slot: Slot,
    },
    Session(SessionId),
    RetiredVerifier(OstId),
    KnownTarget(OstId),
    Usage {
        shard: VirtualShard,
        volume: VolumeId,
    },
    Xattr {
        ino: InodeId,
        name: Vec<u8>,
    },
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

    fn of(ino: InodeId, kind: RecordKind) -> RecordKey {
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

    pub fn inode_counter(shard: VirtualShard) -> RecordKey {
        RecordKey::new(shard, RecordKind::InodeCounter)
    }

    pub fn usage(shard: VirtualShard, volume: VolumeId) -> RecordKey {
        RecordKey::new(shard, RecordKind::Usage)
            .bytes(&volume.0.to_be_bytes())
            .bytes(&[USAGE_OF_VOLUME])
    }

    pub fn inode(ino: InodeId) -> RecordKey {
        RecordKey::of(ino, RecordKind::Inode)
    }

    /// Entries are in their directory's shard, in readdir order.
    pub fn entry(dir: InodeId, hash: u64, name: &Name) -> RecordKey {
        RecordKey::of(dir, RecordKind::Entry)
            .u64(hash)
            .bytes(name.as_bytes())
    }

    pub fn xattr(ino: InodeId, name: &[u8]) -> RecordKey {
        RecordKey::of(ino, RecordKind::Xattr).bytes(name)
    }

    /// The name is part of the key: two names of one inode in one directory may have the same hash.
    pub fn back_link(ino: InodeId, dir: InodeId, hash: u64, name: &Name) -> RecordKey {
        RecordKey::of(ino, RecordKind::BackLink)
            .u64(dir.0)
            .u64(hash)
            .bytes(name.as_bytes())
    }

    pub fn orphan(ino: InodeId, session: SessionId) -> RecordKey {
        RecordKey::of(ino, RecordKind::Orphan).u64(session.0)
    }

    pub fn write_lease(ino: InodeId, session: SessionId) -> RecordKey {
        RecordKey::of(ino, RecordKind::WriteLease).u64(session.0)
    }

    pub fn unconfirmed(ino: InodeId) -> RecordKey {
        RecordKey::of(ino, RecordKind::Unconfirmed)
    }

    pub fn purge(id: PurgeId) -> RecordKey {
        RecordKey::of(id.ino, RecordKind::Purge).bytes(&id.number.to_be_bytes())
    }

    pub fn session(session: SessionId) -> RecordKey {
        RecordKey::new(FIRST_SHARD, RecordKind::Session).u64(session.0)
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

    /// None if the bytes are not a key of this version.
    pub fn parse(&self) -> Option<ParsedKey> {
        let (shard, rest) = self.0.split_first_chunk::<2>()?;
        let shard = VirtualShard(u16::from_be_bytes(*shard));
        let (letter, rest) = rest.split_first()?;
        let kind = RecordKind::ALL
            .into_iter()
            .find(|kind| *kind as u8 == *letter)?;
        let mut rest = KeyReader(rest);
        let parsed = match kind {
            RecordKind::Format => ParsedKey::Format,
            RecordKind::AcceptedLoss => ParsedKey::AcceptedLoss,
            RecordKind::InodeCounter => ParsedKey::InodeCounter(shard),
            RecordKind::Usage => {
                let volume = VolumeId(rest.u32()?);
                (rest.u8()? == USAGE_OF_VOLUME).then_some(())?;
                ParsedKey::Usage { shard, volume }
            }
            RecordKind::Session => ParsedKey::Session(SessionId(rest.u64()?)),
            RecordKind::KnownTarget => ParsedKey::KnownTarget(OstId(rest.u16()?)),
            RecordKind::RetiredVerifier => ParsedKey::RetiredVerifier(OstId(rest.u16()?)),
            RecordKind::Reply => ParsedKey::Reply {
                shard,
                session: SessionId(rest.u64()?),
                slot: Slot(rest.u16()?),
            },
            _ => {
                let ino = InodeId(rest.u64()?);
                (ino.shard() == shard).then_some(())?;
                match kind {
                    RecordKind::Inode => ParsedKey::Inode(ino),
                    RecordKind::Unconfirmed => ParsedKey::Unconfirmed(ino),
                    RecordKind::Entry => ParsedKey::Entry {
                        dir: ino,
                        hash: rest.u64()?,
                        name: rest.name()?,
                    },
                    RecordKind::BackLink => ParsedKey::BackLink {
                        ino,
                        dir: InodeId(rest.u64()?),
                        hash: rest.u64()?,
                        name: rest.name()?,
                    },
                    RecordKind::Xattr => ParsedKey::Xattr {
                        ino,
                        name: rest.all().to_vec(),
                    },
                    RecordKind::Orphan => ParsedKey::Orphan {
                        ino,
                        session: SessionId(rest.u64()?),
                    },
                    RecordKind::WriteLease => ParsedKey::WriteLease {
                        ino,
                        session: SessionId(rest.u64()?),
                    },
                    RecordKind::Purge => ParsedKey::Purge(PurgeId {
                        ino,
                        number: rest.u32()?,
                    }),
                    RecordKind::Format
                    | RecordKind::AcceptedLoss
                    | RecordKind::KnownTarget
                    | RecordKind::RetiredVerifier
                    | RecordKind::InodeCounter
                    | RecordKind::Usage
                    | RecordKind::Session
                    | RecordKind::Reply => return None,
                }
            }
        };
        rest.0.is_empty().then_some(parsed)
    }
}

impl KeyRange {
    /// All records of one kind in one shard.
    pub fn of_kind(shard: VirtualShard, kind: RecordKind) -> KeyRange {
        KeyRange::with_prefix(RecordKey::new(shard, kind))
    }

    /// All records of one kind of one inode: entries of a directory, attributes of a file.
    pub(crate) fn of_inode(ino: InodeId, kind: RecordKind) -> KeyRange {
        KeyRange::with_prefix(RecordKey::of(ino, kind))
    }

    /// All back links of an inode.
    pub fn back_links(ino: InodeId) -> KeyRange {
        KeyRange::of_inode(ino, RecordKind::BackLink)
    }

    /// The entries of a directory with this name hash.
    pub fn entries_with_hash(dir: InodeId, hash: u64) -> KeyRange {
        KeyRange::with_prefix(RecordKey::of(dir, RecordKind::Entry).u64(hash))
    }

    /// The entries of a directory with this name hash or a larger one.
    pub(crate) fn entries_from_hash(dir: InodeId, hash: u64) -> KeyRange {
        let all = KeyRange::of_inode(dir, RecordKind::Entry);
        KeyRange {
            from: RecordKey::of(dir, RecordKind::Entry).u64(hash),
            to: all.to,
        }
    }

    /// The write leases of a file.
    pub fn write_leases(ino: InodeId) -> KeyRange {
        KeyRange::of_inode(ino, RecordKind::WriteLease)
    }

    pub(crate) fn replies(shard: VirtualShard, session: SessionId) -> KeyRange {
        KeyRange::with_prefix(RecordKey::new(shard, RecordKind::Reply).u64(session.0))
    }

    /// All keys that begin with these bytes.
    fn with_prefix(prefix: RecordKey) -> KeyRange {
        let mut to = prefix.clone();
        // Incrementing the last byte that is not 0xff gives the first key after the prefix; the kind letter is never 0xff.
        while let Some(last) = to.0.pop() {
            if last < u8::MAX {
                to.0.push(last + 1);
                break;
            }
        }
        KeyRange { from: prefix, to }
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

/// Reads the components of a key; holds the bytes not read yet.
struct KeyReader<'a>(&'a [u8]);

impl<'a> KeyReader<'a> {
    fn chunk<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (chunk, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*chunk)
    }

    fn u8(&mut self) -> Option<u8> {
        self.chunk::<1>().map(|[byte]| byte)
    }

    fn u16(&mut self) -> Option<u16> {
        self.chunk().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.chunk().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.chunk().map(u64::from_be_bytes)
    }

    fn all(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    fn name(&mut self) -> Option<Name> {
        Name::new(self.all()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::new(text.as_bytes()).unwrap()
    }

    #[test]
    fn every_key_parses_back() {
        let ino = InodeId::new(VirtualShard(0x0102), 0x0304);
        let (session, slot, shard) = (SessionId(7), Slot(3), VirtualShard(0x0102));
        for (key, parsed) in [
            (RecordKey::format(), ParsedKey::Format),
            (RecordKey::accepted_loss(), ParsedKey::AcceptedLoss),
            (
                RecordKey::known_target(OstId(3)),
                ParsedKey::KnownTarget(OstId(3)),
            ),
            (
                RecordKey::retired_verifier(OstId(3)),
                ParsedKey::RetiredVerifier(OstId(3)),
            ),
            (
                RecordKey::inode_counter(shard),
                ParsedKey::InodeCounter(shard),
            ),
            (
                RecordKey::usage(shard, VolumeId(9)),
                ParsedKey::Usage {
                    shard,
                    volume: VolumeId(9),
                },
            ),
            (RecordKey::inode(ino), ParsedKey::Inode(ino)),
            (
                RecordKey::entry(ino, 5, &name("a")),
                ParsedKey::Entry {
                    dir: ino,
                    hash: 5,
                    name: name("a"),
                },
            ),
            (
                RecordKey::xattr(ino, b"user.a"),
                ParsedKey::Xattr {
                    ino,
                    name: b"user.a".to_vec(),
                },
            ),
            (
                RecordKey::back_link(ino, InodeId(8), 5, &name("b")),
                ParsedKey::BackLink {
                    ino,
                    dir: InodeId(8),
                    hash: 5,
                    name: name("b"),
                },
            ),
            (
                RecordKey::orphan(ino, session),
                ParsedKey::Orphan { ino, session },
            ),
            (
                RecordKey::write_lease(ino, session),
                ParsedKey::WriteLease { ino, session },
            ),
            (RecordKey::unconfirmed(ino), ParsedKey::Unconfirmed(ino)),
            (
                RecordKey::purge(PurgeId { ino, number: 4 }),
                ParsedKey::Purge(PurgeId { ino, number: 4 }),
            ),
            (RecordKey::session(session), ParsedKey::Session(session)),
            (
                RecordKey::reply(shard, session, slot),
                ParsedKey::Reply {
                    shard,
                    session,
                    slot,
                },
            ),
        ] {
            assert_eq!(key.parse(), Some(parsed));
            assert_eq!(
                RecordKey::from_bytes(&key.as_bytes()[..key.as_bytes().len() - 1]).parse(),
                None.or(without_last_byte(&key))
            );
        }
    }

    /// What a key without its last byte parses to: only an extended attribute's key stays valid, with a shorter name.
    fn without_last_byte(key: &RecordKey) -> Option<ParsedKey> {
        match key.parse()? {
            ParsedKey::Xattr { ino, mut name } => {
                name.pop();
                Some(ParsedKey::Xattr { ino, name })
            }
            _ => None,
        }
    }

    #[test]
    fn an_inodes_key_range_has_its_records_and_no_others() {
        let ino = InodeId(0xff);
        let range = KeyRange::of_inode(ino, RecordKind::Entry);
        let inside = RecordKey::entry(ino, u64::MAX, &name("z"));
        let behind = RecordKey::entry(InodeId(0x100), 0, &name("a"));
        assert!(range.from <= inside && inside < range.to && range.to <= behind);
    }

    #[test]
    fn an_inode_key_with_the_wrong_shard_does_not_parse() {
        let mut bytes = RecordKey::inode(InodeId::new(VirtualShard(1), 5))
            .as_bytes()
            .to_vec();
        bytes[1] = 2;
        assert_eq!(RecordKey::from_bytes(&bytes).parse(), None);
    }
}
