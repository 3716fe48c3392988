//! Where a record lies: big-endian bytes, so that their order is the order of scans. The table is docs/formats/metadata.md.

use gupfs_proto::{InodeId, Name, OstId, SessionId, Slot, VirtualShard, VolumeId};
use smallvec::SmallVec;
use std::fmt;

/// A record's key. Orders like its bytes. Names up to 45 bytes need no allocation.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(SmallVec<[u8; 64]>);

/// The keys `from .. to` in ascending order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyRange {
    pub from: Key,
    pub to: Key,
}

/// The letter after the virtual shard.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Kind {
    BackLink = b'B',
    Entry = b'E',
    Format = b'F',
    Target = b'G',
    Inode = b'I',
    EndedLife = b'K',
    Unconfirmed = b'L',
    Writer = b'M',
    Numbers = b'N',
    Orphan = b'O',
    Purge = b'P',
    Owner = b'Q',
    Reply = b'R',
    Session = b'S',
    Usage = b'U',
    Xattr = b'X',
}

impl Kind {
    pub const ALL: [Kind; 16] = [
        Kind::BackLink,
        Kind::Entry,
        Kind::Format,
        Kind::Target,
        Kind::Inode,
        Kind::EndedLife,
        Kind::Unconfirmed,
        Kind::Writer,
        Kind::Numbers,
        Kind::Orphan,
        Kind::Purge,
        Kind::Owner,
        Kind::Reply,
        Kind::Session,
        Kind::Usage,
        Kind::Xattr,
    ];
}

/// Which purge or cut: the inode and a number of its own, never used twice by that inode (it shares the counter of the
/// layout's generations).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct PurgeId {
    pub ino: InodeId,
    pub number: u32,
}

/// A key taken apart.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Parsed {
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
    Writer {
        ino: InodeId,
        session: SessionId,
    },
    Numbers(VirtualShard),
    Orphan {
        ino: InodeId,
        session: SessionId,
    },
    Owner,
    Purge(PurgeId),
    Reply {
        shard: VirtualShard,
        session: SessionId,
        slot: Slot,
    },
    Session(SessionId),
    EndedLife(OstId),
    Target(OstId),
    Usage {
        shard: VirtualShard,
        volume: VolumeId,
    },
    Xattr {
        ino: InodeId,
        name: Vec<u8>,
    },
}

/// Sessions and the format lie in the first shard.
const FIRST: VirtualShard = VirtualShard(0);

/// `U` counts per volume ('v'); users, groups and projects come with quotas.
const USAGE_OF_VOLUME: u8 = b'v';

impl Key {
    fn new(shard: VirtualShard, kind: Kind) -> Key {
        let mut bytes = SmallVec::new();
        bytes.extend_from_slice(&shard.0.to_be_bytes());
        bytes.push(kind as u8);
        Key(bytes)
    }

    fn u64(mut self, number: u64) -> Key {
        self.0.extend_from_slice(&number.to_be_bytes());
        self
    }

    fn bytes(mut self, bytes: &[u8]) -> Key {
        self.0.extend_from_slice(bytes);
        self
    }

    fn of(ino: InodeId, kind: Kind) -> Key {
        Key::new(ino.shard(), kind).u64(ino.0)
    }

    pub fn format() -> Key {
        Key::new(FIRST, Kind::Format)
    }

    /// The metadata server's own: who a target was when it was last heard.
    pub fn ended_life(ost: OstId) -> Key {
        Key::new(FIRST, Kind::EndedLife).bytes(&ost.0.to_be_bytes())
    }

    pub fn target(ost: OstId) -> Key {
        Key::new(FIRST, Kind::Target).bytes(&ost.0.to_be_bytes())
    }

    /// The metadata server's own: which losses were accepted.
    pub fn owner() -> Key {
        Key::new(FIRST, Kind::Owner)
    }

    pub fn numbers(shard: VirtualShard) -> Key {
        Key::new(shard, Kind::Numbers)
    }

    pub fn usage(shard: VirtualShard, volume: VolumeId) -> Key {
        Key::new(shard, Kind::Usage)
            .bytes(&volume.0.to_be_bytes())
            .bytes(&[USAGE_OF_VOLUME])
    }

    pub fn inode(ino: InodeId) -> Key {
        Key::of(ino, Kind::Inode)
    }

    /// Entries lie in their directory's shard, in the order of readdir.
    pub fn entry(dir: InodeId, hash: u64, name: &Name) -> Key {
        Key::of(dir, Kind::Entry).u64(hash).bytes(name.as_bytes())
    }

    pub fn xattr(ino: InodeId, name: &[u8]) -> Key {
        Key::of(ino, Kind::Xattr).bytes(name)
    }

    /// The name is part of it: two names of one inode in one directory may have the same hash.
    pub fn back_link(ino: InodeId, dir: InodeId, hash: u64, name: &Name) -> Key {
        Key::of(ino, Kind::BackLink)
            .u64(dir.0)
            .u64(hash)
            .bytes(name.as_bytes())
    }

    pub fn orphan(ino: InodeId, session: SessionId) -> Key {
        Key::of(ino, Kind::Orphan).u64(session.0)
    }

    pub fn writer(ino: InodeId, session: SessionId) -> Key {
        Key::of(ino, Kind::Writer).u64(session.0)
    }

    pub fn unconfirmed(ino: InodeId) -> Key {
        Key::of(ino, Kind::Unconfirmed)
    }

    pub fn purge(id: PurgeId) -> Key {
        Key::of(id.ino, Kind::Purge).bytes(&id.number.to_be_bytes())
    }

    pub fn session(session: SessionId) -> Key {
        Key::new(FIRST, Kind::Session).u64(session.0)
    }

    pub fn reply(shard: VirtualShard, session: SessionId, slot: Slot) -> Key {
        Key::new(shard, Kind::Reply)
            .u64(session.0)
            .bytes(&slot.0.to_be_bytes())
    }

    /// Takes bytes as they are: for drivers that read keys from a store.
    pub fn from_bytes(bytes: &[u8]) -> Key {
        Key(SmallVec::from_slice(bytes))
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The first key after this one.
    pub fn successor(&self) -> Key {
        self.clone().bytes(&[0])
    }

    /// None for bytes that no key of this version has.
    pub fn parse(&self) -> Option<Parsed> {
        let (shard, rest) = self.0.split_first_chunk::<2>()?;
        let shard = VirtualShard(u16::from_be_bytes(*shard));
        let (letter, rest) = rest.split_first()?;
        let kind = Kind::ALL.into_iter().find(|kind| *kind as u8 == *letter)?;
        let mut rest = Rest(rest);
        let parsed = match kind {
            Kind::Format => Parsed::Format,
            Kind::Owner => Parsed::Owner,
            Kind::Numbers => Parsed::Numbers(shard),
            Kind::Usage => {
                let volume = VolumeId(rest.u32()?);
                (rest.u8()? == USAGE_OF_VOLUME).then_some(())?;
                Parsed::Usage { shard, volume }
            }
            Kind::Session => Parsed::Session(SessionId(rest.u64()?)),
            Kind::Target => Parsed::Target(OstId(rest.u16()?)),
            Kind::EndedLife => Parsed::EndedLife(OstId(rest.u16()?)),
            Kind::Reply => Parsed::Reply {
                shard,
                session: SessionId(rest.u64()?),
                slot: Slot(rest.u16()?),
            },
            _ => {
                let ino = InodeId(rest.u64()?);
                (ino.shard() == shard).then_some(())?;
                match kind {
                    Kind::Inode => Parsed::Inode(ino),
                    Kind::Unconfirmed => Parsed::Unconfirmed(ino),
                    Kind::Entry => Parsed::Entry {
                        dir: ino,
                        hash: rest.u64()?,
                        name: rest.name()?,
                    },
                    Kind::BackLink => Parsed::BackLink {
                        ino,
                        dir: InodeId(rest.u64()?),
                        hash: rest.u64()?,
                        name: rest.name()?,
                    },
                    Kind::Xattr => Parsed::Xattr {
                        ino,
                        name: rest.all().to_vec(),
                    },
                    Kind::Orphan => Parsed::Orphan {
                        ino,
                        session: SessionId(rest.u64()?),
                    },
                    Kind::Writer => Parsed::Writer {
                        ino,
                        session: SessionId(rest.u64()?),
                    },
                    Kind::Purge => Parsed::Purge(PurgeId {
                        ino,
                        number: rest.u32()?,
                    }),
                    Kind::Format
                    | Kind::Owner
                    | Kind::Target
                    | Kind::EndedLife
                    | Kind::Numbers
                    | Kind::Usage
                    | Kind::Session
                    | Kind::Reply => return None,
                }
            }
        };
        rest.0.is_empty().then_some(parsed)
    }
}

impl KeyRange {
    /// All records of one kind in one shard.
    pub fn of_kind(shard: VirtualShard, kind: Kind) -> KeyRange {
        KeyRange::under(Key::new(shard, kind))
    }

    /// All records of one kind of one inode: entries of a directory, attributes of a file.
    pub(crate) fn of_inode(ino: InodeId, kind: Kind) -> KeyRange {
        KeyRange::under(Key::of(ino, kind))
    }

    /// Back links of an inode.
    pub fn back_links(ino: InodeId) -> KeyRange {
        KeyRange::of_inode(ino, Kind::BackLink)
    }

    /// The entries of a directory with one hash.
    pub fn entries_with(dir: InodeId, hash: u64) -> KeyRange {
        KeyRange::under(Key::of(dir, Kind::Entry).u64(hash))
    }

    /// The entries of a directory from a hash on.
    pub(crate) fn entries_from(dir: InodeId, hash: u64) -> KeyRange {
        let all = KeyRange::of_inode(dir, Kind::Entry);
        KeyRange {
            from: Key::of(dir, Kind::Entry).u64(hash),
            to: all.to,
        }
    }

    /// Who holds a file for writing.
    pub fn writers(ino: InodeId) -> KeyRange {
        KeyRange::of_inode(ino, Kind::Writer)
    }

    pub(crate) fn replies(shard: VirtualShard, session: SessionId) -> KeyRange {
        KeyRange::under(Key::new(shard, Kind::Reply).u64(session.0))
    }

    /// All keys that begin with these bytes.
    fn under(prefix: Key) -> KeyRange {
        let mut to = prefix.clone();
        // The last byte that can rise makes the first key behind the prefix; the kind letter always can.
        while let Some(last) = to.0.pop() {
            if last < u8::MAX {
                to.0.push(last + 1);
                break;
            }
        }
        KeyRange { from: prefix, to }
    }
}

impl AsRef<[u8]> for Key {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.parse() {
            Some(parsed) => write!(f, "{parsed:?}"),
            None => write!(f, "Key({:02x?})", self.as_bytes()),
        }
    }
}

/// What is left of a key while it is taken apart.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
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
    fn every_key_reads_back() {
        let ino = InodeId::new(VirtualShard(0x0102), 0x0304);
        let (session, slot, shard) = (SessionId(7), Slot(3), VirtualShard(0x0102));
        for (key, parsed) in [
            (Key::format(), Parsed::Format),
            (Key::owner(), Parsed::Owner),
            (Key::target(OstId(3)), Parsed::Target(OstId(3))),
            (Key::ended_life(OstId(3)), Parsed::EndedLife(OstId(3))),
            (Key::numbers(shard), Parsed::Numbers(shard)),
            (
                Key::usage(shard, VolumeId(9)),
                Parsed::Usage {
                    shard,
                    volume: VolumeId(9),
                },
            ),
            (Key::inode(ino), Parsed::Inode(ino)),
            (
                Key::entry(ino, 5, &name("a")),
                Parsed::Entry {
                    dir: ino,
                    hash: 5,
                    name: name("a"),
                },
            ),
            (
                Key::xattr(ino, b"user.a"),
                Parsed::Xattr {
                    ino,
                    name: b"user.a".to_vec(),
                },
            ),
            (
                Key::back_link(ino, InodeId(8), 5, &name("b")),
                Parsed::BackLink {
                    ino,
                    dir: InodeId(8),
                    hash: 5,
                    name: name("b"),
                },
            ),
            (Key::orphan(ino, session), Parsed::Orphan { ino, session }),
            (Key::writer(ino, session), Parsed::Writer { ino, session }),
            (Key::unconfirmed(ino), Parsed::Unconfirmed(ino)),
            (
                Key::purge(PurgeId { ino, number: 4 }),
                Parsed::Purge(PurgeId { ino, number: 4 }),
            ),
            (Key::session(session), Parsed::Session(session)),
            (
                Key::reply(shard, session, slot),
                Parsed::Reply {
                    shard,
                    session,
                    slot,
                },
            ),
        ] {
            assert_eq!(key.parse(), Some(parsed));
            assert_eq!(
                Key::from_bytes(&key.as_bytes()[..key.as_bytes().len() - 1]).parse(),
                None.or(cut(&key))
            );
        }
    }

    /// What a key without its last byte still says: a shorter attribute name is one too.
    fn cut(key: &Key) -> Option<Parsed> {
        match key.parse()? {
            Parsed::Xattr { ino, mut name } => {
                name.pop();
                Some(Parsed::Xattr { ino, name })
            }
            _ => None,
        }
    }

    #[test]
    fn an_inodes_range_holds_its_records_and_no_neighbours() {
        let ino = InodeId(0xff);
        let range = KeyRange::of_inode(ino, Kind::Entry);
        let inside = Key::entry(ino, u64::MAX, &name("z"));
        let behind = Key::entry(InodeId(0x100), 0, &name("a"));
        assert!(range.from <= inside && inside < range.to && range.to <= behind);
    }

    #[test]
    fn an_inode_in_the_wrong_shard_is_no_key() {
        let mut bytes = Key::inode(InodeId::new(VirtualShard(1), 5))
            .as_bytes()
            .to_vec();
        bytes[1] = 2;
        assert_eq!(Key::from_bytes(&bytes).parse(), None);
    }
}
