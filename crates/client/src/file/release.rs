//! Releasing an open file: the last writer's close releases the write lease, and the server's state is authoritative again.

use super::inode_table::ActiveInode;
use crate::service::Client;
use gupfs_proto::FsError;
use std::sync::Arc;

impl Client {
    /// The last descriptor and mapping of an open file are gone. When this returns, the server has the report of its writes;
    /// until then this client answers with its own state. Releasing twice does nothing.
    ///
    /// # Errors
    /// When the report failed: the write lease stays here, and `stop` reports again.
    pub async fn release(self: &Arc<Self>, id: u64) -> Result<(), FsError> {
        let Some(file) = self.open_files.remove(id) else {
            return Ok(());
        };
        self.unlock_at_release(id).await;
        let inode = &file.inode;
        let (last, last_writer) = {
            let state = inode.state();
            (state.handles == 0, state.writers == 0)
        };
        let mut result = Ok(());
        if last_writer {
            result = self.end_write_lease(inode, false).await;
        }
        if last && result.is_ok() && self.check_session(&file).is_ok() {
            result = self.report_atime(inode).await;
        }
        if let Err(error) = &result {
            tracing::warn!(ino = %inode.ino, %error, "could not report the writes of a closed file to the metadata server; this client keeps its write lease");
            inode.state().errors.record(error.clone());
        }
        let ino = inode.ino;
        drop(file);
        let forgotten = self.lookup_counts.lock().remove_open(ino);
        self.queue_forgets(forgotten);
        self.sync_closed_if_many();
        result
    }

    /// `even_if_open`: also with open writers, because the session ends.
    pub(crate) async fn end_write_lease(
        &self,
        inode: &ActiveInode,
        even_if_open: bool,
    ) -> Result<(), FsError> {
        if !inode.state().has_write_lease {
            return Ok(());
        }
        let _all = inode.range_locks.whole().await;
        let _reporting = inode.reporting.lock().await;
        // A program may have opened it for writing during the wait.
        if inode.state().writers > 0 && !even_if_open {
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
