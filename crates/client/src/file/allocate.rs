//! fallocate(2): allocates space, punches holes, zeroes ranges.

use super::chunks::ObjectSpan;
use super::inline;
use super::inode_state::DataLocation;
use super::inode_table::ActiveInode;
use super::object_calls::required_existence;
use super::open_file::OpenFile;
use crate::reply;
use crate::service::Client;
use bytes::Bytes;
use gupfs_proto::data;
use gupfs_proto::limits::FILE_SIZE_MAX;
use gupfs_proto::meta::{AccessMode, WritePosition};
use gupfs_proto::{Caller, FsError, Presence};

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

impl Client {
    pub async fn allocate(
        &self,
        file: &OpenFile,
        mode: AllocateMode,
        offset: u64,
        len: u64,
        kill_privileges: bool,
    ) -> Result<(), FsError> {
        if !file.access().contains(AccessMode::WRITE) {
            return Err(FsError::Denied);
        }
        if len == 0 {
            return Err(FsError::Invalid);
        }
        self.check_session(file)?;
        let end = offset.checked_add(len).filter(|end| *end <= FILE_SIZE_MAX);
        let end = end.ok_or(FsError::TooLarge)?;
        let inode = &file.inode;
        let _all = inode.range_locks.whole().await;
        inode.state().size_for_write()?;
        if self.options.shared {
            // The lease brings the state that other clients wrote, and keeps them from writing meanwhile.
            self.acquire_write_lease(inode, kill_privileges).await?;
        }
        let home = inode.state().data_location();
        if home == DataLocation::Inode && (mode == AllocateMode::Punch || inline::fits(end)) {
            return self
                .allocate_inline(inode, mode, offset, end, kill_privileges)
                .await;
        }
        self.acquire_write_lease(inode, kill_privileges).await?;
        if mode.zeroes() && inode.state().is_append_only() {
            return Err(FsError::NotPermitted);
        }
        self.wait_for_valid_session().await?;
        let done = self.allocate_objects(inode, mode, offset, end).await;
        if done.is_err() {
            self.clean_up_after_failure(inode, true).await;
        }
        done
    }

    /// Inline data needs no allocation: only zeros and size matter.
    async fn allocate_inline(
        &self,
        inode: &ActiveInode,
        mode: AllocateMode,
        offset: u64,
        end: u64,
        kill_privileges: bool,
    ) -> Result<(), FsError> {
        let have = inode.state().inline().len() as u64;
        if mode.zeroes() && offset < have {
            let zeros = Bytes::from(vec![0; (end.min(have) - offset) as usize]);
            let at = WritePosition::Offset(offset);
            let done = self
                .write_inline(inode, at, &zeros, kill_privileges)
                .await?;
            if done.is_none() {
                return reply::unexpected("write_inline");
            }
        }
        if mode.grows() && end > inode.state().size {
            self.resize(inode, &Caller::root(), end, true, kill_privileges)
                .await?;
        }
        Ok(())
    }

    async fn allocate_objects(
        &self,
        inode: &ActiveInode,
        mode: AllocateMode,
        offset: u64,
        end: u64,
    ) -> Result<(), FsError> {
        if mode.grows() && end > inode.state().size {
            self.truncate_leftovers_before_growth(inode).await?;
        }
        let mut has_touched = mode != AllocateMode::Punch;
        if mode.zeroes() {
            let spans = inode.state().spans(inode.ino, offset, end);
            let punch = mode == AllocateMode::Punch;
            has_touched |= self.zero_spans(inode, &spans, punch).await?;
        }
        if mode != AllocateMode::Punch {
            self.allocate_spans(inode, mode.grows(), offset, end)
                .await?;
        }
        let end = if mode.grows() { end } else { 0 };
        inode.state().data_changed(end, self.platform.clock.now());
        if !has_touched {
            // The range was a hole before: no object has the new mtime, and the end of this client would lose it.
            let _reporting = inode.reporting.lock().await;
            self.report_attrs(inode).await?;
        }
        Ok(())
    }

    /// Zeroes spans of objects that may exist; punches holes if `punch`. Returns whether any object had bytes there, and so has a
    /// new mtime.
    async fn zero_spans(
        &self,
        inode: &ActiveInode,
        spans: &[ObjectSpan],
        punch: bool,
    ) -> Result<bool, FsError> {
        let mut has_touched = false;
        for span in spans.iter().filter(|span| span.presence != Presence::Never) {
            inode.state().mark_object_dirty(span.component, span.stripe);
            let op = data::DataOp::Zero {
                object: span.object,
                at: span.at,
                len: span.len,
                punch,
            };
            let stat = reply::written("zero", self.call_ost(span.ost, op).await?)?;
            has_touched |= span.at.0 < stat.0.size;
            inode
                .state()
                .object_cleared(span.component, span.stripe, stat);
        }
        Ok(has_touched)
    }

    async fn allocate_spans(
        &self,
        inode: &ActiveInode,
        grows: bool,
        offset: u64,
        end: u64,
    ) -> Result<(), FsError> {
        let (spans, owner) = {
            let mut state = inode.state();
            if grows {
                // If one OST fails, objects on others may still be longer than the file.
                state.leftover_end = state.leftover_end.max(end);
            }
            (state.spans(inode.ino, offset, end), state.owner())
        };
        for span in spans {
            inode.state().mark_object_dirty(span.component, span.stripe);
            let op = data::DataOp::Allocate {
                object: span.object,
                at: span.at,
                len: span.len,
                keep_size: !grows,
                existence: required_existence(span.presence),
                owner,
            };
            let stat = reply::written("allocate", self.call_ost(span.ost, op).await?)?;
            inode
                .state()
                .object_written(span.component, span.stripe, stat);
        }
        Ok(())
    }
}
