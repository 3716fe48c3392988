//! copy_file_range(2): the client copies the bytes, without the kernel and the program.

use super::FileIo;
use super::read::ReadOptions;
use super::write::WriteOptions;
use crate::inodes::OpenFile;
use crate::limits::COPY_STEP;
use gupfs_proto::FsError;
use gupfs_proto::meta::{AccessMode, WritePosition};

impl FileIo {
    /// Copies up to `len` bytes, at most to the end of `from`, and returns how many. An error after the first byte makes the copy
    /// short.
    ///
    /// # Errors
    /// `Invalid` when the ranges overlap in one file, as copy_file_range(2) requires.
    pub async fn copy_range(
        &self,
        from: (&OpenFile, u64),
        to: (&OpenFile, u64),
        len: u64,
        options: WriteOptions,
    ) -> Result<u64, FsError> {
        let ((source, read_at), (target, write_at)) = (from, to);
        if !source.access().contains(AccessMode::READ)
            || !target.access().contains(AccessMode::WRITE)
        {
            return Err(FsError::Denied);
        }
        self.mds.check_opened_in(source.session())?;
        if source.ino() == target.ino() && read_at.abs_diff(write_at) < len {
            return Err(FsError::Invalid);
        }
        self.leases.load(&source.inode).await?;
        // Bytes that the copy itself appends are not copied again.
        let len = len.min(source.inode.state().size().saturating_sub(read_at));
        let mut copied = 0;
        while copied < len {
            match self
                .copy_step(
                    source,
                    read_at + copied,
                    target,
                    write_at + copied,
                    len - copied,
                    options,
                )
                .await
            {
                Ok(0) => break,
                Ok(step) => copied += step,
                Err(error) if copied == 0 => return Err(error),
                Err(error) => {
                    tracing::debug!(%error, copied, "the copy is short");
                    break;
                }
            }
        }
        Ok(copied)
    }

    async fn copy_step(
        &self,
        source: &OpenFile,
        read_at: u64,
        target: &OpenFile,
        write_at: u64,
        len: u64,
        options: WriteOptions,
    ) -> Result<u64, FsError> {
        let segments = self
            .read(source, read_at, len.min(COPY_STEP), ReadOptions::default())
            .await?;
        let mut copied = 0;
        for segment in segments {
            let len = segment.len() as u64;
            let at = WritePosition::Offset(write_at + copied);
            let done = self.write(target, at, segment, options).await?;
            copied += done.written;
            if done.written < len {
                break;
            }
        }
        Ok(copied)
    }
}
