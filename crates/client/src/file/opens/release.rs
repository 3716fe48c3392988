//! Releasing an open file: the last writer's close releases the write lease, and the server's state is authoritative again.

use super::Opens;
use gupfs_proto::FsError;

impl Opens {
    /// The last descriptor and mapping of an open file are gone. When this returns, the server has the report of its writes;
    /// until then this client answers with its own state. Releasing twice does nothing.
    ///
    /// # Errors
    /// When the report failed: the write lease stays here, and `stop` reports again.
    pub async fn release(&self, id: u64) -> Result<(), FsError> {
        let Some(file) = self.open_files.remove(id) else {
            return Ok(());
        };
        self.locks.unlock_at_release(id).await;
        let inode = &file.inode;
        let (last, last_writer) = {
            let state = inode.state();
            (state.opens.handles() == 0, state.opens.writers() == 0)
        };
        let mut result = Ok(());
        if last_writer {
            result = self.leases.end_write_lease(inode, false).await;
        }
        if last && result.is_ok() && self.mds.check_opened_in(file.session()).is_ok() {
            result = self.leases.report_atime(inode).await;
        }
        if let Err(error) = &result {
            tracing::warn!(ino = %inode.ino, %error, "could not report the writes of a closed file to the metadata server; this client keeps its write lease");
            inode.state().errors.record(error.clone());
        }
        let ino = inode.ino;
        drop(file);
        self.lookups.remove_open(ino);
        self.sync.sync_closed_if_many();
        result
    }
}
