//! Options for opening and reading files, and their attributes.

use gupfs_proto::Timestamp;

/// Options for opening a file (as `struct open_how` of Linux). A file open for writing can also be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OpenHow {
    pub write: bool,
    /// Create the file if it does not exist.
    pub create: bool,
    /// With `create`: fail if it exists.
    pub exclusive: bool,
    /// Bypass the page cache (O_DIRECT): offset, length and memory must be aligned to the device's block size.
    pub direct: bool,
}

impl OpenHow {
    pub const fn read() -> OpenHow {
        OpenHow {
            write: false,
            create: false,
            exclusive: false,
            direct: false,
        }
    }

    pub const fn write() -> OpenHow {
        OpenHow {
            write: true,
            ..OpenHow::read()
        }
    }

    pub const fn create(mut self) -> OpenHow {
        self.create = true;
        self
    }

    /// Create the file, and fail with `Exists` if it exists.
    pub const fn create_new(mut self) -> OpenHow {
        self.create = true;
        self.exclusive = true;
        self
    }

    pub const fn direct(mut self) -> OpenHow {
        self.direct = true;
        self
    }
}

/// How a read of bytes that are not in the page cache waits for the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnCacheMiss {
    /// It blocks the calling thread: for bytes known to be in memory, and for threads without other work.
    Block,
    /// The calling thread copies bytes that are in memory; only the rest is handed off to a ring or the thread pool.
    HandOff,
}

/// Expected access to a range of a file (fadvise).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Advice {
    Sequential,
    Random,
    /// Read ahead now.
    WillNeed,
    /// Drop clean cached pages.
    DontNeed,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EntryKind {
    File,
    Dir,
    Other,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DiskEntry {
    pub name: String,
    pub kind: EntryKind,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DiskStat {
    pub len: u64,
    /// Bytes of space that the file takes on the device.
    pub allocated: u64,
    pub mtime: Timestamp,
}

/// Space of the file system that has the directory, in bytes and inodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DiskSpace {
    /// The same number for all directories on one file system, which share its space; different on different hosts.
    pub volume: u64,
    pub total: u64,
    /// Unused space.
    pub free: u64,
    /// Part of `free` that the file system does not reserve for root.
    pub available: u64,
    pub inodes_total: u64,
    pub inodes_free: u64,
}
