//! Small files under the exclusive write lease: their bytes wait in this client as those of every file, and go into the inode with the release,
//! as long as no object exists. So a small new file costs its creation and its release.

use super::FileLeases;
use crate::inodes::ActiveInode;
use crate::metrics::Counters;
use crate::reply;
use gupfs_proto::meta::MetaOp;
use gupfs_proto::{Caller, FsError};
use std::time::Duration;

impl FileLeases {
    /// Releases the write lease of a file whose bytes fit into its inode, instead of sending them to objects. Does nothing for any other file.
    pub async fn release_if_small(&self, inode: &ActiveInode) -> Result<(), FsError> {
        if !inode.state().fits_into_inode() {
            return Ok(());
        }
        let _all = self.lock_without_pages(inode, Duration::ZERO).await;
        let _reporting = inode.reporting.lock().await;
        self.release_small_file(inode).await
    }

    /// The same for a caller that has locked the whole file and `reporting`.
    async fn release_small_file(&self, inode: &ActiveInode) -> Result<(), FsError> {
        let released = self.end_write_with_bytes(inode).await;
        if released.is_err() {
            inode.state().doubt_write_lease();
        }
        released.map(|_| ())
    }

    /// The same for a write that cannot wait in this client: it may be inline. The caller has locked the whole file.
    pub async fn release_for_inline_write(&self, inode: &ActiveInode) -> Result<(), FsError> {
        let _reporting = inode.reporting.lock().await;
        self.release_small_file(inode).await
    }

    /// Releases the lease with the file's bytes, if they fit into its inode. Returns whether it did. The caller has locked the whole file and
    /// `reporting`.
    pub(super) async fn end_write_with_bytes(&self, inode: &ActiveInode) -> Result<bool, FsError> {
        // Nothing is sent meanwhile, and no program writes.
        let _flushing = inode.flushing.lock().await;
        let (pending, bytes) = {
            let state = inode.state();
            let Some(bytes) = state.bytes_for_inode() else {
                return Ok(false);
            };
            (state.attr_report(false), bytes)
        };
        tracing::trace!(target: "walk", file = file!(), "end_write_with_bytes");
        let op = MetaOp::ReportWrites {
            ino: inode.ino,
            report: pending.report.clone(),
            keep_lease: false,
            ctime: pending.ctime(),
            inline: Some(bytes.clone()),
        };
        let _ending = inode.start_lease_end(false);
        let reply = match self.mds.call(&Caller::root(), op).await {
            // Their targets have reserved space for the bytes.
            Err(FsError::NoSpace) => return Ok(false),
            reply => reply?,
        };
        let attr = reply::changed("end_write", reply)?;
        let mut state = inode.state();
        state.report_accepted(&pending);
        self.inodes.invalidate_replies(inode.ino);
        state.lease_released_with_bytes(attr, bytes);
        if let Some(attr) = attr {
            state.note_own_update(attr);
        }
        Counters::add(&self.counters.small_files, 1);
        Ok(true)
    }
}
