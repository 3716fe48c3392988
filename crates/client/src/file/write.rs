//! write(2): lock the range, send the chunks concurrently, then update size and time.

use super::chunks;
use super::inline;
use super::inode_state::{DataLocation, WriteLockRange};
use super::inode_table::ActiveInode;
use super::object_calls::required_existence;
use super::open_file::{Durability, OpenFile};
use super::write_lease::PiggybackedWrite;
use crate::join;
use crate::metrics::Counters;
use crate::reply;
use crate::service::Client;
use crate::verify;
use bytes::Bytes;
use gupfs_proto::data::{self, ObjectOwner};
use gupfs_proto::limits::FILE_SIZE_MAX;
use gupfs_proto::meta::{AccessMode, WritePosition};
use gupfs_proto::{FsError, StripeChunk, WriteVerifier};

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WriteOptions {
    /// The writing process is not privileged: setuid, setgid and capabilities of the file are cleared.
    pub kill_privileges: bool,
    /// The least durability; the open file's O_SYNC or O_DSYNC may require more.
    pub durability: Durability,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WriteDone {
    /// Bytes from the start of the data that were written; fewer than given if the rest failed.
    pub written: u64,
    /// Their offset: for an append, the former end of the file.
    pub offset: u64,
    /// The file's size now.
    pub size: u64,
}

/// How many bytes of one write were written from its start, and its first error.
pub(super) struct WriteProgress {
    pub written: u64,
    pub error: Option<FsError>,
}

impl Client {
    /// # Errors
    /// `TooLarge` at the largest offset, `NoSpace`, or the error of the first byte; if only later bytes failed, the write is
    /// short.
    pub async fn write(
        &self,
        file: &OpenFile,
        at: WritePosition,
        data: Bytes,
        options: WriteOptions,
    ) -> Result<WriteDone, FsError> {
        if !file.access().contains(AccessMode::WRITE) {
            return Err(FsError::Denied);
        }
        self.check_session(file)?;
        let done = self
            .write_bytes(&file.inode, at, data, options.kill_privileges)
            .await?;
        Counters::add(&self.counters.writes, 1);
        Counters::add(&self.counters.bytes_written, done.written);
        match options.durability.max(file.flags().durability()) {
            Durability::Answered => {}
            Durability::Data => self.fsync(file, true).await?,
            Durability::All => self.fsync(file, false).await?,
        }
        Ok(done)
    }

    async fn write_bytes(
        &self,
        inode: &ActiveInode,
        at: WritePosition,
        data: Bytes,
        kill_privileges: bool,
    ) -> Result<WriteDone, FsError> {
        let len = data.len() as u64;
        let requested_offset = match at {
            WritePosition::Offset(offset) => Some(offset),
            WritePosition::End => None,
        };
        loop {
            let lock_range = inode.state().write_lock_range(requested_offset, len);
            let _held = inode
                .range_locks
                .exclusive(lock_range.from..lock_range.to)
                .await;
            // During the wait the file may have been truncated or its inline data moved, so that the write needs a larger range.
            if !lock_range.covers(inode.state().write_lock_range(requested_offset, len)) {
                continue;
            }
            let size = inode.state().size_for_write()?;
            let offset = requested_offset.unwrap_or(size);
            if len == 0 {
                return Ok(WriteDone {
                    written: 0,
                    offset,
                    size,
                });
            }
            let fitting = limit_to_max_size(offset, &data)?;
            if lock_range == WriteLockRange::WHOLE
                && let Some(done) = self
                    .try_inline(inode, at, offset, &fitting, kill_privileges)
                    .await?
            {
                return Ok(done);
            }
            let piggybacked = self
                .acquire_write_lease_with(inode, kill_privileges, requested_offset, &fitting)
                .await?;
            if let Some(PiggybackedWrite { from, progress }) = piggybacked {
                return self.finish_write(inode, from, progress, true).await;
            }
            self.wait_for_valid_session().await?;
            // Where other clients write too, the file's end is known only under the lease.
            let offset = inode.state().write_offset(requested_offset)?;
            let fitting = limit_to_max_size(offset, &data)?;
            return self.write_objects(inode, offset, &fitting).await;
        }
    }

    /// Writes inline if the bytes fit; None if they do not. The caller has locked the whole file.
    async fn try_inline(
        &self,
        inode: &ActiveInode,
        at: WritePosition,
        offset: u64,
        data: &Bytes,
        kill_privileges: bool,
    ) -> Result<Option<WriteDone>, FsError> {
        let fits = inline::fits(offset + data.len() as u64);
        if fits && inode.state().data_location() == DataLocation::Inode {
            return self.write_inline(inode, at, data, kill_privileges).await;
        }
        Ok(None)
    }

    /// The caller has locked the range, and everything from the file's end on if the write moves it.
    async fn write_objects(
        &self,
        inode: &ActiveInode,
        offset: u64,
        data: &Bytes,
    ) -> Result<WriteDone, FsError> {
        let moves_end = offset + data.len() as u64 > inode.state().size;
        if moves_end {
            self.truncate_leftovers_before_growth(inode).await?;
        }
        let progress = self.write_chunks(inode, offset, data).await;
        self.finish_write(inode, offset, progress, moves_end).await
    }

    /// Makes the written bytes part of the file.
    async fn finish_write(
        &self,
        inode: &ActiveInode,
        offset: u64,
        progress: WriteProgress,
        moves_end: bool,
    ) -> Result<WriteDone, FsError> {
        if progress.written > 0 {
            let end = offset + progress.written;
            inode.state().data_changed(end, self.platform.clock.now());
        }
        if progress.error.is_some() {
            self.clean_up_after_failure(inode, moves_end).await;
        }
        match progress.error {
            Some(error) if progress.written == 0 => Err(error),
            _ => Ok(WriteDone {
                written: progress.written,
                offset,
                size: inode.state().size,
            }),
        }
    }

    /// Writes to objects; the caller updates size and time.
    pub(super) async fn write_chunks(
        &self,
        inode: &ActiveInode,
        offset: u64,
        data: &Bytes,
    ) -> WriteProgress {
        let (chunks, owner) = {
            let mut state = inode.state();
            let chunks = state.plan_write(inode.ino, offset, data.len() as u64);
            (self.split_for_messages(chunks), state.owner())
        };
        if let [(chunk, last)] = chunks[..] {
            let stat = self.write_chunk(&chunk, last, data, owner).await;
            return collect_write_replies(inode, [(chunk, stat)]);
        }
        let running = chunks.into_iter().map(|(chunk, last)| async move {
            (chunk, self.write_chunk(&chunk, last, data, owner).await)
        });
        let stats = join::all(running.collect()).await;
        collect_write_replies(inode, stats)
    }

    /// Splits the chunks of a write into messages, each with whether its object has no bytes behind it.
    fn split_for_messages(&self, chunks: Vec<(StripeChunk, bool)>) -> Vec<(StripeChunk, bool)> {
        let most = self.message_bytes_max();
        if chunks.iter().all(|(chunk, _)| chunk.len <= most) {
            return chunks;
        }
        let parts = chunks.into_iter().flat_map(|(chunk, last)| {
            let end = chunk.at.0 + chunk.len;
            chunks::split(chunk, most).map(move |part| (part, last && part.at.0 + part.len == end))
        });
        parts.collect()
    }

    async fn write_chunk(
        &self,
        chunk: &StripeChunk,
        last: bool,
        data: &Bytes,
        owner: ObjectOwner,
    ) -> Result<(data::ObjectStat, WriteVerifier), FsError> {
        let bytes =
            data.slice(chunk.buffer_offset as usize..(chunk.buffer_offset + chunk.len) as usize);
        let op = data::DataOp::Write {
            object: chunk.object,
            at: chunk.at,
            checksums: verify::sums_of(&bytes, chunk.at.0, last),
            data: bytes,
            existence: required_existence(chunk.presence),
            owner,
        };
        reply::written("write", self.call_ost(chunk.ost, op).await?)
    }
}

/// The part of `data` that ends before the largest offset.
fn limit_to_max_size(offset: u64, data: &Bytes) -> Result<Bytes, FsError> {
    match FILE_SIZE_MAX.saturating_sub(offset) {
        0 => Err(FsError::TooLarge),
        room => Ok(data.slice(..room.min(data.len() as u64) as usize)),
    }
}

/// Applies the replies to the state, in file order: `written` counts the bytes before the first failure.
fn collect_write_replies(
    inode: &ActiveInode,
    stats: impl IntoIterator<
        Item = (
            StripeChunk,
            Result<(data::ObjectStat, WriteVerifier), FsError>,
        ),
    >,
) -> WriteProgress {
    let mut progress = WriteProgress {
        written: 0,
        error: None,
    };
    let mut state = inode.state();
    for (chunk, stat) in stats {
        match stat {
            Ok(stat) => {
                state.object_written(chunk.component, chunk.stripe, stat);
                if progress.error.is_none() {
                    progress.written += chunk.len;
                }
            }
            Err(error) => progress.error = progress.error.or(Some(error)),
        }
    }
    progress
}
