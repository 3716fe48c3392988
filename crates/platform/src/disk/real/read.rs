//! Reading: bytes in the page cache are copied at once (preadv2 with RWF_NOWAIT); the rest is read over a ring if there is one,
//! else on the thread pool. A thread with a blocking permit reads a small rest itself.
//!
//! Unsafe, because bytes are read into memory that is not initialised yet (`BytesMut`'s spare capacity), and because the buffer
//! moves to another thread together with its owner: this avoids zeroing and a second copy.

use super::super::{OnCacheMiss, Result};
use super::RealFile;
use crate::tasks::run_on_pool;
use bytes::{BufMut, BytesMut};
use gupfs_uring::acquire_blocking_permit;
use rustix::io::Errno;
use std::os::fd::AsRawFd;
use std::sync::Arc;

/// Largest rest that a thread with a blocking permit reads itself. A larger one goes to a ring or the pool, which read several
/// parts in parallel.
const BLOCKING_READ_MAX: usize = 64 << 10;

/// A buffer that can move to another thread with its owner.
trait ReadBuffer: Send + 'static {
    /// Pointer and length of the memory to read into: valid for writes of that many bytes until the buffer is used otherwise or
    /// dropped; the same at every call.
    fn as_raw_parts(&mut self) -> (*mut u8, usize);
}

struct OwnedBuffer<B>(B);

impl<B: AsMut<[u8]> + Send + 'static> ReadBuffer for OwnedBuffer<B> {
    fn as_raw_parts(&mut self) -> (*mut u8, usize) {
        let slice = self.0.as_mut();
        (slice.as_mut_ptr(), slice.len())
    }
}

/// `len` bytes of spare capacity behind the buffer's contents; the creator has reserved them.
struct SpareCapacity {
    buf: BytesMut,
    len: usize,
}

impl SpareCapacity {
    fn filled(mut self, got: usize) -> BytesMut {
        assert!(got <= self.len, "the kernel read more than requested");
        // SAFETY: the kernel initialised `got` bytes at the beginning of the spare capacity, and `got` ≤ its length.
        unsafe { self.buf.advance_mut(got) };
        self.buf
    }
}

impl ReadBuffer for SpareCapacity {
    fn as_raw_parts(&mut self) -> (*mut u8, usize) {
        let spare = self.buf.chunk_mut();
        assert!(spare.len() >= self.len, "capacity was reserved");
        (spare.as_mut_ptr(), self.len)
    }
}

impl RealFile {
    pub async fn read_at(
        self: &Arc<Self>,
        buf: &mut [u8],
        offset: u64,
        on_miss: OnCacheMiss,
    ) -> Result<usize> {
        let (had, end) = self.read_on_this_thread(buf.as_mut_ptr(), buf.len(), offset, on_miss)?;
        if end {
            return Ok(had);
        }
        let rest = vec![0; buf.len() - had];
        let (rest, got) = self
            .read_on_pool(OwnedBuffer(rest), 0, offset + had as u64)
            .await?;
        buf[had..had + got].copy_from_slice(&rest.0[..got]);
        Ok(had + got)
    }

    pub async fn read_owned<B>(
        self: &Arc<Self>,
        buf: B,
        offset: u64,
        on_miss: OnCacheMiss,
    ) -> Result<(B, usize)>
    where
        B: AsMut<[u8]> + Send + 'static,
    {
        let (owned, got) = self.read_buffer(OwnedBuffer(buf), offset, on_miss).await?;
        Ok((owned.0, got))
    }

    pub async fn read_append(
        self: &Arc<Self>,
        mut buf: BytesMut,
        len: usize,
        offset: u64,
        on_miss: OnCacheMiss,
    ) -> Result<BytesMut> {
        let (end, mut next) = (buf.len() + len, offset);
        loop {
            let all;
            let before = buf.len();
            (buf, all) = self.fill(buf, end, next, on_miss)?;
            next += (buf.len() - before) as u64;
            let missing = end - buf.len();
            if all || missing == 0 {
                return Ok(buf);
            }
            let permit = (missing <= BLOCKING_READ_MAX)
                .then(acquire_blocking_permit)
                .flatten();
            if let Some(_permit) = permit {
                return Ok(self.fill(buf, end, next, OnCacheMiss::Block)?.0);
            }
            match self.read_over_ring(&mut buf, missing, next).await {
                Some(0) => return Ok(buf),
                Some(got) => next += got as u64,
                None => {
                    buf.reserve(missing);
                    let spare = SpareCapacity { buf, len: missing };
                    let (spare, got) = self.read_on_pool(spare, 0, next).await?;
                    return Ok(spare.filled(got));
                }
            }
        }
    }

    /// Reads on this thread until `buf` has `end` bytes; returns whether the read is complete.
    fn fill(
        &self,
        mut buf: BytesMut,
        end: usize,
        offset: u64,
        on_miss: OnCacheMiss,
    ) -> Result<(BytesMut, bool)> {
        let len = end - buf.len();
        buf.reserve(len);
        let mut spare = SpareCapacity { buf, len };
        let (base, _) = spare.as_raw_parts();
        let (got, all) = self.read_on_this_thread(base, len, offset, on_miss)?;
        Ok((spare.filled(got), all))
    }

    /// Reads over a ring; returns the number of bytes, 0 at the end of the file. None if no ring took the read or it failed:
    /// `buf` then has its former contents.
    async fn read_over_ring(
        self: &Arc<Self>,
        buf: &mut BytesMut,
        len: usize,
        offset: u64,
    ) -> Option<usize> {
        if self.direct {
            return None;
        }
        let file: gupfs_uring::ReadableFile = self.clone();
        // A failed read loses its buffer, so it gets only the spare capacity, not the contents.
        let spare = buf.split_off(buf.len());
        match gupfs_uring::read(&file, spare, len, offset) {
            Ok(future) => {
                let read = future.await.ok()?;
                let got = read.len();
                buf.unsplit(read);
                Some(got)
            }
            Err(spare) => {
                buf.unsplit(spare);
                None
            }
        }
    }

    async fn read_buffer<R: ReadBuffer>(
        self: &Arc<Self>,
        mut buffer: R,
        offset: u64,
        on_miss: OnCacheMiss,
    ) -> Result<(R, usize)> {
        let (base, len) = buffer.as_raw_parts();
        let (had, end) = self.read_on_this_thread(base, len, offset, on_miss)?;
        if end {
            return Ok((buffer, had));
        }
        self.read_on_pool(buffer, had, offset).await
    }

    /// Reads on this thread; returns the number of bytes and whether the read is complete.
    fn read_on_this_thread(
        &self,
        base: *mut u8,
        len: usize,
        offset: u64,
        on_miss: OnCacheMiss,
    ) -> Result<(usize, bool)> {
        let nowait = match on_miss {
            OnCacheMiss::Block => false,
            OnCacheMiss::HandOff if self.direct => return Ok((0, len == 0)),
            OnCacheMiss::HandOff => true,
        };
        // SAFETY: the callers pass the memory of a buffer they hold mutably, `len` bytes long.
        unsafe { self.read_raw(base, len, 0, offset, nowait) }
    }

    /// Reads the bytes after the first `had` ones on the pool, which waits for the device.
    async fn read_on_pool<R: ReadBuffer>(
        self: &Arc<Self>,
        mut buffer: R,
        had: usize,
        offset: u64,
    ) -> Result<(R, usize)> {
        let file = Arc::clone(self);
        run_on_pool(move || {
            let (base, len) = buffer.as_raw_parts();
            // SAFETY: `buffer` stays on this thread until the call has returned, and `base` is valid for `len` bytes.
            let (got, _) = unsafe { file.read_raw(base, len, had, offset, false) }?;
            Ok((buffer, got))
        })
        .await
    }

    /// Fills `base[had..len]` from `offset + had` on; returns the number of filled bytes from `base` on, and whether all are
    /// filled or the file ended (false only with `nowait`).
    ///
    /// # Safety
    /// `base` must be valid for writes of `len` bytes during the call.
    unsafe fn read_raw(
        &self,
        base: *mut u8,
        len: usize,
        mut had: usize,
        offset: u64,
        mut nowait: bool,
    ) -> Result<(usize, bool)> {
        while had < len {
            // SAFETY: had < len, so the pointer stays inside the caller's memory.
            let next = unsafe { base.add(had) };
            let part = libc::iovec {
                iov_base: next.cast(),
                iov_len: len - had,
            };
            let flags = if nowait { libc::RWF_NOWAIT } else { 0 };
            let at = (offset + had as u64) as libc::off_t;
            // SAFETY: one iovec that describes memory valid for writes, as the caller promised.
            let got = unsafe { libc::preadv2(self.fd.as_raw_fd(), &part, 1, at, flags) };
            if got > 0 {
                had += got as usize;
                continue;
            }
            if got == 0 {
                return Ok((had, true));
            }
            match Errno::from_io_error(&std::io::Error::last_os_error()) {
                Some(Errno::INTR) => {}
                Some(Errno::AGAIN) if nowait => return Ok((had, false)),
                // File systems in memory do not support the flag, and never wait.
                Some(Errno::OPNOTSUPP) if nowait => nowait = false,
                Some(errno) => return Err(self.failed("read", errno)),
                None => unreachable!("a failed system call leaves an errno"),
            }
        }
        Ok((had, true))
    }
}
