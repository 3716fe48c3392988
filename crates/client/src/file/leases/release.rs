//! Releasing the write lease: from then on the server's state is authoritative.

use super::FileLeases;
use crate::inodes::ActiveInode;
use gupfs_proto::{FsError, InodeId};
use std::time::Duration;

impl FileLeases {
    /// At the last writer's close. `even_if_open`: also with open writers, because the session ends.
    pub async fn end_write_lease(
        &self,
        inode: &ActiveInode,
        even_if_open: bool,
    ) -> Result<(), FsError> {
        if !inode.state().has_write_lease() {
            return Ok(());
        }
        let _all = self.lock_without_pages(inode, Duration::ZERO).await;
        let _reporting = inode.reporting.lock().await;
        // A program may have opened it for writing during the wait.
        if inode.state().opens.writers() > 0 && !even_if_open {
            return Ok(());
        }
        match self.truncate_leftovers(inode).await {
            Err(error) if even_if_open => {
                tracing::warn!(ino = %inode.ino, %error, "an OST could not truncate leftovers of a failed write behind the file's end; they stay");
            }
            truncated => truncated?,
        }
        self.end_write_if_leased(inode).await
    }

    /// The server is about to work with the file's objects: when this returns, it has this client's last report.
    pub async fn release_for_server(&self, ino: InodeId) -> Result<(), FsError> {
        let Some(inode) = self.inodes.find(ino) else {
            return Ok(());
        };
        let _all = self.lock_without_pages(&inode, Duration::ZERO).await;
        let _reporting = inode.reporting.lock().await;
        self.release_write_lease(&inode).await
    }

    /// The caller has locked the whole file and `reporting`.
    pub(super) async fn release_write_lease(&self, inode: &ActiveInode) -> Result<(), FsError> {
        tracing::trace!(target: "walk", file = file!(), "release_write_lease");
        if inode.state().has_write_lease() {
            // The next lease holder does not know of the leftovers, and they would appear when the file grows.
            self.truncate_leftovers(inode).await?;
        }
        self.end_write_if_leased(inode).await
    }

    /// A pending truncate may have ended the lease.
    async fn end_write_if_leased(&self, inode: &ActiveInode) -> Result<(), FsError> {
        if inode.state().has_write_lease() {
            let ended = self.end_write(inode, false).await;
            if ended.is_err() {
                inode.state().doubt_write_lease();
            }
            ended?;
        }
        Ok(())
    }
}
