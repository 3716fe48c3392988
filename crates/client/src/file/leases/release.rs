//! Releasing the write lease at the last writer's close.

use super::FileLeases;
use crate::inodes::ActiveInode;
use gupfs_proto::FsError;

impl FileLeases {
    /// `even_if_open`: also with open writers, because the session ends.
    pub async fn end_write_lease(
        &self,
        inode: &ActiveInode,
        even_if_open: bool,
    ) -> Result<(), FsError> {
        if !inode.state().has_write_lease() {
            return Ok(());
        }
        let _all = inode.range_locks.whole().await;
        let _reporting = inode.reporting.lock().await;
        // A program may have opened it for writing during the wait.
        if inode.state().opens.writers() > 0 && !even_if_open {
            return Ok(());
        }
        // The next lease holder does not know of the leftovers.
        match self.truncate_leftovers(inode).await {
            Err(error) if even_if_open => {
                tracing::warn!(ino = %inode.ino, %error, "an OST could not truncate leftovers of a failed write behind the file's end; they stay");
            }
            cut => cut?,
        }
        self.release_write_lease(inode).await
    }
}
