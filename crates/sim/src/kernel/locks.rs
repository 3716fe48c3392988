//! flock(2) and fcntl(2) locks, which the server keeps.

use super::File;
use super::attributes::OWNER;
use gupfs_fuse::op::{self, FileLock, LockKind};
use gupfs_fuse::{FileSystem, InitFlags, LockFlags, Result};

impl<F: FileSystem> File<F> {
    /// flock(2), exclusive.
    pub async fn flock(&self) -> Result<()> {
        if self.kernel.flags.contains(InitFlags::FLOCK_LOCKS) {
            self.set_lock(LockKind::Write, LockFlags::FLOCK).await?;
        }
        self.program.lock().flock = true;
        Ok(())
    }

    pub(super) async fn unlock_flock(&self) -> Result<()> {
        self.set_lock(LockKind::Unlock, LockFlags::FLOCK).await
    }

    /// fcntl(2), exclusive, on the entire file.
    pub async fn lock(&self) -> Result<()> {
        self.set_posix_lock(LockKind::Write).await
    }

    /// fcntl(2) of the entire file.
    pub async fn unlock(&self) -> Result<()> {
        self.set_posix_lock(LockKind::Unlock).await
    }

    async fn set_posix_lock(&self, kind: LockKind) -> Result<()> {
        if !self.kernel.flags.contains(InitFlags::POSIX_LOCKS) {
            return Ok(());
        }
        self.set_lock(kind, LockFlags::empty()).await
    }

    async fn set_lock(&self, kind: LockKind, flags: LockFlags) -> Result<()> {
        let kernel = &self.kernel;
        let request = op::Lock {
            fh: self.fh,
            owner: OWNER,
            lock: FileLock {
                start: 0,
                end: FileLock::EOF,
                kind,
                pid: 1,
            },
            flags,
        };
        let reply = kernel.fs.setlkw(kernel.call(self.inode.node()), request);
        kernel.wait_reply(reply).await
    }
}
