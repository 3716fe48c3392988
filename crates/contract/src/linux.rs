//! What is tried: a kernel, as programs and a FUSE server see it.

use std::sync::Arc;

use gupfs_fuse::{Errno, InitFlags, NodeId, NotifyError};

use crate::Otherwise;
use crate::probe::Probe;

/// A kernel, or a model of one.
#[allow(async_fn_in_trait)] // whoever tries facts waits for them on one thread
pub trait Linux {
    type Tree: Tree;

    /// Mounts what `probe` serves. Whatever happens, the mount ends when the result is dropped.
    async fn mount(&self, probe: &Arc<Probe>, flags: Flags) -> Result<Self::Tree, Otherwise>;
}

/// What to agree on with the kernel, beside and less than the door's `Config::FLAGS`.
#[derive(Debug, Clone, Copy)]
pub struct Flags {
    pub with: InitFlags,
    pub without: InitFlags,
}

impl Flags {
    pub fn usual() -> Flags {
        Flags {
            with: InitFlags::POSIX_LOCKS | InitFlags::FLOCK_LOCKS,
            without: InitFlags::empty(),
        }
    }

    pub fn with(mut self, flags: InitFlags) -> Flags {
        self.with |= flags;
        self
    }

    pub fn without(mut self, flags: InitFlags) -> Flags {
        self.without |= flags;
        self
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    Read,
    ReadWrite,
    Append,
}

/// What a server tells a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Word {
    /// Forget the attributes and, from this offset on unless it is negative, the pages of a node.
    Inode {
        node: NodeId,
        offset: i64,
    },
    Entry {
        parent: NodeId,
        name: String,
    },
    /// Forget all names.
    Epoch,
}

impl Word {
    /// Attributes alone.
    pub fn attributes(node: u64) -> Word {
        Word::Inode {
            node: NodeId(node),
            offset: -1,
        }
    }

    pub fn pages(node: u64) -> Word {
        Word::Inode {
            node: NodeId(node),
            offset: 0,
        }
    }

    pub fn name(name: &str) -> Word {
        Word::Entry {
            parent: NodeId::ROOT,
            name: name.into(),
        }
    }
}

/// A mount: what programs do in its root, and what its server says. Futures do something only while they are polled, but
/// what has begun goes on when one is dropped.
#[allow(async_fn_in_trait)]
pub trait Tree {
    type File: OpenFile;

    /// stat(2).
    async fn size(&self, name: &str) -> Result<u64, Errno>;

    /// The names of a new look at the directory.
    async fn list(&self) -> Result<Vec<String>, Errno>;

    /// open(2) with O_CREAT of a name that is absent, closed at once.
    async fn create(&self, name: &str) -> Result<(), Errno>;

    async fn link(&self, name: &str, new: &str) -> Result<(), Errno>;

    async fn open(&self, name: &str, how: How) -> Result<Self::File, Errno>;

    /// Mounts something on a directory.
    async fn cover(&self, name: &str) -> Result<(), Otherwise>;

    /// If something is mounted there.
    async fn is_covered(&self, name: &str) -> bool;

    async fn tell(&self, word: Word) -> Result<(), NotifyError>;

    /// The server is gone.
    async fn abort(&self) -> Result<(), Otherwise>;
}

#[allow(async_fn_in_trait)]
pub trait OpenFile {
    /// The byte at an offset; None behind the end.
    async fn read(&self, at: u64) -> Result<Option<u8>, Errno>;

    async fn write(&self, at: u64, bytes: &[u8]) -> Result<(), Errno>;

    /// For a file opened so: behind the end.
    async fn append(&self, bytes: &[u8]) -> Result<(), Errno>;

    /// splice(2) of the first bytes into a pipe.
    async fn splice(&self) -> Result<(), Errno>;

    /// Maps the first page, shared, when called first, and stores a byte into it.
    async fn store(&self, byte: u8) -> Result<(), Errno>;

    /// flock(2), exclusive.
    async fn flock(&self) -> Result<(), Errno>;

    /// fcntl(2): the whole file as a record, exclusive.
    async fn lock(&self) -> Result<(), Errno>;

    async fn close(self);
}
