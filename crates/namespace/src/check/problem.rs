//! The problems that a check finds, with the texts of `gupfs check`.

use crate::key::RecordKey;
use crate::record::{RecordDecodeError, Usage};
use gupfs_proto::{FileKind, InodeId, Name, SessionId, VirtualShard, VolumeId};

/// The variant names are the `kind` values of `gupfs check --json`: scripts depend on them, so they never change.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Problem {
    #[error("unknown key {0:?}")]
    UnknownKey(RecordKey),
    #[error("{key:?}: {why}")]
    Undecodable {
        key: RecordKey,
        why: RecordDecodeError,
    },
    /// A record that belongs to an inode, directory or session that does not exist.
    #[error("{0:?}: the inode, directory or session that this record belongs to does not exist")]
    Dangling(RecordKey),
    #[error("directory {dir:?}: entry {name:?} refers to inode {ino:?}, which does not exist")]
    EntryWithoutInode {
        dir: InodeId,
        hash: u64,
        name: Name,
        ino: InodeId,
    },
    #[error("directory {dir:?}: entry {name:?} has a wrong hash, lookups do not find it")]
    WrongHash { dir: InodeId, hash: u64, name: Name },
    #[error(
        "directory {dir:?}: entry {name:?} has type {recorded:?}, its inode has type {actual:?}"
    )]
    WrongKind {
        dir: InodeId,
        hash: u64,
        name: Name,
        recorded: FileKind,
        actual: FileKind,
    },
    #[error("inode {ino:?} has no entry and is not an orphan of any session")]
    InodeWithoutEntry { ino: InodeId },
    #[error("inode {ino:?} was unlinked and is not an orphan of any session, but still exists")]
    Leaked { ino: InodeId },
    #[error("inode {ino:?} records {recorded} names, it has {names}")]
    WrongNames {
        ino: InodeId,
        recorded: u32,
        names: u32,
    },
    #[error("directory {ino:?} has more than one name")]
    DirectoryWithTwoNames { ino: InodeId },
    #[error("inode {ino:?} has a parent or back links that do not match its entries")]
    WrongLinks { ino: InodeId },
    #[error("directory {dir:?} is not below the root: its parents form a loop")]
    Loop { dir: InodeId },
    #[error(
        "directory {dir:?} has {entries} entries, {subdirs} of them directories; its inode records other counts"
    )]
    WrongEntries {
        dir: InodeId,
        entries: u64,
        subdirs: u32,
    },
    #[error(
        "inode {ino:?} has {orphan_records} orphan records and {write_leases} write leases; its inode records other counts"
    )]
    WrongUsers {
        ino: InodeId,
        orphan_records: u32,
        write_leases: u32,
    },
    #[error(
        "inode {ino:?} has {xattrs} extended attributes with {names} bytes of names; its inode records other counts"
    )]
    WrongXattrs {
        ino: InodeId,
        xattrs: u32,
        names: u32,
    },
    #[error("inode {ino:?} waits for a truncate that has no record")]
    CutWithoutRecord { ino: InodeId },
    #[error("inode {ino:?} has an invalid layout")]
    BadLayout { ino: InodeId },
    /// As after a crash: the next start removes it.
    #[error("inode {ino:?} is an orphan of session {session}, which does not exist")]
    OrphanWithoutSession { ino: InodeId, session: SessionId },
    /// As after a crash: the next start recovers size and times from the objects.
    #[error("inode {ino:?} has a write lease of session {session}, which does not exist")]
    WriterWithoutSession { ino: InodeId, session: SessionId },
    #[error("{shard:?} records {recorded:?} for {volume:?}, it has {actual:?}")]
    WrongUsage {
        shard: VirtualShard,
        volume: VolumeId,
        recorded: Usage,
        actual: Usage,
    },
    #[error("{shard:?} would assign inode numbers from {next} again, {largest} is in use")]
    NumberNotReserved {
        shard: VirtualShard,
        next: u64,
        largest: u64,
    },
}

impl Problem {
    /// Whether the problem is a record that cannot be read.
    pub(super) fn is_unreadable_record(&self) -> bool {
        matches!(self, Problem::UnknownKey(_) | Problem::Undecodable { .. })
    }

    /// Whether `BackgroundOp::Repair` repairs it without losing an inode that has a name.
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
