//! `Disk`: the handle to one directory tree.

use super::real::RealDisk;
use super::{DirEntry, DiskFile, DiskLock, OpenHow, Result, Space, Stat};
use std::path::Path;
use std::sync::Arc;

#[derive(Clone)]
pub struct Disk(DiskSource);

#[derive(Clone)]
pub(crate) enum DiskSource {
    Real(Arc<RealDisk>),
    #[cfg(feature = "fake")]
    Fake(crate::fake::FakeTree),
}

/// Runs the same call on whichever disk stands behind the handle.
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
    pub fn real(root: impl AsRef<Path>) -> Result<Disk> {
        Ok(Disk(DiskSource::Real(Arc::new(RealDisk::new(
            root.as_ref(),
        )?))))
    }

    #[cfg(feature = "fake")]
    pub(crate) fn fake(tree: crate::fake::FakeTree) -> Disk {
        Disk(DiskSource::Fake(tree))
    }

    /// The tree under one of this tree's directories, which must exist.
    pub async fn under(&self, dir: &str) -> Result<Disk> {
        Ok(Disk(match &self.0 {
            DiskSource::Real(it) => DiskSource::Real(Arc::new(it.under(dir)?)),
            #[cfg(feature = "fake")]
            DiskSource::Fake(it) => DiskSource::Fake(it.under(dir).await?),
        }))
    }

    /// Where the tree lies, for a reader of messages, and for engines that do their own I/O (fjall); none when faked.
    pub fn path(&self) -> Option<&Path> {
        match &self.0 {
            DiskSource::Real(it) => Some(it.path()),
            #[cfg(feature = "fake")]
            DiskSource::Fake(_) => None,
        }
    }

    /// `NotFound` unless `how` creates; `Exists` if it is exclusive and the file is there. A created file's name
    /// survives a power cut only after `sync_dir` of its directory.
    pub async fn open(&self, path: &str, how: OpenHow) -> Result<DiskFile> {
        on!(self, it => it.open(path, how).await)
    }

    /// Makes a directory; false if it is already there. Survives a power cut after `sync_dir` of its parent.
    pub async fn create_dir(&self, path: &str) -> Result<bool> {
        on!(self, it => it.create_dir(path).await)
    }

    pub async fn remove_dir(&self, path: &str) -> Result<()> {
        on!(self, it => it.remove_dir(path).await)
    }

    pub async fn remove_file(&self, path: &str) -> Result<()> {
        on!(self, it => it.remove_file(path).await)
    }

    /// Atomic, and replaces a file of the new name. Survives a power cut after `sync_dir` of the directories.
    pub async fn rename(&self, from: &str, to: &str) -> Result<()> {
        on!(self, it => it.rename(from, to).await)
    }

    /// The entries of a directory, sorted by name.
    pub async fn list(&self, dir: &str) -> Result<Vec<DirEntry>> {
        on!(self, it => it.list(dir).await)
    }

    /// Makes the creations, renames and removals in a directory survive a power cut.
    pub async fn sync_dir(&self, dir: &str) -> Result<()> {
        on!(self, it => it.sync_dir(dir).await)
    }

    /// Everything that was written, made, renamed or removed survives a power cut, and so does what others did on the same
    /// file system. One journal commit for any number of files; a few files are synced faster one by one.
    ///
    /// An error since the handle was made is told once, whoever else was told of it: one call at a time, and what an error
    /// means is known to all before the next. Only where `sync_everything_tells`.
    pub async fn sync_everything(&self) -> Result<()> {
        on!(self, it => it.sync_everything().await)
    }

    /// Whether `sync_everything` tells that a write failed; if not, what was written is synced file by file.
    pub fn sync_everything_tells(&self) -> bool {
        on!(self, it => it.sync_everything_tells())
    }

    /// None if there is nothing of that name.
    pub async fn stat(&self, path: &str) -> Result<Option<Stat>> {
        on!(self, it => it.stat(path).await)
    }

    pub async fn exists(&self, path: &str) -> Result<bool> {
        Ok(self.stat(path).await?.is_some())
    }

    pub async fn space(&self) -> Result<Space> {
        on!(self, it => it.space().await)
    }

    /// Another number when what was written and not synced may be gone: since then the host started anew, or the file
    /// system was mounted anew. Never zero. The end of a process alone changes nothing: the page cache outlives it. Where the
    /// kernel does not tell when the host started, each process has another.
    pub fn memory(&self) -> Result<u64> {
        on!(self, it => it.memory())
    }

    /// Takes the lock that `path` stands for, or fails at once with `Locked(pid of the holder)`. Held until the
    /// returned guard is dropped or the process ends, however it ends.
    pub async fn lock_exclusive(&self, path: &str) -> Result<DiskLock> {
        on!(self, it => it.lock_exclusive(path).await)
    }
}
