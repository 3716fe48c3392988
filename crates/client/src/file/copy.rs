//! copy_file_range(2): the client copies the bytes, without the kernel and the program.

use super::FileIo;
use super::read::ReadOptions;
use super::write::WriteOptions;
use crate::inodes::OpenFile;
use crate::limits::COPY_STEP;
use bytes::Bytes;
use gupfs_proto::meta::{AccessMode, WritePosition};
use gupfs_proto::{ByteCount, FileOffset, FsError};

impl FileIo {
    /// Copies up to `len` bytes, at most to the end of `from`, and returns how many. An error after the first byte makes the copy
    /// short.
    ///
    /// # Errors
    /// `Invalid` when the ranges overlap in one file, as copy_file_range(2) requires.
    pub async fn copy_range(
        &self,
        from: (&OpenFile, FileOffset),
        to: (&OpenFile, FileOffset),
        len: ByteCount,
        options: WriteOptions,
    ) -> Result<ByteCount, FsError> {
        let ((source, read_at), (target, write_at)) = (from, to);
        if !source.access().contains(AccessMode::READ)
            || !target.access().contains(AccessMode::WRITE)
        {
            return Err(FsError::Denied);
        }
        self.mds.check_opened_in(source.session())?;
        if source.ino() == target.ino() && read_at.0.abs_diff(write_at.0) < len.0 {
            return Err(FsError::Invalid);
        }
        self.leases.load(&source.inode).await?;
        // Bytes that the copy itself appends are not copied again.
        let end = source.inode.state().end_of_file();
        let len = len.min(end.max(read_at) - read_at);
        let mut copied = ByteCount(0);
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
                Ok(ByteCount(0)) => break,
                Ok(step) => copied += step,
                Err(error) if copied == ByteCount(0) => return Err(error),
                Err(error) => {
                    tracing::debug!(%error, %copied, "the copy is short");
                    break;
                }
            }
        }
        Ok(copied)
    }

    async fn copy_step(
        &self,
        source: &OpenFile,
        read_at: FileOffset,
        target: &OpenFile,
        write_at: FileOffset,
        len: ByteCount,
        options: WriteOptions,
    ) -> Result<ByteCount, FsError> {
        let segments = self
            .read(source, read_at, len.min(COPY_STEP), ReadOptions::default())
            .await?;
        let bytes = match &segments[..] {
            [] => return Ok(ByteCount(0)),
            [only] => only.clone(),
            several => Bytes::from(several.concat()),
        };
        let at = WritePosition::Offset(write_at.0);
        let done = self.write(target, at, bytes, options).await?;
        Ok(ByteCount(done.written))
    }
}
