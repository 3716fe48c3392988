//! What operations take and return.

use gupfs_client::OpenFileFlags;
use gupfs_proto::meta::{AccessMode, OpenMode};
use gupfs_proto::{Attr, FileKind, InodeId, Name};

/// A name in a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DirectoryEntry {
    pub name: Name,
    pub ino: InodeId,
    pub kind: FileKind,
    /// If attributes were asked for; None of a file that was removed meanwhile.
    pub attr: Option<Attr>,
}

/// A part of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileRange {
    pub path: Vec<u8>,
    pub offset: u64,
    pub len: u64,
}

/// The flags of open(2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OpenRequest {
    pub read: bool,
    pub write: bool,
    /// Every write goes to the end of the file.
    pub append: bool,
    pub truncate: bool,
    /// Creates the file if it does not exist, with these permission bits less the umask.
    pub create: Option<u32>,
    /// With `create`: the name must not exist.
    pub exclusive: bool,
    /// Refuses a symbolic link as the last component.
    pub no_follow: bool,
    /// O_SYNC, O_DSYNC, O_DIRECT.
    pub sync: bool,
    pub dsync: bool,
    pub direct: bool,
    /// O_NOATIME.
    pub leaves_atime: bool,
}

impl OpenRequest {
    pub fn read() -> OpenRequest {
        OpenRequest {
            read: true,
            ..OpenRequest::default()
        }
    }

    /// Reads and writes; creates the file if need be, with these permission bits less the umask.
    pub fn create(mode: u32) -> OpenRequest {
        OpenRequest {
            read: true,
            write: true,
            create: Some(mode),
            ..OpenRequest::default()
        }
    }

    pub(crate) fn mode(&self, kill_privileges: bool) -> OpenMode {
        let mut access = AccessMode::empty();
        access.set(AccessMode::READ, self.read);
        access.set(AccessMode::WRITE, self.write);
        access.set(AccessMode::APPEND, self.append && self.write);
        OpenMode {
            access,
            truncate: self.truncate,
            kill_privileges: self.truncate && kill_privileges,
        }
    }

    pub(crate) fn flags(&self) -> OpenFileFlags {
        OpenFileFlags {
            append: self.append,
            sync: self.sync,
            dsync: self.dsync,
            direct: self.direct,
        }
    }
}
