//! open(2) of a file: the server checks permission and returns layout or inline data; the state of a file with a write lease here
//! is newer.

use super::pending_opens::PendingOpen;
use super::{OpenedFile, Opens};
use crate::inodes::{ActiveInode, InodePin, OpenFileFlags};
use crate::limits::{REOPEN_REMOVED_PAUSE, REOPEN_REMOVED_TRIES};
use crate::reply;
use gupfs_proto::meta::{MetaOp, OpenMode};
use gupfs_proto::{Caller, FsError, InodeId};
use std::time::Duration;

impl Opens {
    /// open(2) of an existing regular file.
    pub async fn open(
        &self,
        caller: &Caller,
        ino: InodeId,
        mode: OpenMode,
        flags: OpenFileFlags,
    ) -> Result<OpenedFile, FsError> {
        let inode = self.inodes.pin(ino);
        let op = MetaOp::Open { ino, open: mode };
        for _ in 0..REOPEN_REMOVED_TRIES {
            match self.open_once(caller, &inode, op.clone(), mode).await {
                // Another client removed its last name, and the server does not know yet that it is open here.
                Err(FsError::Stale) if self.is_open_here(&inode) => {
                    self.mds.clock().sleep(REOPEN_REMOVED_PAUSE).await;
                }
                other => {
                    let _pending_open = other?;
                    return self.finish_open(inode, mode.access, flags, false).await;
                }
            }
        }
        Err(FsError::Stale)
    }

    fn is_open_here(&self, inode: &ActiveInode) -> bool {
        self.mds.is_shared() && inode.state().opens.handles() > 0
    }

    async fn open_once(
        &self,
        caller: &Caller,
        inode: &InodePin,
        op: MetaOp,
        mode: OpenMode,
    ) -> Result<Option<PendingOpen<'_>>, FsError> {
        let ino = inode.ino;
        let pending_open = self.begin_open(Some(ino));
        if mode.truncate {
            // The kernel writes what programs have stored before the truncation, not after it.
            let _closed = Box::pin(self.mds.kernel_pages().close(ino, Duration::ZERO)).await;
            // No read or write runs during the truncation, and no older report of this client arrives after it.
            let _all = inode.range_locks.whole().await;
            self.mds.data_cache().forget_file(ino);
            let _reporting = inode.reporting.lock().await;
            self.leases.flush(inode).await;
            if self.mds.is_shared() {
                self.leases.release_concurrent_lease(inode).await?;
                // The server must know the size and objects that it truncates.
                self.leases.report_attrs(inode).await?;
            }
            let opened = reply::opened("open", self.mds.call(caller, op).await?)?;
            let mut state = inode.state();
            self.inodes.invalidate_replies(ino);
            state
                .opens
                .keep_open_capability(self.mds.id(), &opened, mode.access);
            state.load_after_truncate(opened);
            state.set_privileges_killed(mode.kill_privileges);
        } else {
            let opened = reply::opened("open", self.mds.call(caller, op).await?)?;
            let mut state = inode.state();
            state
                .opens
                .keep_open_capability(self.mds.id(), &opened, mode.access);
            state.update_from_server(opened);
        }
        Ok(pending_open)
    }
}
