//! fallocate(2): allocates space, punches holes, zeroes ranges.

use super::FileIo;
use crate::inodes::ActiveInode;
use crate::inodes::DataLocation;
use crate::inodes::OpenFile;
use crate::reply;
use bytes::Bytes;
use gupfs_proto::limits::FILE_SIZE_MAX;
use gupfs_proto::meta::{AccessMode, WritePosition};
use gupfs_proto::{ByteCount, Caller, FileOffset, FsError};

/// What fallocate(2) does with a range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AllocateMode {
    /// Allocates space. `keep_size`: also beyond the end of the file, without changing its size.
    Allocate { keep_size: bool },
    /// Punches a hole; the file's size stays.
    Punch,
    /// Zeroes the range, and allocates its space.
    Zero { keep_size: bool },
}

impl AllocateMode {
    fn grows(self) -> bool {
        matches!(
            self,
            AllocateMode::Allocate { keep_size: false } | AllocateMode::Zero { keep_size: false }
        )
    }

    fn zeroes(self) -> bool {
        !matches!(self, AllocateMode::Allocate { .. })
    }
}

impl FileIo {
    /// fallocate(2), as `Client::allocate` promises.
    pub async fn allocate(
        &self,
        file: &OpenFile,
        mode: AllocateMode,
        offset: FileOffset,
        len: ByteCount,
        kill_privileges: bool,
    ) -> Result<(), FsError> {
        if !file.access().contains(AccessMode::WRITE) {
            return Err(FsError::Denied);
        }
        if len == ByteCount(0) {
            return Err(FsError::Invalid);
        }
        self.mds.check_opened_in(file.session())?;
        let end = offset.saturating_add(len);
        if end.0 > FILE_SIZE_MAX {
            return Err(FsError::TooLarge);
        }
        let inode = &file.inode;
        let _all = inode.range_locks.whole().await;
        self.mds.data_cache().forget_file(inode.ino);
        inode.state().end_for_write()?;
        if self.mds.is_shared() {
            // The lease brings the state that other clients wrote, and keeps them from writing meanwhile.
            self.leases
                .acquire_write_lease(inode, kill_privileges)
                .await?;
        }
        let is_inline = {
            let state = inode.state();
            match mode {
                AllocateMode::Punch => state.data_location() == DataLocation::Inode,
                _ => state.stays_inline(end),
            }
        };
        if is_inline {
            return self
                .allocate_inline(inode, mode, offset, end, kill_privileges)
                .await;
        }
        self.leases
            .acquire_write_lease(inode, kill_privileges)
            .await?;
        if mode.zeroes() && inode.state().is_append_only() {
            return Err(FsError::NotPermitted);
        }
        self.mds.wait_for_valid_session().await?;
        let done = self.allocate_objects(inode, mode, offset, end).await;
        if done.is_err() {
            self.leases.clean_up_after_failure(inode, true).await;
        }
        done
    }

    /// Inline data needs no allocation: only zeros and size matter.
    async fn allocate_inline(
        &self,
        inode: &ActiveInode,
        mode: AllocateMode,
        offset: FileOffset,
        end: FileOffset,
        kill_privileges: bool,
    ) -> Result<(), FsError> {
        let have = inode.state().inline().len() as u64;
        if mode.zeroes() && offset.0 < have {
            let zeros = Bytes::from(vec![0; (end.0.min(have) - offset.0) as usize]);
            let at = WritePosition::Offset(offset.0);
            let done = (self.leases)
                .write_inline(inode, at, &zeros, kill_privileges)
                .await?;
            if done.is_none() {
                return reply::unexpected("write_inline");
            }
        }
        if mode.grows() && end > inode.state().end_of_file() {
            self.leases
                .resize(inode, &Caller::root(), end, true, kill_privileges)
                .await?;
        }
        Ok(())
    }

    async fn allocate_objects(
        &self,
        inode: &ActiveInode,
        mode: AllocateMode,
        offset: FileOffset,
        end: FileOffset,
    ) -> Result<(), FsError> {
        if mode.grows() && end > inode.state().end_of_file() {
            self.leases.truncate_leftovers_before_growth(inode).await?;
        }
        let _in_errors = self.objects.flush(inode).await;
        let mut has_touched = mode != AllocateMode::Punch;
        if mode.zeroes() {
            let spans = inode.state().objects.spans(inode.ino, offset, end);
            let punch = mode == AllocateMode::Punch;
            has_touched |= self.objects.zero(inode, &spans, punch).await?;
        }
        if mode != AllocateMode::Punch {
            self.objects
                .allocate(inode, mode.grows(), offset, end)
                .await?;
        }
        let end = if mode.grows() { end } else { FileOffset(0) };
        inode.state().data_changed(end, self.clock.now());
        if !has_touched {
            // The range was a hole before: no object has the new mtime, and the end of this client would lose it.
            let _reporting = inode.reporting.lock().await;
            self.leases.report_attrs(inode).await?;
        }
        Ok(())
    }
}
