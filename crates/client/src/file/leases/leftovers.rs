//! Leftovers of failed and dropped writes behind the end of the file: truncated by this client, or by the server.

use super::FileLeases;
use crate::inodes::ActiveInode;
use crate::reply;
use gupfs_proto::meta::MetaOp;
use gupfs_proto::{Caller, FileOffset, FsError};

impl FileLeases {
    /// Truncates leftovers of failed writes behind the end of the file before the file grows over them: that range must read
    /// zeros. The caller has locked everything from the file's end on, and `reporting`.
    ///
    /// Where other clients write too, the bytes behind the end that is known here may be theirs: they stay, as part of the file.
    pub async fn truncate_leftovers(&self, inode: &ActiveInode) -> Result<(), FsError> {
        if inode.state().has_concurrent_write_lease() {
            inode.state().adopt_leftovers();
            return Ok(());
        }
        if inode.state().has_pending_truncate() {
            return self.request_pending_truncate(inode).await;
        }
        self.objects.truncate_leftovers(inode).await
    }

    /// The same for a caller that has not locked `reporting`.
    pub async fn truncate_leftovers_before_growth(
        &self,
        inode: &ActiveInode,
    ) -> Result<(), FsError> {
        let is_clean = {
            let state = inode.state();
            state.leftovers().is_none() && !state.has_pending_truncate()
        };
        if is_clean {
            return Ok(());
        }
        let _reporting = inode.reporting.lock().await;
        self.truncate_leftovers(inode).await
    }

    /// Makes the server record the file's size and a pending truncate of everything behind it. From then on the leftovers do not
    /// become part of the file if this client dies, and the server truncates them as soon as the OST accepts it. Ok when that is
    /// done. The caller has locked `reporting`.
    async fn request_pending_truncate(&self, inode: &ActiveInode) -> Result<(), FsError> {
        self.report_attrs(inode).await?;
        let to = {
            let mut state = inode.state();
            state.set_pending_truncate();
            state.end_of_file()
        };
        let op = MetaOp::Truncate {
            ino: inode.ino,
            to: to.0,
            by_handle: true,
            kill_privileges: false,
        };
        let _ending = inode.start_lease_end(true);
        let reply = self.mds.call(&Caller::root(), op).await?;
        let opened = reply::opened("truncate", reply)?;
        self.inodes.invalidate_replies(inode.ino);
        inode.state().load_after_truncate(opened);
        Ok(())
    }

    /// Cleans up after a change that failed half way. If this client dies, recovery takes size and time from the objects, so this
    /// truncates the leftovers behind the file's end, and the objects' new mtime becomes the file's. If an OST refuses the
    /// truncate, the server records it as pending.
    pub async fn clean_up_after_failure(&self, inode: &ActiveInode, has_end: bool) {
        if has_end && let Err(error) = self.truncate_leftovers_before_growth(inode).await {
            let _reporting = inode.reporting.lock().await;
            // The server's reply is an error, too, as long as the OST refuses; its record stays.
            let pending_truncate = self.request_pending_truncate(inode).await;
            tracing::warn!(
                ino = %inode.ino, %error, ?pending_truncate,
                "an OST could not truncate what a failed write left behind the file's end; the metadata server retries it in the background"
            );
        }
        inode.state().data_changed(FileOffset(0), self.clock.now());
    }
}
