//! What can be wrong, in the words of `gupfs check`.

use crate::key::Key;
use crate::record::{Undecodable, Usage};
use gupfs_proto::{FileKind, InodeId, Name, SessionId, VirtualShard, VolumeId};

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Problem {
    #[error("key {0:?} is none that this program knows")]
    UnknownKey(Key),
    #[error("{key:?}: {why}")]
    Undecodable { key: Key, why: Undecodable },
    /// A record about an inode, directory or session that is not there.
    #[error("{0:?} belongs to nothing")]
    Dangling(Key),
    #[error("directory {dir:?} names {name:?}, inode {ino:?}, which is not there")]
    EntryWithoutInode {
        dir: InodeId,
        hash: u64,
        name: Name,
        ino: InodeId,
    },
    #[error("directory {dir:?} has {name:?} where no lookup finds it")]
    WrongHash { dir: InodeId, hash: u64, name: Name },
    #[error("directory {dir:?} says {name:?} is a {says:?}, it is a {actual:?}")]
    WrongKind {
        dir: InodeId,
        hash: u64,
        name: Name,
        says: FileKind,
        actual: FileKind,
    },
    #[error("inode {ino:?} has no name and is not held open")]
    InodeWithoutEntry { ino: InodeId },
    #[error("inode {ino:?} was removed, is held by nobody, and still there")]
    Leaked { ino: InodeId },
    #[error("inode {ino:?} counts {says} names, it has {names}")]
    WrongNames { ino: InodeId, says: u32, names: u32 },
    #[error("directory {ino:?} has more than one name")]
    DirectoryWithTwoNames { ino: InodeId },
    #[error("inode {ino:?} has back links that are not its names")]
    WrongLinks { ino: InodeId },
    #[error("directory {dir:?} is not under the root: its way up is a loop")]
    Loop { dir: InodeId },
    #[error(
        "directory {dir:?} has {entries} entries, {subdirs} of them directories, and counts otherwise"
    )]
    WrongEntries {
        dir: InodeId,
        entries: u64,
        subdirs: u32,
    },
    #[error(
        "inode {ino:?} is held by {holders} and written by {writers} sessions, and counts otherwise"
    )]
    WrongUsers {
        ino: InodeId,
        holders: u32,
        writers: u32,
    },
    #[error(
        "inode {ino:?} has {xattrs} attributes with {names} bytes of names, and counts otherwise"
    )]
    WrongXattrs {
        ino: InodeId,
        xattrs: u32,
        names: u32,
    },
    #[error("inode {ino:?} waits for a cut that no record says")]
    CutWithoutRecord { ino: InodeId },
    #[error("inode {ino:?} has a layout that none can have")]
    BadLayout { ino: InodeId },
    /// As after a crash: the next start clears it up.
    #[error("inode {ino:?} is held by session {session}, which is not there")]
    OrphanWithoutSession { ino: InodeId, session: SessionId },
    /// As after a crash: the next start asks the objects.
    #[error("inode {ino:?} is written by session {session}, which is not there")]
    WriterWithoutSession { ino: InodeId, session: SessionId },
    #[error("{shard:?} counts {says:?} for {volume:?}, it has {found:?}")]
    WrongUsage {
        shard: VirtualShard,
        volume: VolumeId,
        says: Usage,
        found: Usage,
    },
    #[error("{shard:?} would give inode numbers from {next} again, {largest} is in use")]
    NumberNotReserved {
        shard: VirtualShard,
        next: u64,
        largest: u64,
    },
}

impl Problem {
    /// A record that cannot be read.
    pub(super) fn hides_others(&self) -> bool {
        matches!(self, Problem::UnknownKey(_) | Problem::Undecodable { .. })
    }

    /// Whether `ChoreOp::Repair` mends it without losing anything that a name leads to.
    pub fn is_repairable(&self) -> bool {
        match self {
            Problem::Dangling(_)
            | Problem::EntryWithoutInode { .. }
            | Problem::WrongHash { .. }
            | Problem::WrongKind { .. }
            | Problem::InodeWithoutEntry { .. }
            | Problem::Leaked { .. }
            | Problem::WrongNames { .. }
            | Problem::WrongEntries { .. }
            | Problem::WrongUsers { .. }
            | Problem::WrongXattrs { .. }
            | Problem::OrphanWithoutSession { .. }
            | Problem::WrongUsage { .. }
            | Problem::NumberNotReserved { .. } => true,
            Problem::UnknownKey(_)
            | Problem::Undecodable { .. }
            | Problem::DirectoryWithTwoNames { .. }
            | Problem::WrongLinks { .. }
            | Problem::Loop { .. }
            | Problem::CutWithoutRecord { .. }
            | Problem::BadLayout { .. }
            | Problem::WriterWithoutSession { .. } => false,
        }
    }
}
