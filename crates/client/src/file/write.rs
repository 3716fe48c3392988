//! write(2): locks the range, then writes inline or to objects, then updates size and time.

use super::FileIo;
use super::leases::{InlineWrite, PiggybackedWrite};
use super::objects::WriteProgress;
use super::write_lock::WriteLock;
use crate::inodes::{ActiveInode, Durability, OpenFile, WriteLockRange};
use crate::metrics::Counters;
use bytes::Bytes;
use gupfs_proto::limits::FILE_SIZE_MAX;
use gupfs_proto::meta::{AccessMode, WritePosition};
use gupfs_proto::{ByteCount, FileOffset, FsError};

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WriteOptions {
    /// The writing process is not privileged: setuid, setgid and capabilities of the file are cleared.
    pub kill_privileges: bool,
    /// The least durability; the open file's O_SYNC or O_DSYNC may require more.
    pub durability: Durability,
    /// The kernel writes a page back.
    pub from_page_cache: bool,
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

impl FileIo {
    /// write(2), as `Client::write` promises.
    pub async fn write(
        &self,
        file: &OpenFile,
        at: WritePosition,
        data: Bytes,
        options: WriteOptions,
    ) -> Result<WriteDone, FsError> {
        tracing::trace!(target: "walk", file = file!(), "write");
        if !file.access().contains(AccessMode::WRITE) {
            return Err(FsError::Denied);
        }
        self.mds.check_opened_in(file.session())?;
        let durability = options.durability.max(file.flags().durability());
        let may_wait = durability == Durability::Answered && !file.flags().direct;
        let written = self.write_until_pages_follow(&file.inode, at, data, options, may_wait);
        let done = written.await?;
        Counters::add(&self.counters.writes, 1);
        Counters::add(&self.counters.bytes_written, done.written);
        match durability {
            Durability::Answered => {}
            Durability::Data => self.sync.fsync(file, true).await?,
            Durability::All => self.sync.fsync(file, false).await?,
        }
        Ok(done)
    }

    /// Writes, and once more if the kernel has got a page meanwhile for which no lock was waited (`FileIo::read_pages`). It may be from before the
    /// write, and a program that stores into it undoes the write when the kernel writes it back. The second time the kernel has no pages.
    async fn write_until_pages_follow(
        &self,
        inode: &ActiveInode,
        mut at: WritePosition,
        mut data: Bytes,
        options: WriteOptions,
        may_wait: bool,
    ) -> Result<WriteDone, FsError> {
        loop {
            let len = ByteCount(data.len() as u64);
            let lock = match options.from_page_cache {
                true => WriteLock::with_pages(inode, at, len).await,
                false => self.lock_without_pages(inode, at, len).await,
            };
            let done = self.write_locked(&lock, at, data.clone(), options, may_wait);
            match done.await? {
                Some(done) if !lock.is_beside_read() => return Ok(done),
                Some(done) => {
                    at = WritePosition::Offset(done.offset);
                    data.truncate(usize::try_from(done.written).unwrap_or(usize::MAX));
                }
                None => {}
            }
            tracing::debug!(inode = %inode.ino, "a write begins again: the kernel has read a page beside it");
        }
    }

    /// Writes under the range lock: inline if the file stays small enough, otherwise under the write lease to memory, if the bytes may wait
    /// there, or to objects. None: nothing was written, since a READ was answered beside it.
    async fn write_locked(
        &self,
        lock: &WriteLock<'_>,
        at: WritePosition,
        data: Bytes,
        options: WriteOptions,
        may_wait: bool,
    ) -> Result<Option<WriteDone>, FsError> {
        tracing::trace!(target: "walk", file = file!(), "write_locked");
        let inode = lock.inode;
        let len = ByteCount(data.len() as u64);
        let kill_privileges = options.kill_privileges;
        let changed = lock.range.from.0..lock.range.to.0;
        self.mds.data_cache().forget(inode.ino, changed);
        let (expected_offset, end) = {
            let state = inode.state();
            (state.offset_of(at), state.end_for_write()?)
        };
        if len == ByteCount(0) {
            return Ok(Some(WriteDone {
                written: 0,
                offset: expected_offset.0,
                size: end.0,
            }));
        }
        if expected_offset.0 >= FILE_SIZE_MAX {
            return Err(FsError::TooLarge);
        }
        if may_wait && let Some(done) = self.write_behind(inode, at, &data, kill_privileges) {
            return Ok(Some(done));
        }
        if lock.range == WriteLockRange::WHOLE
            && inode.state().may_stay_small(expected_offset + len)
        {
            self.leases.release_for_inline_write(inode).await?;
        }
        let stays_inline = lock.range == WriteLockRange::WHOLE
            && inode.state().stays_inline(expected_offset + len);
        if stays_inline
            && let Some(InlineWrite { offset, size }) = (self.leases)
                .write_inline(inode, at, &data, kill_privileges)
                .await?
        {
            return Ok(Some(WriteDone {
                written: len.0,
                offset: offset.0,
                size: size.0,
            }));
        }
        let piggybacked = (self.leases)
            .acquire_for_write(inode, kill_privileges, at, &data)
            .await?;
        if let Some(PiggybackedWrite { from, progress }) = piggybacked {
            let done = self.finish_write(inode, from, progress, true).await?;
            return Ok(Some(done));
        }
        // Before others can see bytes of it that the page would take back.
        if lock.is_beside_read() {
            return Ok(None);
        }
        // The file may be ready for it only now.
        if may_wait && let Some(done) = self.write_behind(inode, at, &data, kill_privileges) {
            return Ok(Some(done));
        }
        self.mds.wait_for_valid_session().await?;
        self.write_objects(inode, at, data).await.map(Some)
    }

    /// None: the bytes cannot wait.
    fn write_behind(
        &self,
        inode: &ActiveInode,
        at: WritePosition,
        data: &Bytes,
        kill_privileges: bool,
    ) -> Option<WriteDone> {
        let offset = (self.write_behind).write(inode, at, data, kill_privileges)?;
        Counters::add(&self.counters.writes_behind, 1);
        Some(WriteDone {
            written: data.len() as u64,
            offset: offset.0,
            size: inode.state().end_of_file().0,
        })
    }

    /// Writes to objects. The caller has the write lease, and has locked the range, and everything from the file's end on if the
    /// write moves it.
    async fn write_objects(
        &self,
        inode: &ActiveInode,
        at: WritePosition,
        mut data: Bytes,
    ) -> Result<WriteDone, FsError> {
        tracing::trace!(target: "walk", file = file!(), "write_objects");
        let (offset, end) = {
            let state = inode.state();
            // Where other clients write too, the file's end is known only under the lease.
            (state.write_offset(at)?, state.end_of_file())
        };
        match FILE_SIZE_MAX.saturating_sub(offset.0) {
            0 => return Err(FsError::TooLarge),
            room => data.truncate(usize::try_from(room).unwrap_or(usize::MAX)),
        }
        let write_end = offset + ByteCount(data.len() as u64);
        let moves_end = write_end > end;
        if inode.state().has_concurrent_write_lease() {
            let progress = self.objects.write(inode, offset, &data).await;
            return self.finish_concurrent_write(inode, offset, write_end, progress);
        }
        // What was written before to the same bytes must not arrive after this.
        let _in_errors = self.objects.flush(inode).await;
        if moves_end {
            self.leases.truncate_leftovers_before_growth(inode).await?;
        }
        let progress = self.objects.write(inode, offset, &data).await;
        self.finish_write(inode, offset, progress, moves_end).await
    }

    /// Where other clients write too, also the bytes of a part that failed are part of the file: truncating them could truncate theirs.
    fn finish_concurrent_write(
        &self,
        inode: &ActiveInode,
        offset: FileOffset,
        write_end: FileOffset,
        progress: WriteProgress,
    ) -> Result<WriteDone, FsError> {
        tracing::trace!(target: "walk", file = file!(), "finish_concurrent_write");
        inode.state().data_changed(write_end, self.clock.now());
        write_result(inode, offset, progress)
    }

    /// Makes the written bytes part of the file.
    async fn finish_write(
        &self,
        inode: &ActiveInode,
        offset: FileOffset,
        progress: WriteProgress,
        moves_end: bool,
    ) -> Result<WriteDone, FsError> {
        tracing::trace!(target: "walk", file = file!(), "finish_write");
        if progress.written > ByteCount(0) {
            let end = offset + progress.written;
            inode.state().data_changed(end, self.clock.now());
        }
        if progress.error.is_some() {
            self.leases.clean_up_after_failure(inode, moves_end).await;
        }
        write_result(inode, offset, progress)
    }
}

/// What write(2) returns: an error only if no byte was written.
fn write_result(
    inode: &ActiveInode,
    offset: FileOffset,
    progress: WriteProgress,
) -> Result<WriteDone, FsError> {
    match progress.error {
        Some(error) if progress.written == ByteCount(0) => Err(error),
        _ => Ok(WriteDone {
            written: progress.written.0,
            offset: offset.0,
            size: inode.state().end_of_file().0,
        }),
    }
}
