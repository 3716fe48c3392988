//! `DiskFile`: the handle to one open file.

use super::real::{RealFile, RealLock};
use super::{Advice, ReadHow, Result, Stat};
use bytes::BytesMut;
use std::io::IoSlice;
use std::sync::Arc;

/// Cheap to clone; the file is closed with the last clone.
#[derive(Clone)]
pub struct DiskFile(FileSource);

#[derive(Clone)]
pub(crate) enum FileSource {
    Real(Arc<RealFile>),
    #[cfg(feature = "fake")]
    Fake(crate::fake::FakeFile),
}

/// A held lock; dropping it releases it.
pub struct DiskLock {
    _held: LockSource,
}

pub(crate) enum LockSource {
    Real {
        _lock: RealLock,
    },
    #[cfg(feature = "fake")]
    Fake {
        _lock: crate::fake::FakeLock,
    },
}

impl DiskLock {
    pub(crate) fn new(held: LockSource) -> DiskLock {
        DiskLock { _held: held }
    }
}

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
    pub(crate) fn new(source: FileSource) -> DiskFile {
        DiskFile(source)
    }

    /// Reads from `offset` until `buf` is full or the file ends; returns how much. A read that must wait for the
    /// device is copied once more here; `read_owned` and `read_append` are not.
    pub async fn read_at(&self, buf: &mut [u8], offset: u64, how: ReadHow) -> Result<usize> {
        on!(self, it => it.read_at(buf, offset, how).await)
    }

    /// The same into a buffer that is handed over and comes back, with how much was read.
    pub async fn read_owned<B>(&self, buf: B, offset: u64, how: ReadHow) -> Result<(B, usize)>
    where
        B: AsMut<[u8]> + Send + 'static,
    {
        on!(self, it => it.read_owned(buf, offset, how).await)
    }

    /// Reads up to `len` bytes behind what `buf` holds; nothing is zeroed before. At the file's end it comes back
    /// with fewer.
    pub async fn read_append(
        &self,
        buf: BytesMut,
        len: usize,
        offset: u64,
        how: ReadHow,
    ) -> Result<BytesMut> {
        on!(self, it => it.read_append(buf, len, offset, how).await)
    }

    /// Writes all of `bytes`. After an error any part of them may be there.
    pub async fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        on!(self, it => it.write_at(bytes, offset).await)
    }

    /// Writes all parts, one behind the other.
    pub async fn write_vectored_at(&self, parts: &[IoSlice<'_>], offset: u64) -> Result<()> {
        on!(self, it => it.write_vectored_at(parts, offset).await)
    }

    /// Makes what was written survive a power cut, and the length with it; not mtime. After an error nothing that was
    /// written since the last good sync can be relied on, and a later good sync does not change that.
    pub async fn sync_data(&self) -> Result<()> {
        on!(self, it => it.sync_data().await)
    }

    pub async fn sync_all(&self) -> Result<()> {
        on!(self, it => it.sync_all().await)
    }

    pub async fn stat(&self) -> Result<Stat> {
        on!(self, it => it.stat().await)
    }

    pub async fn len(&self) -> Result<u64> {
        Ok(self.stat().await?.len)
    }

    pub async fn is_empty(&self) -> Result<bool> {
        Ok(self.len().await? == 0)
    }

    /// Cuts the file, or lengthens it with a hole.
    pub async fn set_len(&self, len: u64) -> Result<()> {
        on!(self, it => it.set_len(len).await)
    }

    /// Gives a range space on the device, so that writing to it later cannot fail for want of it; lengthens the file
    /// if the range ends behind it. What was a hole reads as zeros.
    pub async fn allocate(&self, offset: u64, len: u64) -> Result<()> {
        on!(self, it => it.allocate(offset, len).await)
    }

    /// The same, but the length stays: space behind the end waits for later writes.
    pub async fn allocate_keeping_len(&self, offset: u64, len: u64) -> Result<()> {
        on!(self, it => it.allocate_keeping_len(offset, len).await)
    }

    /// Writes zeros: unlike `allocate`, later syncs of writes into the range have no block map to write.
    pub async fn zero_fill(&self, offset: u64, len: u64) -> Result<()> {
        on!(self, it => it.zero_fill(offset, len).await)
    }

    /// Zeros a range without writing it, keeping its space; never lengthens the file.
    pub async fn zero_range(&self, offset: u64, len: u64) -> Result<()> {
        on!(self, it => it.zero_range(offset, len).await)
    }

    /// Zeros a range and gives back the space of the whole blocks in it; never lengthens the file.
    pub async fn punch_hole(&self, offset: u64, len: u64) -> Result<()> {
        on!(self, it => it.punch_hole(offset, len).await)
    }

    /// Where the next data at or behind `offset` begins; none if only a hole follows.
    pub async fn seek_data(&self, offset: u64) -> Result<Option<u64>> {
        on!(self, it => it.seek_data(offset).await)
    }

    /// Where the next hole at or behind `offset` begins (the end of the file is one); none behind the end.
    pub async fn seek_hole(&self, offset: u64) -> Result<Option<u64>> {
        on!(self, it => it.seek_hole(offset).await)
    }

    /// Begins to read a range that will be wanted, on the pool: nobody waits, and nobody is told when it cannot be read.
    pub fn read_ahead(&self, offset: u64, len: u64) {
        on!(self, it => it.read_ahead(offset, len));
    }

    /// Begins to write what is dirty in a range to the device, on the pool. Nothing is promised: `sync_data` does that, and
    /// finds less to do.
    pub fn begin_write_back(&self, offset: u64, len: u64) {
        on!(self, it => it.begin_write_back(offset, len));
    }

    pub fn advise(&self, offset: u64, len: u64, advice: Advice) -> Result<()> {
        on!(self, it => it.advise(offset, len, advice))
    }
}
