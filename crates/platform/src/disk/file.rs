//! `DiskFile`: the handle of one open file.

#[cfg(feature = "fake")]
use super::fake::FakeFile;
use super::real::RealFile;
use super::{Advice, DiskStat, OnCacheMiss, Result};
use bytes::BytesMut;
use std::io::IoSlice;
use std::sync::Arc;

/// Cheap to clone; the file is closed with the last clone.
#[derive(Clone)]
pub struct DiskFile(FileSource);

#[derive(Clone)]
enum FileSource {
    Real(Arc<RealFile>),
    #[cfg(feature = "fake")]
    Fake(FakeFile),
}

/// Calls the same method on the file behind the handle, real or fake.
macro_rules! on {
    ($file:expr, $it:ident => $call:expr) => {
        match &$file.0 {
            FileSource::Real($it) => $call,
            #[cfg(feature = "fake")]
            FileSource::Fake($it) => $call,
        }
    };
}

impl DiskFile {
    pub(super) fn real(file: RealFile) -> DiskFile {
        DiskFile(FileSource::Real(Arc::new(file)))
    }

    #[cfg(feature = "fake")]
    pub(super) fn fake(file: FakeFile) -> DiskFile {
        DiskFile(FileSource::Fake(file))
    }

    /// Reads from `offset` until `buf` is full or the file ends; returns the number of bytes. A read that must wait for the
    /// device is copied once more; `read_owned` and `read_append` avoid that copy.
    ///
    /// # Errors
    /// `Broken` if the device cannot read the bytes. The end of the file is no error.
    pub async fn read_at(
        &self,
        buf: &mut [u8],
        offset: u64,
        on_miss: OnCacheMiss,
    ) -> Result<usize> {
        on!(self, file => file.read_at(buf, offset, on_miss).await)
    }

    /// The same, but takes the buffer and returns it with the number of bytes.
    ///
    /// # Errors
    /// As `read_at`; the buffer is lost.
    pub async fn read_owned<B>(
        &self,
        buf: B,
        offset: u64,
        on_miss: OnCacheMiss,
    ) -> Result<(B, usize)>
    where
        B: AsMut<[u8]> + Send + 'static,
    {
        on!(self, file => file.read_owned(buf, offset, on_miss).await)
    }

    /// Reads up to `len` bytes and appends them to `buf`, without zeroing its spare capacity first; fewer bytes at the end of the
    /// file.
    ///
    /// # Errors
    /// As `read_at`; the buffer is lost.
    pub async fn read_append(
        &self,
        buf: BytesMut,
        len: usize,
        offset: u64,
        on_miss: OnCacheMiss,
    ) -> Result<BytesMut> {
        on!(self, file => file.read_append(buf, len, offset, on_miss).await)
    }

    /// Writes all of `bytes`. After an error any part of them may have been written.
    ///
    /// # Errors
    /// `Full` if the disk has no space, `TooLarge` above the largest file of the file system, `Broken` if the device failed.
    pub async fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        on!(self, file => file.write_at(bytes, offset).await)
    }

    /// Writes all parts, one after the other.
    ///
    /// # Errors
    /// As `write_at`.
    pub async fn write_vectored_at(&self, parts: &[IoSlice<'_>], offset: u64) -> Result<()> {
        on!(self, file => file.write_vectored_at(parts, offset).await)
    }

    /// Makes all writes and the length survive a power loss; not mtime. After an error all writes since the last successful sync
    /// may be lost, and a later successful sync does not change that.
    ///
    /// # Errors
    /// `Broken`, or any other error of the system: writes may be lost.
    pub async fn sync_data(&self) -> Result<()> {
        on!(self, file => file.sync_data().await)
    }

    /// # Errors
    /// As `sync_data`.
    pub async fn sync_all(&self) -> Result<()> {
        on!(self, file => file.sync_all().await)
    }

    /// # Errors
    /// The system's error.
    pub async fn stat(&self) -> Result<DiskStat> {
        on!(self, file => file.stat().await)
    }

    /// # Errors
    /// As `stat`.
    pub async fn len(&self) -> Result<u64> {
        Ok(self.stat().await?.len)
    }

    /// # Errors
    /// As `stat`.
    pub async fn is_empty(&self) -> Result<bool> {
        Ok(self.len().await? == 0)
    }

    /// Truncates the file, or extends it with a hole.
    ///
    /// # Errors
    /// `TooLarge` above the largest file of the file system; `Broken` if the device failed.
    pub async fn set_len(&self, len: u64) -> Result<()> {
        on!(self, file => file.set_len(len).await)
    }

    /// Allocates space for a range, so that later writes to it cannot fail for lack of space; extends the file if the range ends
    /// behind its end. Former holes read as zeros.
    ///
    /// # Errors
    /// `Full` if the disk has no space, `TooLarge` above the largest file, `Unsupported` if the file system cannot allocate.
    pub async fn allocate(&self, offset: u64, len: u64) -> Result<()> {
        on!(self, file => file.allocate(offset, len).await)
    }

    /// The same, but keeps the length: space behind the end is for later writes.
    ///
    /// # Errors
    /// As `allocate`.
    pub async fn allocate_keeping_len(&self, offset: u64, len: u64) -> Result<()> {
        on!(self, file => file.allocate_keeping_len(offset, len).await)
    }

    /// Writes zeros: unlike after `allocate`, later syncs of writes to the range need not write a block map.
    ///
    /// # Errors
    /// As `write_at`.
    pub async fn zero_fill(&self, offset: u64, len: u64) -> Result<()> {
        on!(self, file => file.zero_fill(offset, len).await)
    }

    /// Zeros a range without writing it, and keeps its space; never extends the file.
    ///
    /// # Errors
    /// `Full` if the disk has no space for the blocks, `Broken` if the device failed.
    pub async fn zero_range(&self, offset: u64, len: u64) -> Result<()> {
        on!(self, file => file.zero_range(offset, len).await)
    }

    /// Zeros a range and frees the space of the whole blocks in it; never extends the file.
    ///
    /// # Errors
    /// `Unsupported` if the file system has no holes, `Broken` if the device failed.
    pub async fn punch_hole(&self, offset: u64, len: u64) -> Result<()> {
        on!(self, file => file.punch_hole(offset, len).await)
    }

    /// Start of the next data at or after `offset`; None if only a hole follows.
    ///
    /// # Errors
    /// The system's error. No data after `offset` is no error.
    pub async fn seek_data(&self, offset: u64) -> Result<Option<u64>> {
        on!(self, file => file.seek_data(offset).await)
    }

    /// Start of the next hole at or after `offset` (the end of the file is one); None behind the end.
    ///
    /// # Errors
    /// The system's error.
    pub async fn seek_hole(&self, offset: u64) -> Result<Option<u64>> {
        on!(self, file => file.seek_hole(offset).await)
    }

    /// Starts to read a range into the page cache on the thread pool. The caller does not wait and gets no error.
    pub fn read_ahead(&self, offset: u64, len: u64) {
        on!(self, file => file.read_ahead(offset, len));
    }

    /// Starts to write the dirty pages of a range to the device on the thread pool. It promises nothing; a later `sync_data` has
    /// less to write.
    pub fn start_write_back(&self, offset: u64, len: u64) {
        on!(self, file => file.start_write_back(offset, len));
    }

    /// # Errors
    /// The system's error; the advice has no effect then.
    pub fn advise(&self, offset: u64, len: u64, advice: Advice) -> Result<()> {
        on!(self, file => file.advise(offset, len, advice))
    }
}
