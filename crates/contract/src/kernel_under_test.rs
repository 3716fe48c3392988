//! The kernel under test, as programs and a FUSE server see it.

use std::sync::Arc;

use gupfs_fuse::{Errno, InitFlags, NodeId, NotifyError};

use crate::ProbeFailure;
use crate::probe_server::ProbeServer;

/// A kernel, or a model of one.
#[allow(async_fn_in_trait)] // probes run on one thread
pub trait KernelUnderTest {
    type Mount: ProbeMount;

    /// Mounts the file system of `server`. The mount ends when the result is dropped, also after a failure.
    ///
    /// # Errors
    /// `Untested` if the file system cannot be mounted.
    async fn mount(
        &self,
        server: &Arc<ProbeServer>,
        flags: InitFlagChanges,
    ) -> Result<Self::Mount, ProbeFailure>;
}

/// INIT flags to add to and to remove from `gupfs_fuse::MountConfig::FLAGS`.
#[derive(Debug, Clone, Copy)]
pub struct InitFlagChanges {
    pub with: InitFlags,
    pub without: InitFlags,
}

impl InitFlagChanges {
    pub fn usual() -> InitFlagChanges {
        InitFlagChanges {
            with: InitFlags::POSIX_LOCKS | InitFlags::FLOCK_LOCKS,
            without: InitFlags::empty(),
        }
    }

    pub fn with(mut self, flags: InitFlags) -> InitFlagChanges {
        self.with |= flags;
        self
    }

    pub fn without(mut self, flags: InitFlags) -> InitFlagChanges {
        self.without |= flags;
        self
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeOpenMode {
    Read,
    ReadWrite,
    Append,
}

/// A notification of the server to the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KernelNotification {
    /// Invalidate the attributes of a node, and its pages from this offset on unless it is negative.
    Inode {
        node: NodeId,
        offset: i64,
    },
    Entry {
        parent: NodeId,
        name: String,
    },
    /// Expire all names.
    Epoch,
}

impl KernelNotification {
    /// Invalidates only attributes.
    pub fn attributes(node: u64) -> KernelNotification {
        KernelNotification::Inode {
            node: NodeId(node),
            offset: -1,
        }
    }

    pub fn pages(node: u64) -> KernelNotification {
        KernelNotification::Inode {
            node: NodeId(node),
            offset: 0,
        }
    }

    pub fn name(name: &str) -> KernelNotification {
        KernelNotification::Entry {
            parent: NodeId::ROOT,
            name: name.into(),
        }
    }
}

/// A mount: operations of programs in its root directory, and notifications of its server. Futures make progress only while
/// they are polled, but an operation that has begun continues when its future is dropped.
#[allow(async_fn_in_trait)]
pub trait ProbeMount {
    type File: ProbeFile;
    type Directory: ProbeDirectory;

    /// stat(2).
    ///
    /// # Errors
    /// The errno of stat(2).
    async fn size(&self, name: &str) -> Result<u64, Errno>;

    /// The names of a new listing of the directory.
    ///
    /// # Errors
    /// The errno of opendir(2) or readdir(2).
    async fn list(&self) -> Result<Vec<String>, Errno>;

    /// open(2) with O_CREAT of an absent name; the file is closed at once.
    ///
    /// # Errors
    /// The errno of open(2).
    async fn create(&self, name: &str) -> Result<(), Errno>;

    /// # Errors
    /// The errno of link(2).
    async fn link(&self, name: &str, new: &str) -> Result<(), Errno>;

    /// # Errors
    /// The errno of open(2).
    async fn open(&self, name: &str, how: ProbeOpenMode) -> Result<Self::File, Errno>;

    /// Mounts another file system on a directory.
    ///
    /// # Errors
    /// `Untested` if the file system cannot be mounted, for example without root.
    async fn cover(&self, name: &str) -> Result<(), ProbeFailure>;

    /// Whether another file system is mounted there.
    async fn is_covered(&self, name: &str) -> bool;

    /// # Errors
    /// The error that the kernel returns for the notification.
    async fn notify(&self, notification: KernelNotification) -> Result<(), NotifyError>;

    /// Aborts the connection, as when the server is gone.
    ///
    /// # Errors
    /// `Untested` if the connection cannot be aborted.
    async fn abort(&self) -> Result<(), ProbeFailure>;

    /// Notifies the kernel that this name of `child` was deleted.
    ///
    /// # Errors
    /// `Untested` if the notification cannot be sent; inside, the error that the kernel returns.
    async fn notify_deletion(
        &self,
        parent: NodeId,
        child: u64,
        name: &str,
    ) -> Result<Result<(), NotifyError>, ProbeFailure>;

    /// Invalidates a name, so that the kernel forgets the node if nothing else uses it.
    ///
    /// # Errors
    /// `Untested` if the kernel does not have the name.
    async fn evict(&self, name: &str) -> Result<(), ProbeFailure>;

    /// mkdir(2).
    ///
    /// # Errors
    /// `Untested` if mkdir(2) fails.
    async fn make_directory(&self, name: &str) -> Result<(), ProbeFailure>;

    /// chmod(2).
    ///
    /// # Errors
    /// `Untested` if chmod(2) fails.
    async fn set_mode(&self, name: &str, mode: u32) -> Result<(), ProbeFailure>;

    /// The user that the file's access ACL names.
    ///
    /// # Errors
    /// `Untested` if getxattr(2) fails.
    async fn acl_user(&self, name: &str) -> Result<Option<u32>, ProbeFailure>;

    /// open(2) with O_TRUNC.
    ///
    /// # Errors
    /// `Untested` if open(2) fails.
    async fn open_truncating(&self, name: &str) -> Result<Self::File, ProbeFailure>;

    /// Starts a program whose working directory this is.
    ///
    /// # Errors
    /// `Untested` if chdir(2) fails.
    async fn enter(&self, name: &str) -> Result<Self::Directory, ProbeFailure>;
}

/// A program in its working directory.
#[allow(async_fn_in_trait)]
pub trait ProbeDirectory {
    /// getcwd(3): the last component.
    ///
    /// # Errors
    /// The errno of getcwd(3): ENOENT if the directory has no path.
    async fn name(&self) -> Result<String, Errno>;

    /// stat(2) of a name relative to the directory.
    ///
    /// # Errors
    /// The errno of stat(2).
    async fn size(&self, name: &str) -> Result<u64, Errno>;
}

#[allow(async_fn_in_trait)]
pub trait ProbeFile {
    type Pipe: ProbePipe;

    /// The byte at an offset; None after the end of the file.
    ///
    /// # Errors
    /// The errno of pread(2).
    async fn read(&self, at: u64) -> Result<Option<u8>, Errno>;

    /// # Errors
    /// The errno of pwrite(2).
    async fn write(&self, at: u64, bytes: &[u8]) -> Result<(), Errno>;

    /// Writes at the end of a file that is opened with O_APPEND.
    ///
    /// # Errors
    /// The errno of write(2).
    async fn append(&self, bytes: &[u8]) -> Result<(), Errno>;

    /// Copies the first bytes into a pipe with splice(2).
    ///
    /// # Errors
    /// The errno of splice(2).
    async fn splice(&self) -> Result<(), Errno>;

    /// Stores a byte into a shared mapping of the first page, which the first call creates.
    ///
    /// # Errors
    /// The errno of mmap(2).
    async fn store(&self, byte: u8) -> Result<(), Errno>;

    /// Takes an exclusive flock(2) lock.
    ///
    /// # Errors
    /// The errno of flock(2).
    async fn flock(&self) -> Result<(), Errno>;

    /// Takes an exclusive fcntl(2) lock on the entire file.
    ///
    /// # Errors
    /// The errno of fcntl(2).
    async fn lock(&self) -> Result<(), Errno>;

    async fn close(self);

    /// A byte of the first page, loaded through the same mapping as `store` uses.
    ///
    /// # Errors
    /// `Untested` if mmap(2) fails.
    async fn load(&self) -> Result<u8, ProbeFailure>;

    /// Moves the first bytes into a pipe with splice(2), and leaves them there.
    ///
    /// # Errors
    /// `Untested` if splice(2) fails.
    async fn splice_into_pipe(&self) -> Result<Self::Pipe, ProbeFailure>;

    /// The first byte that sendfile(2) sends.
    ///
    /// # Errors
    /// `Untested` if sendfile(2) fails.
    async fn send(&self) -> Result<u8, ProbeFailure>;

    /// The number of links that fstat(2) returns.
    ///
    /// # Errors
    /// `Untested` if fstat(2) fails.
    async fn links(&self) -> Result<u64, ProbeFailure>;
}

/// Bytes of a file that are in a pipe.
pub trait ProbePipe {
    /// Reads the first byte from the pipe.
    ///
    /// # Errors
    /// The errno of read(2).
    fn first(&self) -> Result<u8, Errno>;
}
