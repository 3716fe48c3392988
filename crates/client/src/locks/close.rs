//! Freeing locks when files are closed.
//!
//! The kernel keeps no list of a FUSE file system's locks, so it frees none. At each close(2) it sends FLUSH with the owner whose
//! POSIX record locks end; for locks of the open file itself (OFD, flock) it sends nothing but RELEASE.

use super::Locks;
use crate::inodes::OpenFile;
use crate::limits::CLOSE_UNLOCK_WAIT;
use gupfs_proto::FsError;
use gupfs_proto::lock::{LockFamily, LockHolder, LockRange};
use std::sync::Arc;
use std::time::Duration;

impl Locks {
    /// close(2) by this owner of any of its descriptors of the file: frees all its record locks in the file. Sends no request if
    /// it has none, and waits only `CLOSE_UNLOCK_WAIT` for a server that is down: a killed program closes its files as it ends.
    pub async fn unlock_at_close(
        self: &Arc<Self>,
        file: &OpenFile,
        owner: u64,
    ) -> Result<(), FsError> {
        let holder = LockHolder {
            ino: file.ino(),
            family: LockFamily::Record,
            owner,
        };
        self.table.remove_holder(holder);
        let locks = self.clone();
        let mut freed = Box::pin(async move { locks.free_all_locks(holder).await });
        let wait = match self.table.server_is_slow() {
            true => Duration::ZERO,
            false => CLOSE_UNLOCK_WAIT,
        };
        tokio::select! {
            biased;
            freed = &mut freed => return freed,
            () = self.platform.clock.sleep(wait) => {}
        }
        // The locks are freed in the background. A program with many open files waits once, not for each.
        self.table.set_server_slow();
        self.platform
            .tasks
            .spawn("free locks of a closed file", async move {
                if let Err(error) = freed.await {
                    tracing::info!(%error, "the metadata server has not freed the locks of a closed file yet; the client tries again");
                }
            });
        Ok(())
    }

    /// The open file is released: frees the locks taken through it that are not freed yet; they belonged to the open file itself.
    pub async fn unlock_at_release(self: &Arc<Self>, file: u64) {
        for holder in self.table.take_file_holders(file) {
            if let Err(error) = self.free_all_locks(holder).await {
                tracing::warn!(ino = %holder.ino, %error, "could not free the locks of a released open file at the metadata server");
            }
        }
    }

    async fn free_all_locks(self: &Arc<Self>, holder: LockHolder) -> Result<(), FsError> {
        match self.table.may_hold(holder) {
            true => self.free_lock(holder, LockRange::WHOLE).await,
            false => Ok(()),
        }
    }
}
