//! copy_file_range(2): bytes pass through the client, not through the kernel and the program.

use super::handle::OpenFile;
use super::read::ReadHow;
use super::write::WriteHow;
use crate::limits::COPY_STEP;
use crate::service::Client;
use gupfs_proto::Refusal;
use gupfs_proto::meta::{Access, WriteAt};

impl Client {
    /// Copies up to `len` bytes, to the end of `from` at most, and says how many. An error after the first byte makes
    /// the copy short.
    ///
    /// # Errors
    /// `Invalid` when the ranges overlap in one file, as copy_file_range(2) has it.
    pub async fn copy_range(
        &self,
        from: (&OpenFile, u64),
        to: (&OpenFile, u64),
        len: u64,
        how: WriteHow,
    ) -> Result<u64, Refusal> {
        let ((source, read_at), (target, write_at)) = (from, to);
        if !source.access().contains(Access::READ) || !target.access().contains(Access::WRITE) {
            return Err(Refusal::Denied);
        }
        self.must_count(source)?;
        if source.ino() == target.ino() && read_at.abs_diff(write_at) < len {
            return Err(Refusal::Invalid);
        }
        self.load(&source.inode).await?;
        // What the copy itself puts behind the end is not copied again.
        let len = len.min(source.inode.state().size.saturating_sub(read_at));
        let mut copied = 0;
        while copied < len {
            match self
                .copy_step(
                    source,
                    read_at + copied,
                    target,
                    write_at + copied,
                    len - copied,
                    how,
                )
                .await
            {
                Ok(0) => break,
                Ok(step) => copied += step,
                Err(refusal) if copied == 0 => return Err(refusal),
                Err(refusal) => {
                    tracing::debug!(%refusal, copied, "a copy ends early");
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
        how: WriteHow,
    ) -> Result<u64, Refusal> {
        let segments = self
            .read(source, read_at, len.min(COPY_STEP), ReadHow::default())
            .await?;
        let mut copied = 0;
        for segment in segments {
            let len = segment.len() as u64;
            let at = WriteAt::Offset(write_at + copied);
            let done = self.write(target, at, segment, how).await?;
            copied += done.written;
            if done.written < len {
                break;
            }
        }
        Ok(copied)
    }
}
