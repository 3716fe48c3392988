//! Leases for the kernel's page cache, and its pages before a write lease ends.

use super::FileLeases;
use crate::inodes::{ActiveInode, RangeLockGuard};
use crate::kernel_pages::{ClosedPages, PageRange, PageRead};
use crate::reply;
use gupfs_proto::meta::MetaOp;
use gupfs_proto::{Caller, FsError};
use std::time::Duration;

impl FileLeases {
    /// Asks for a lease on the file's data: the server has another client release the write lease first. It may grant none all the same.
    pub async fn begin_read(&self, inode: &ActiveInode) -> Result<(), FsError> {
        let op = MetaOp::BeginRead { ino: inode.ino };
        let opened = reply::opened("begin_read", self.mds.call(&Caller::root(), op).await?)?;
        inode.state().update_from_server(opened);
        Ok(())
    }

    /// Acquires the write lease, so that programs may store into mapped pages, and starts a READ: it is answered before the lease ends. Goes
    /// on in a task of its own when the future is dropped, since the request must not be left without its reply.
    pub async fn acquire_for_pages(
        &self,
        inode: &ActiveInode,
        range: PageRange,
    ) -> Result<PageRead, FsError> {
        let Some(inode) = self.inodes.find(inode.ino) else {
            return Err(FsError::Stale);
        };
        let this = self.this.upgrade().ok_or(FsError::Stale)?;
        let acquired = self
            .tasks
            .spawn("acquire a write lease for mapped pages", async move {
                let _all = inode.range_locks.whole().await;
                this.acquire_write_lease(&inode, false).await?;
                Ok(this.mds.kernel_pages().start_granted_read(inode.ino, range))
            });
        let ended = |error: gupfs_platform::TaskError| FsError::TimedOut(error.to_string());
        acquired.await.map_err(ended)?
    }

    /// Acquires the write lease for a write to a file of which the kernel has pages.
    pub async fn acquire_for_write_beside_pages(&self, inode: &ActiveInode) -> Result<(), FsError> {
        let _all = inode.range_locks.whole().await;
        self.acquire_write_lease(inode, false).await
    }

    /// Locks the whole file while the kernel has no pages of it, and gets none: then the write lease can end.
    ///
    /// `kept`: how long the kernel may keep pages that it has got.
    pub(super) async fn lock_without_pages<'a>(
        &self,
        inode: &'a ActiveInode,
        kept: Duration,
    ) -> FileWithoutPages<'a> {
        let pages = Box::pin(self.mds.kernel_pages().close(inode.ino, kept)).await;
        loop {
            let all = inode.range_locks.whole().await;
            match &pages {
                // The lease was acquired meanwhile, for this.
                Some(closed) if closed.may_have_pages() => {
                    drop(all);
                    closed.drop_again().await;
                }
                _ => {
                    self.mds.data_cache().forget_file(inode.ino);
                    return FileWithoutPages {
                        _all: all,
                        _pages: pages,
                    };
                }
            }
        }
    }
}

/// Unlocked, and then opened for READs, when it is dropped.
pub(super) struct FileWithoutPages<'a> {
    _all: RangeLockGuard<'a>,
    _pages: Option<ClosedPages>,
}
