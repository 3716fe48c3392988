//! Reading: what the page cache holds is copied at once (preadv2 with RWF_NOWAIT); the rest over a ring where there is one, else
//! on the pool of threads. A thread that may wait itself does so for a little.
//!
//! Unsafe, because bytes are read into memory that is not initialised yet (`BytesMut`'s spare room), and because the
//! buffer moves to another thread together with its owner: no zeroing, no second copy.

use super::super::{ReadHow, Result};
use super::RealFile;
use crate::tasks::on_pool;
use bytes::{BufMut, BytesMut};
use gupfs_uring::may_wait_here;
use rustix::io::Errno;
use std::os::fd::AsRawFd;
use std::sync::Arc;

/// More than this is read in pieces that wait beside each other.
const WAIT_INLINE: usize = 64 << 10;

/// A place for bytes that can move to another thread with its owner.
trait Room: Send + 'static {
    /// Where to read to: valid for writes of that many bytes until the room is used otherwise or dropped; the same
    /// at every call.
    fn place(&mut self) -> (*mut u8, usize);
}

struct Owned<B>(B);

impl<B: AsMut<[u8]> + Send + 'static> Room for Owned<B> {
    fn place(&mut self) -> (*mut u8, usize) {
        let slice = self.0.as_mut();
        (slice.as_mut_ptr(), slice.len())
    }
}

/// `len` bytes of spare room behind what the buffer holds; reserved when made.
struct Spare {
    buf: BytesMut,
    len: usize,
}

impl Spare {
    fn filled(mut self, got: usize) -> BytesMut {
        assert!(got <= self.len, "the kernel read no more than asked");
        // SAFETY: the kernel initialised `got` bytes at the beginning of the spare room, and `got` ≤ its length.
        unsafe { self.buf.advance_mut(got) };
        self.buf
    }
}

impl Room for Spare {
    fn place(&mut self) -> (*mut u8, usize) {
        let spare = self.buf.chunk_mut();
        assert!(spare.len() >= self.len, "room was reserved");
        (spare.as_mut_ptr(), self.len)
    }
}

impl RealFile {
    pub async fn read_at(
        self: &Arc<Self>,
        buf: &mut [u8],
        offset: u64,
        how: ReadHow,
    ) -> Result<usize> {
        let (had, end) = self.read_here(buf.as_mut_ptr(), buf.len(), offset, how)?;
        if end {
            return Ok(had);
        }
        let rest = vec![0; buf.len() - had];
        let (rest, got) = self.read_there(Owned(rest), 0, offset + had as u64).await?;
        buf[had..had + got].copy_from_slice(&rest.0[..got]);
        Ok(had + got)
    }

    pub async fn read_owned<B>(
        self: &Arc<Self>,
        buf: B,
        offset: u64,
        how: ReadHow,
    ) -> Result<(B, usize)>
    where
        B: AsMut<[u8]> + Send + 'static,
    {
        let (room, got) = self.read_room(Owned(buf), offset, how).await?;
        Ok((room.0, got))
    }

    pub async fn read_append(
        self: &Arc<Self>,
        mut buf: BytesMut,
        len: usize,
        offset: u64,
        how: ReadHow,
    ) -> Result<BytesMut> {
        let (end, mut next) = (buf.len() + len, offset);
        loop {
            let all;
            let before = buf.len();
            (buf, all) = self.fill(buf, end, next, how)?;
            next += (buf.len() - before) as u64;
            let missing = end - buf.len();
            if all || missing == 0 {
                return Ok(buf);
            }
            let waits = (missing <= WAIT_INLINE).then(may_wait_here).flatten();
            if let Some(_waiting) = waits {
                return Ok(self.fill(buf, end, next, ReadHow::Inline)?.0);
            }
            match self.read_aside(&mut buf, missing, next).await {
                Some(0) => return Ok(buf),
                Some(got) => next += got as u64,
                None => {
                    buf.reserve(missing);
                    let room = Spare { buf, len: missing };
                    let (room, got) = self.read_there(room, 0, next).await?;
                    return Ok(room.filled(got));
                }
            }
        }
    }

    /// Reads on this thread until `buf` is `end` long; whether that is all there is to get.
    fn fill(
        &self,
        mut buf: BytesMut,
        end: usize,
        offset: u64,
        how: ReadHow,
    ) -> Result<(BytesMut, bool)> {
        let len = end - buf.len();
        buf.reserve(len);
        let mut room = Spare { buf, len };
        let (place, _) = room.place();
        let (got, all) = self.read_here(place, len, offset, how)?;
        Ok((room.filled(got), all))
    }

    /// Waits for the device without a thread; how much came, and that nothing did if the file ends. None if it could not be had:
    /// `buf` has what it had before.
    async fn read_aside(
        self: &Arc<Self>,
        buf: &mut BytesMut,
        len: usize,
        offset: u64,
    ) -> Option<usize> {
        if self.direct {
            return None;
        }
        let file: gupfs_uring::File = self.clone();
        // What is read into may be lost, what was there before not.
        let room = buf.split_off(buf.len());
        match gupfs_uring::read(&file, room, len, offset) {
            Ok(reading) => {
                let read = reading.await.ok()?;
                let got = read.len();
                buf.unsplit(read);
                Some(got)
            }
            Err(room) => {
                buf.unsplit(room);
                None
            }
        }
    }

    async fn read_room<R: Room>(
        self: &Arc<Self>,
        mut room: R,
        offset: u64,
        how: ReadHow,
    ) -> Result<(R, usize)> {
        let (place, len) = room.place();
        let (had, end) = self.read_here(place, len, offset, how)?;
        if end {
            return Ok((room, had));
        }
        self.read_there(room, had, offset).await
    }

    /// Reads on this thread; returns how much and whether that is all there is to get.
    fn read_here(
        &self,
        place: *mut u8,
        len: usize,
        offset: u64,
        how: ReadHow,
    ) -> Result<(usize, bool)> {
        let nowait = match how {
            ReadHow::Inline => false,
            ReadHow::MayWait if self.direct => return Ok((0, len == 0)),
            ReadHow::MayWait => true,
        };
        // SAFETY: the callers pass the memory of a buffer they hold mutably, `len` bytes long.
        unsafe { self.read_raw(place, len, 0, offset, nowait) }
    }

    /// Reads what follows the first `had` bytes on the pool, waiting for the device.
    async fn read_there<R: Room>(
        self: &Arc<Self>,
        mut room: R,
        had: usize,
        offset: u64,
    ) -> Result<(R, usize)> {
        let file = Arc::clone(self);
        on_pool(move || {
            let (place, len) = room.place();
            // SAFETY: `room` lives on this thread until the call has returned, and its place is `len` bytes long.
            let (got, _) = unsafe { file.read_raw(place, len, had, offset, false) }?;
            Ok((room, got))
        })
        .await
    }

    /// Fills `place[had..len]` from `offset + had` on; returns how much of `place` is filled then, and whether it is
    /// full or the file ended (false only with `nowait`).
    ///
    /// # Safety
    /// `place` must be valid for writes of `len` bytes for the duration of the call.
    unsafe fn read_raw(
        &self,
        place: *mut u8,
        len: usize,
        mut had: usize,
        offset: u64,
        mut nowait: bool,
    ) -> Result<(usize, bool)> {
        while had < len {
            // SAFETY: had < len, so the pointer stays inside the caller's memory.
            let base = unsafe { place.add(had) };
            let part = libc::iovec {
                iov_base: base.cast(),
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
                // File systems that live in memory do not know the flag, and need not wait either.
                Some(Errno::OPNOTSUPP) if nowait => nowait = false,
                Some(errno) => return Err(self.failed("read", errno)),
                None => unreachable!("a failed system call leaves an errno"),
            }
        }
        Ok((had, true))
    }
}
