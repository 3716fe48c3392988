//! Immutable and append-only files: the server checks and enforces the flags; a session with the write lease releases it first.

use super::FileLeases;
use crate::reply;
use gupfs_proto::attr::InodeFlags;
use gupfs_proto::meta::MetaOp;
use gupfs_proto::{Attr, Caller, FsError, InodeId};
use std::time::Duration;

impl FileLeases {
    /// FS_IOC_SETFLAGS. Earlier writes of this client stay in the file; a later write acquires the lease again.
    pub async fn set_flags(
        &self,
        caller: &Caller,
        ino: InodeId,
        flags: InodeFlags,
    ) -> Result<Attr, FsError> {
        let op = MetaOp::SetFlags { ino, flags };
        let Some(inode) = self.inodes.find(ino) else {
            return reply::entry("set_flags", self.mds.call(caller, op).await?);
        };
        // The server revokes leases of all sessions except the one that sent the request.
        let _all = self.lock_without_pages(&inode, Duration::ZERO).await;
        let _reporting = inode.reporting.lock().await;
        self.release_write_lease(&inode).await?;
        let attr = reply::entry("set_flags", self.mds.call(caller, op).await?)?;
        let mut state = inode.state();
        state.note_own_update(attr);
        Ok(state.overlay(attr))
    }
}
