//! What a write locks, and the kernel's pages of the file meanwhile.

use super::FileIo;
use crate::inodes::{ActiveInode, RangeLockGuard, WriteLockRange};
use crate::kernel_pages::ClosedPages;
use gupfs_proto::ByteCount;
use gupfs_proto::meta::WritePosition;
use std::time::Duration;

/// The range that a write needs. Unlocked when it is dropped.
pub struct WriteLock<'a> {
    pub inode: &'a ActiveInode,
    pub range: WriteLockRange,
    /// How many READs had been answered without a lock when the range was locked, and none of them was under way. None: the kernel may have
    /// pages, since it writes one itself.
    unlocked_reads: Option<u64>,
    _held: RangeLockGuard<'a>,
    _closed: Option<ClosedPages>,
}

impl<'a> WriteLock<'a> {
    /// For the kernel, which writes a page back.
    pub async fn with_pages(
        inode: &'a ActiveInode,
        at: WritePosition,
        len: ByteCount,
    ) -> WriteLock<'a> {
        let (range, held) = lock_range(inode, at, len).await;
        WriteLock {
            inode,
            range,
            unlocked_reads: None,
            _held: held,
            _closed: None,
        }
    }

    fn without_pages(
        inode: &'a ActiveInode,
        (range, held): (WriteLockRange, RangeLockGuard<'a>),
        closed: Option<ClosedPages>,
    ) -> WriteLock<'a> {
        WriteLock {
            inode,
            range,
            unlocked_reads: Some(inode.unlocked_reads()),
            _held: held,
            _closed: closed,
        }
    }

    /// Whether the kernel has got a page since the range was locked, or is about to get one.
    pub fn is_beside_read(&self) -> bool {
        let before = self.unlocked_reads;
        before.is_some_and(|before| before != self.inode.unlocked_reads())
    }
}

impl FileIo {
    /// Locks the range that the write needs, while the kernel has no pages of the file. A program that stores into a page which it has read
    /// before the write would undo the write.
    pub(super) async fn lock_without_pages<'a>(
        &self,
        inode: &'a ActiveInode,
        at: WritePosition,
        len: ByteCount,
    ) -> WriteLock<'a> {
        let pages = self.mds.kernel_pages();
        let locked = lock_range(inode, at, len).await;
        // A READ that begins now waits for the range.
        if !pages.may_have_pages(inode.ino) {
            return WriteLock::without_pages(inode, locked, None);
        }
        drop(locked);
        // READs that the kernel waits for meanwhile need a lease, too. Where it is refused, the write gets the error itself.
        let _ = Box::pin(self.leases.acquire_for_write_beside_pages(inode)).await;
        let closed = Box::pin(pages.close(inode.ino, Duration::ZERO)).await;
        loop {
            let locked = lock_range(inode, at, len).await;
            match &closed {
                // A READ for which the lease was acquired meanwhile: it is answered before this write, or was.
                Some(pages) if pages.may_have_pages() => {
                    drop(locked);
                    pages.drop_again().await;
                }
                _ => return WriteLock::without_pages(inode, locked, closed),
            }
        }
    }
}

async fn lock_range(
    inode: &ActiveInode,
    at: WritePosition,
    len: ByteCount,
) -> (WriteLockRange, RangeLockGuard<'_>) {
    tracing::trace!(target: "walk", file = file!(), "lock_range");
    loop {
        let range = inode.state().write_lock_range(at, len);
        let held = inode.range_locks.exclusive(range.from..range.to).await;
        // During the wait the file may have been truncated or its inline data moved, so that the write needs a larger range.
        if range.covers(inode.state().write_lock_range(at, len)) {
            return (range, held);
        }
    }
}
