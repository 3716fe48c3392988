//! truncate(2), ftruncate(2): the server changes the size, after this client has reported its unreported changes.

use super::FileLeases;
use crate::inodes::{ActiveInode, OpenFile};
use crate::reply;
use gupfs_proto::limits::FILE_SIZE_MAX;
use gupfs_proto::meta::MetaOp;
use gupfs_proto::{Attr, Caller, FileOffset, FsError, InodeId};

impl FileLeases {
    /// Sets a new size. `by_handle`: through a file opened for writing, whose permission was checked at the open.
    pub async fn truncate(
        &self,
        caller: &Caller,
        ino: InodeId,
        to: FileOffset,
        by_handle: bool,
        kill_privileges: bool,
    ) -> Result<Attr, FsError> {
        let inode = self.inodes.pin(ino);
        let _all = inode.range_locks.whole().await;
        self.resize(&inode, caller, to, by_handle, kill_privileges)
            .await
    }

    /// ftruncate(2): through a file that is open for writing, whose permission was checked at the open.
    ///
    /// # Errors
    /// `Stale` if the session in which it was opened is lost: its writes may be lost, and other clients' writes be there.
    pub async fn truncate_open(
        &self,
        caller: &Caller,
        file: &OpenFile,
        to: FileOffset,
        kill_privileges: bool,
    ) -> Result<Attr, FsError> {
        let _all = file.inode.range_locks.whole().await;
        self.mds.check_opened_in(file.session())?;
        self.resize(&file.inode, caller, to, true, kill_privileges)
            .await
    }

    /// The caller has locked the whole file.
    pub async fn resize(
        &self,
        inode: &ActiveInode,
        caller: &Caller,
        to: FileOffset,
        by_handle: bool,
        kill_privileges: bool,
    ) -> Result<Attr, FsError> {
        if to.0 > FILE_SIZE_MAX {
            return Err(FsError::TooLarge);
        }
        self.mds.data_cache().forget_file(inode.ino);
        let _reporting = inode.reporting.lock().await;
        self.release_concurrent_lease(inode).await?;
        let _in_errors = self.objects.flush(inode).await;
        if to > inode.state().end_of_file() {
            self.truncate_leftovers(inode).await?;
        }
        if to > FileOffset(0) || self.mds.is_shared() {
            // The server truncates only what it knows: report objects created since, and a size beyond the server's.
            self.report_attrs(inode).await?;
        }
        let op = MetaOp::Truncate {
            ino: inode.ino,
            to: to.0,
            by_handle,
            kill_privileges,
        };
        // A shared server checks the open file's capability; a client that is not shared has checked the handle itself.
        let us = Caller::root();
        let caller = if by_handle { &us } else { caller };
        let _ending = inode.start_lease_end(true);
        let opened = reply::opened("truncate", self.mds.call(caller, op).await?)?;
        let attr = opened.attr;
        let mut state = inode.state();
        self.inodes.invalidate_replies(inode.ino);
        state.load_after_truncate(opened);
        state.set_privileges_killed(kill_privileges);
        Ok(state.overlay(attr))
    }
}
