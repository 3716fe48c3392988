//! Parsing: the components of a key.

use super::{PurgeId, RecordKey, RecordKind, USAGE_OF_VOLUME};
use crate::interest::Interest;
use gupfs_proto::{InodeId, Name, OstId, SessionId, Slot, VirtualShard, VolumeId};

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
    StaleMembers(InodeId),
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
    Rebalance,
    Purge(PurgeId),
    Reply {
        shard: VirtualShard,
        session: SessionId,
        slot: Slot,
    },
    Session(SessionId),
    InterestsRecorded,
    Interest {
        session: SessionId,
        interest: Interest,
    },
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

impl RecordKey {
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
            RecordKind::Rebalance => ParsedKey::Rebalance,
            RecordKind::InodeCounter => ParsedKey::InodeCounter(shard),
            RecordKind::Usage => {
                let volume = VolumeId(rest.u32()?);
                (rest.u8()? == USAGE_OF_VOLUME).then_some(())?;
                ParsedKey::Usage { shard, volume }
            }
            RecordKind::Session => ParsedKey::Session(SessionId(rest.u64()?)),
            RecordKind::Interest if rest.0.is_empty() => ParsedKey::InterestsRecorded,
            RecordKind::Interest => ParsedKey::Interest {
                session: SessionId(rest.u64()?),
                interest: Interest::from_parts(rest.u8()?, rest.u64()?)?,
            },
            RecordKind::KnownTarget => ParsedKey::KnownTarget(OstId(rest.u16()?)),
            RecordKind::RetiredVerifier => ParsedKey::RetiredVerifier(OstId(rest.u16()?)),
            RecordKind::Reply => ParsedKey::Reply {
                shard,
                session: SessionId(rest.u64()?),
                slot: Slot(rest.u16()?),
            },
            RecordKind::Inode
            | RecordKind::Unconfirmed
            | RecordKind::StaleMembers
            | RecordKind::Entry
            | RecordKind::BackLink
            | RecordKind::Xattr
            | RecordKind::Orphan
            | RecordKind::WriteLease
            | RecordKind::Purge => parse_key_of_inode(shard, kind, &mut rest)?,
        };
        rest.0.is_empty().then_some(parsed)
    }
}

/// The key of a record that belongs to an inode: the inode's number is the first component, and the record is in its shard.
fn parse_key_of_inode(
    shard: VirtualShard,
    kind: RecordKind,
    rest: &mut KeyReader,
) -> Option<ParsedKey> {
    let ino = InodeId(rest.u64()?);
    (ino.shard() == shard).then_some(())?;
    Some(match kind {
        RecordKind::Inode => ParsedKey::Inode(ino),
        RecordKind::Unconfirmed => ParsedKey::Unconfirmed(ino),
        RecordKind::StaleMembers => ParsedKey::StaleMembers(ino),
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
        | RecordKind::Rebalance
        | RecordKind::KnownTarget
        | RecordKind::RetiredVerifier
        | RecordKind::InodeCounter
        | RecordKind::Usage
        | RecordKind::Session
        | RecordKind::Interest
        | RecordKind::Reply => return None,
    })
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
