//! Glimpse and revoke: another client requests the attributes of a file with a write lease here, or its lease.

use super::FileLeases;
use crate::limits::PAGES_KEPT_MIN;
use gupfs_proto::{FsError, InodeId};

impl FileLeases {
    /// Glimpse: when this returns, the server knows this client's writes so far.
    pub async fn answer_glimpse(&self, ino: InodeId) -> Result<(), FsError> {
        tracing::trace!(target: "walk", file = file!(), "answer_glimpse");
        let Some(inode) = self.inodes.find(ino) else {
            return Ok(());
        };
        // A write that is not answered yet need not be reported, and none is answered before its `BeginWrite`.
        if inode.state().owes_report() {
            let _reporting = inode.reporting.lock().await;
            self.report_attrs(&inode).await?;
        }
        Ok(())
    }

    /// Revoke: when this returns, the server has this client's last report, and may grant the lease to another client.
    pub async fn answer_revoke(&self, ino: InodeId) -> Result<(), FsError> {
        tracing::trace!(target: "walk", file = file!(), "answer_revoke");
        let Some(inode) = self.inodes.find(ino) else {
            return Ok(());
        };
        // Waits for operations in progress: also for a `BeginWrite` that is not answered yet, and for its write.
        let _all = self.lock_without_pages(&inode, PAGES_KEPT_MIN).await;
        let _reporting = inode.reporting.lock().await;
        self.release_write_lease(&inode).await
    }
}
