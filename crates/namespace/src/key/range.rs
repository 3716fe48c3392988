//! Ranges of keys that operations scan.

use super::{RecordKey, RecordKind};
use gupfs_proto::{InodeId, SessionId, VirtualShard};

/// The keys `from .. to` in ascending order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyRange {
    pub from: RecordKey,
    pub to: RecordKey,
}

impl KeyRange {
    /// All records of one kind in one shard.
    pub fn of_kind(shard: VirtualShard, kind: RecordKind) -> KeyRange {
        KeyRange::with_prefix(RecordKey::new(shard, kind))
    }

    /// All records of one kind of one inode: entries of a directory, attributes of a file.
    pub(crate) fn of_inode(ino: InodeId, kind: RecordKind) -> KeyRange {
        KeyRange::with_prefix(RecordKey::of_inode(ino, kind))
    }

    /// All back links of an inode.
    pub fn back_links(ino: InodeId) -> KeyRange {
        KeyRange::of_inode(ino, RecordKind::BackLink)
    }

    /// The entries of a directory with this name hash.
    pub fn entries_with_hash(dir: InodeId, hash: u64) -> KeyRange {
        KeyRange::with_prefix(RecordKey::of_inode(dir, RecordKind::Entry).u64(hash))
    }

    /// The entries of a directory with this name hash or a larger one.
    pub(crate) fn entries_from_hash(dir: InodeId, hash: u64) -> KeyRange {
        let all = KeyRange::of_inode(dir, RecordKind::Entry);
        KeyRange {
            from: RecordKey::of_inode(dir, RecordKind::Entry).u64(hash),
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

    /// The interests of a session.
    pub fn interests(session: SessionId) -> KeyRange {
        KeyRange::with_prefix(RecordKey::new(VirtualShard(0), RecordKind::Interest).u64(session.0))
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
