//! `Disk`: the handle of one directory tree.

#[cfg(feature = "fake")]
use super::fake::{FakeDisk, FakeTree};
use super::real::RealDisk;
use super::{DiskEntry, DiskFile, DiskLock, DiskSpace, DiskStat, OpenHow, Result};
use std::path::Path;
use std::sync::Arc;

#[derive(Clone)]
pub struct Disk(DiskSource);

#[derive(Clone)]
enum DiskSource {
    Real(Arc<RealDisk>),
    #[cfg(feature = "fake")]
    Fake(FakeTree),
}

/// Calls the same method on the disk behind the handle, real or fake.
macro_rules! on {
    ($disk:expr, $it:ident => $call:expr) => {
        match &$disk.0 {
            DiskSource::Real($it) => $call,
            #[cfg(feature = "fake")]
            DiskSource::Fake($it) => $call,
        }
    };
}

impl Disk {
    /// The tree under `root`, a directory that exists.
    ///
    /// # Errors
    /// `NotFound` if there is no such directory, `WrongKind` if it is a file, `Denied` without permission.
    pub fn real(root: impl AsRef<Path>) -> Result<Disk> {
        Ok(Disk(DiskSource::Real(Arc::new(RealDisk::new(
            root.as_ref(),
        )?))))
    }

    /// The tree under an existing directory of this tree.
    ///
    /// # Errors
    /// `NotFound` if there is no such directory, `WrongKind` if it is a file.
    pub async fn subdirectory(&self, dir: &str) -> Result<Disk> {
        Ok(Disk(match &self.0 {
            DiskSource::Real(disk) => DiskSource::Real(Arc::new(disk.subdirectory(dir)?)),
            #[cfg(feature = "fake")]
            DiskSource::Fake(disk) => DiskSource::Fake(disk.subdirectory(dir).await?),
        }))
    }

    /// The path of the tree, for messages, and for engines that do their own I/O (fjall); None for a fake disk.
    pub fn path(&self) -> Option<&Path> {
        match &self.0 {
            DiskSource::Real(disk) => Some(disk.path()),
            #[cfg(feature = "fake")]
            DiskSource::Fake(_) => None,
        }
    }

    /// The name of a created file survives a power loss only after `sync_dir` of its directory.
    ///
    /// # Errors
    /// `NotFound` if the file does not exist and `how` does not create it; `Exists` if it exists and `how` is exclusive;
    /// `OutOfHandles` if the process has no descriptor left.
    pub async fn open(&self, path: &str, how: OpenHow) -> Result<DiskFile> {
        Ok(match &self.0 {
            DiskSource::Real(disk) => DiskFile::real(disk.open(path, how).await?),
            #[cfg(feature = "fake")]
            DiskSource::Fake(disk) => DiskFile::fake(disk.open(path, how).await?),
        })
    }

    /// Creates a directory; false if it already exists. It survives a power loss after `sync_dir` of its parent.
    ///
    /// # Errors
    /// `NotFound` without the parent directory, `Full` if the disk has no space or no inodes.
    pub async fn create_dir(&self, path: &str) -> Result<bool> {
        on!(self, disk => disk.create_dir(path).await)
    }

    /// # Errors
    /// `NotFound` if there is no such directory, `NotEmpty` if it has entries.
    pub async fn remove_dir(&self, path: &str) -> Result<()> {
        on!(self, disk => disk.remove_dir(path).await)
    }

    /// # Errors
    /// `NotFound` if there is no such file, `WrongKind` if it is a directory.
    pub async fn remove_file(&self, path: &str) -> Result<()> {
        on!(self, disk => disk.remove_file(path).await)
    }

    /// Renames atomically and replaces a file with the new name. Survives a power loss after `sync_dir` of both directories.
    ///
    /// # Errors
    /// `NotFound` if `from` does not exist or the directory of `to` does not, `WrongKind` if one is a directory and the other a
    /// file.
    pub async fn rename(&self, from: &str, to: &str) -> Result<()> {
        on!(self, disk => disk.rename(from, to).await)
    }

    /// Exchanges the names of two files atomically. Needs no space, so it succeeds on a full disk. Survives a power loss after
    /// `sync_dir` of both directories.
    ///
    /// # Errors
    /// `NotFound` if one of them does not exist, `WrongKind` if one is a directory, `Unsupported` if the file system cannot.
    pub async fn exchange(&self, a: &str, b: &str) -> Result<()> {
        on!(self, disk => disk.exchange(a, b).await)
    }

    /// The entries of a directory, sorted by name.
    ///
    /// # Errors
    /// `NotFound` if there is no such directory, `WrongKind` if it is a file.
    pub async fn list(&self, dir: &str) -> Result<Vec<DiskEntry>> {
        on!(self, disk => disk.list(dir).await)
    }

    /// Makes the creations, renames and removals in a directory survive a power loss.
    ///
    /// # Errors
    /// `NotFound` if there is no such directory; any other error: its changes may be lost.
    pub async fn sync_dir(&self, dir: &str) -> Result<()> {
        on!(self, disk => disk.sync_dir(dir).await)
    }

    /// syncfs(2): makes all earlier writes, creations, renames and removals on the file system survive a power loss, also those
    /// of other processes. It is one journal commit for any number of files; a few files are synced faster one by one.
    ///
    /// The kernel reports a write error since this handle was opened once, also if another descriptor has reported it: make one
    /// call at a time, and act on an error before the next call. It reports errors only if `syncfs_reports_errors`.
    ///
    /// # Errors
    /// A write on the file system failed since the last report: unsynced writes may be lost.
    pub async fn syncfs(&self) -> Result<()> {
        on!(self, disk => disk.syncfs().await)
    }

    /// Whether `syncfs` reports failed writes; if not, the caller must sync file by file.
    pub fn syncfs_reports_errors(&self) -> bool {
        on!(self, disk => disk.syncfs_reports_errors())
    }

    /// None if no file or directory has that name.
    ///
    /// # Errors
    /// The system's error. A name that does not exist is no error.
    pub async fn stat(&self, path: &str) -> Result<Option<DiskStat>> {
        on!(self, disk => disk.stat(path).await)
    }

    /// # Errors
    /// As `stat`.
    pub async fn exists(&self, path: &str) -> Result<bool> {
        Ok(self.stat(path).await?.is_some())
    }

    /// # Errors
    /// The system's error.
    pub async fn space(&self) -> Result<DiskSpace> {
        on!(self, disk => disk.space().await)
    }

    /// Identifies the page cache that has the unsynced writes: the number changes when unsynced writes may be lost, because the
    /// host was restarted or the file system was mounted again. Never zero. The end of a process alone does not change it,
    /// because the page cache outlives the process. Where the kernel has no boot id, each process has a different number.
    ///
    /// # Errors
    /// The system's error, if it cannot identify the mount.
    pub fn page_cache_id(&self) -> Result<u64> {
        on!(self, disk => disk.page_cache_id())
    }

    /// Takes the lock of the lock file `path`, or fails at once with `Locked(pid of the holder)`. The lock is held until the
    /// returned guard is dropped or the process ends, in any way.
    ///
    /// # Errors
    /// `Locked` if another process holds the lock; any other error if the lock file cannot be opened.
    pub async fn lock_exclusive(&self, path: &str) -> Result<DiskLock> {
        Ok(match &self.0 {
            DiskSource::Real(disk) => DiskLock::real(disk.lock_exclusive(path).await?),
            #[cfg(feature = "fake")]
            DiskSource::Fake(disk) => DiskLock::fake(disk.lock_exclusive(path).await?),
        })
    }
}

#[cfg(feature = "fake")]
impl FakeDisk {
    /// A handle of the current process.
    ///
    /// # Panics
    /// When the process is dead: call `crash` or `restart` first.
    pub fn disk(&self) -> Disk {
        Disk(DiskSource::Fake(self.tree()))
    }
}
