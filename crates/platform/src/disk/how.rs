//! How files are opened and read, and what is told of them.

use gupfs_proto::Timestamp;

/// How to open a file. Files open for writing can be read as well.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OpenHow {
    pub write: bool,
    /// Make the file if it is not there.
    pub create: bool,
    /// With `create`: fail if it is there.
    pub exclusive: bool,
    /// Past the page cache (O_DIRECT): offset, length and memory aligned to the device's block.
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

    /// Create, and fail with `Exists` if it is there.
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

/// Where a read that finds nothing in memory may wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadHow {
    /// On the calling thread: for bytes known to be in memory, and for threads that have nothing else to do.
    Inline,
    /// What is in memory is copied on the calling thread; only what is not takes a hand-off to the pool.
    MayWait,
}

/// What to expect of a range of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Advice {
    Sequential,
    Random,
    /// Read ahead, now.
    WillNeed,
    /// Give up clean cached pages.
    DontNeed,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EntryKind {
    File,
    Dir,
    Other,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DirEntry {
    pub name: String,
    pub kind: EntryKind,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stat {
    pub len: u64,
    /// Bytes that take space on the device.
    pub allocated: u64,
    pub mtime: Timestamp,
}

/// What the file system under a directory has left for us, in bytes and inodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Space {
    /// The same for directories on one file system, which share this space; another on other hosts.
    pub volume: u64,
    pub total: u64,
    /// What holds nothing.
    pub free: u64,
    /// Of that, what the file system does not keep for others.
    pub available: u64,
    pub inodes_total: u64,
    pub inodes_free: u64,
}
