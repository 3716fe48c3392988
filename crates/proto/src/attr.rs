//! File attributes as stat(2) returns them.

use crate::ids::{InodeId, ProjectId, VolumeId};
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};

/// The file type of an inode.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum FileKind {
    Regular,
    Directory,
    Symlink,
    Fifo,
    Socket,
    CharDevice,
    BlockDevice,
}

impl FileKind {
    /// The S_IFMT bits of st_mode.
    pub const fn type_bits(self) -> u32 {
        match self {
            FileKind::Fifo => 0o010000,
            FileKind::CharDevice => 0o020000,
            FileKind::Directory => 0o040000,
            FileKind::BlockDevice => 0o060000,
            FileKind::Regular => 0o100000,
            FileKind::Symlink => 0o120000,
            FileKind::Socket => 0o140000,
        }
    }

    pub fn from_type_bits(mode: u32) -> Option<FileKind> {
        use FileKind::*;
        [
            Fifo,
            CharDevice,
            Directory,
            BlockDevice,
            Regular,
            Symlink,
            Socket,
        ]
        .into_iter()
        .find(|kind| kind.type_bits() == mode & 0o170000)
    }
}

/// The twelve permission bits of st_mode (07777).
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub struct FileMode(pub u16);

impl FileMode {
    pub const SETUID: u16 = 0o4000;
    pub const SETGID: u16 = 0o2000;
    pub const STICKY: u16 = 0o1000;

    /// Keeps the permission bits of an st_mode.
    pub const fn from_bits(mode: u32) -> FileMode {
        FileMode((mode & 0o7777) as u16)
    }

    pub const fn has(self, bits: u16) -> bool {
        self.0 & bits == bits
    }

    pub const fn without(self, bits: u16) -> FileMode {
        FileMode(self.0 & !bits)
    }
}

/// All attributes of stat(2) and statx(2). While a session has the write lease of a file, that session's `size` and times are the
/// current ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Attr {
    pub ino: InodeId,
    pub kind: FileKind,
    pub mode: FileMode,
    pub nlink: u32,
    pub uid: u32,
    pub gid: u32,
    /// Device number of a character or block device, else 0.
    pub rdev: u32,
    pub size: u64,
    /// Space in use, in units of 512 bytes.
    pub blocks: u64,
    pub atime: Timestamp,
    pub mtime: Timestamp,
    pub ctime: Timestamp,
    pub btime: Timestamp,
    /// Incremented at every change: the change cookie of statx(2), and the order of two copies of the attributes.
    pub change: u64,
    pub flags: InodeFlags,
    pub project: ProjectId,
    pub volume: VolumeId,
}

impl InodeFlags {
    /// The flags that programs can set (FS_IOC_SETFLAGS).
    pub const SETTABLE: InodeFlags = InodeFlags::IMMUTABLE.union(InodeFlags::APPEND_ONLY);

    /// The flags that follow from the rest of an inode's record. A record that has one itself is damaged.
    pub const COMPUTED: InodeFlags = InodeFlags::HAS_ACL.union(InodeFlags::NO_XATTRS);
}

bitflags::bitflags! {
    /// Flags of an inode that restrict or change operations on it.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
    pub struct InodeFlags: u32 {
        /// Neither data nor attributes nor names may change (chattr +i).
        const IMMUTABLE = 1;
        /// Data may only be appended (chattr +a).
        const APPEND_ONLY = 1 << 1;
        /// The archive has a copy of the data.
        const ARCHIVED = 1 << 2;
        /// Only the archive has the data.
        const RELEASED = 1 << 3;
        /// Carries a POSIX access ACL.
        const HAS_ACL = 1 << 4;
        /// Has no extended attribute, and no ACL. Without the flag it may have some: a server may not say it.
        const NO_XATTRS = 1 << 5;
    }
}
