//! # buffer: the memory that requests are read into
//!
//! Owns   the buffers of a reactor, the payload of a WRITE, scratch memory for READ.
//! Never  copies a payload, except when asked to keep a small one.
//! Enter  at `Pool::take`.
//!
//! A request is read so that the payload of a WRITE begins on a page: `[…, head of 80 bytes | payload …]`. A handler
//! that drops the payload gives the buffer back; one that keeps it keeps the buffer, and the reactor takes another.

use std::fmt;
use std::ops::{Deref, DerefMut, Range};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use crate::limits::{ALIGN, BEFORE_PAYLOAD, BUFFERS_KEPT, PAYLOAD_MIN};

/// Memory for one request.
pub(crate) struct Buffer {
    /// Zeroed once, when it was allocated; larger than needed, so that a page boundary can be chosen.
    bytes: Vec<u8>,
    /// Where payloads begin: on a page boundary, with room for the head before it.
    payload: usize,
    capacity: usize,
}

impl Buffer {
    fn new(capacity: usize) -> Buffer {
        let bytes = vec![0; 2 * ALIGN + capacity];
        // At least one page stays before it, the head needs less.
        let payload = ALIGN + bytes.as_ptr().align_offset(ALIGN).min(ALIGN);
        Buffer {
            bytes,
            payload,
            capacity,
        }
    }

    /// Where the device writes a message to.
    pub fn landing(&mut self) -> &mut [u8] {
        &mut self.bytes[self.payload - BEFORE_PAYLOAD..self.payload + self.capacity]
    }

    /// The message of `length` bytes that came.
    pub fn message(&self, length: usize) -> &[u8] {
        &self.bytes[self.payload - BEFORE_PAYLOAD..][..length]
    }
}

/// The free buffers of one reactor.
pub(crate) struct Pool {
    free: Mutex<Vec<Buffer>>,
    capacity: usize,
}

impl Pool {
    pub fn new(max_write: usize) -> Pool {
        Pool {
            free: Mutex::new(Vec::with_capacity(BUFFERS_KEPT)),
            capacity: max_write.max(PAYLOAD_MIN),
        }
    }

    pub fn take(&self) -> Buffer {
        // The last one given back is the one most likely in the CPU's cache.
        self.free()
            .pop()
            .unwrap_or_else(|| Buffer::new(self.capacity))
    }

    pub fn give(&self, buffer: Buffer) {
        let mut free = self.free();
        // One made for an unusually large Scratch is not kept.
        if free.len() < BUFFERS_KEPT && buffer.capacity == self.capacity {
            free.push(buffer);
        }
    }

    /// A push or a pop has no state in between that a panic could leave behind.
    fn free(&self) -> MutexGuard<'_, Vec<Buffer>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A part of a buffer, which goes back to its pool when this is dropped.
struct Loan {
    buffer: Option<Buffer>,
    range: Range<usize>,
    pool: Arc<Pool>,
}

impl Loan {
    fn bytes(&self) -> &[u8] {
        self.buffer
            .as_ref()
            .map_or(&[], |buffer| &buffer.bytes[self.range.clone()])
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        if let Some(buffer) = self.buffer.take() {
            self.pool.give(buffer);
        }
    }
}

/// The bytes of a WRITE, on a page boundary.
pub struct Payload(Loan);

impl Payload {
    /// `range` counts from the start of the message and lies inside it.
    pub(crate) fn new(buffer: Buffer, range: Range<usize>, pool: Arc<Pool>) -> Payload {
        let base = buffer.payload - BEFORE_PAYLOAD;
        assert!(
            base + range.end <= buffer.bytes.len(),
            "a payload lies inside its message"
        );
        Payload(Loan {
            buffer: Some(buffer),
            range: base + range.start..base + range.end,
            pool,
        })
    }

    /// To be kept beyond the request. A payload that fills less than a quarter of its buffer is copied out, so that
    /// what is kept costs what it holds; a larger one keeps the buffer.
    pub fn into_bytes(self) -> Bytes {
        if self.len() < self.0.pool.capacity / 4 {
            Bytes::copy_from_slice(&self)
        } else {
            Bytes::from_owner(self)
        }
    }
}

impl Deref for Payload {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0.bytes()
    }
}

impl AsRef<[u8]> for Payload {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Payload({} bytes)", self.len())
    }
}

/// Memory to read a file's bytes into and answer READ with, on a page boundary, from the reactor's pool.
///
/// It holds bytes of earlier requests: `truncate` it to what was filled.
pub struct Scratch(Loan);

impl Scratch {
    pub(crate) fn new(size: usize, pool: Arc<Pool>) -> Scratch {
        let buffer = if size <= pool.capacity {
            pool.take()
        } else {
            Buffer::new(size)
        };
        let range = buffer.payload..buffer.payload + size;
        Scratch(Loan {
            buffer: Some(buffer),
            range,
            pool,
        })
    }

    /// Keeps the first `size` bytes; no effect if there are not more.
    pub fn truncate(&mut self, size: usize) {
        let end = self.0.range.start + size;
        self.0.range.end = self.0.range.end.min(end);
    }
}

impl Deref for Scratch {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0.bytes()
    }
}

impl DerefMut for Scratch {
    fn deref_mut(&mut self) -> &mut [u8] {
        let range = self.0.range.clone();
        self.0
            .buffer
            .as_mut()
            .map_or(&mut [], |buffer| &mut buffer.bytes[range])
    }
}

impl fmt::Debug for Scratch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scratch({} bytes)", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(pool: &Arc<Pool>, bytes: &[u8]) -> Payload {
        let mut buffer = pool.take();
        buffer.landing()[BEFORE_PAYLOAD..][..bytes.len()].copy_from_slice(bytes);
        Payload::new(
            buffer,
            BEFORE_PAYLOAD..BEFORE_PAYLOAD + bytes.len(),
            pool.clone(),
        )
    }

    #[test]
    fn payloads_begin_on_a_page_and_go_back_when_dropped() {
        let pool = Arc::new(Pool::new(1 << 20));
        let first = payload(&pool, b"bytes");
        assert_eq!(&*first, b"bytes");
        assert_eq!(first.as_ptr().align_offset(ALIGN), 0);
        let place = first.as_ptr();
        assert_eq!(pool.free().len(), 0);
        drop(first);
        assert_eq!(pool.free().len(), 1);
        assert_eq!(payload(&pool, b"x").as_ptr(), place);
    }

    #[test]
    fn a_small_payload_is_kept_in_little_memory_and_a_large_one_without_a_copy() {
        let pool = Arc::new(Pool::new(1 << 20));
        let small = payload(&pool, &[1; 4096]);
        let kept = small.into_bytes();
        assert_eq!(pool.free().len(), 1);
        assert_eq!(kept, vec![1; 4096]);
        let large = payload(&pool, &vec![2; 1 << 20]);
        let place = large.as_ptr();
        let kept = large.into_bytes();
        assert_eq!(kept.as_ptr(), place);
        assert_eq!(pool.free().len(), 0);
        drop(kept);
        assert_eq!(pool.free().len(), 1);
    }

    #[test]
    fn scratch_is_cut_to_what_was_filled() {
        let pool = Arc::new(Pool::new(1 << 20));
        let mut scratch = Scratch::new(100, pool.clone());
        assert_eq!(scratch.len(), 100);
        scratch[..3].copy_from_slice(b"abc");
        scratch.truncate(3);
        scratch.truncate(50);
        assert_eq!(&*scratch, b"abc");
        assert_eq!(Scratch::new(5 << 20, pool).len(), 5 << 20);
    }

    #[test]
    fn the_pool_keeps_no_more_than_its_bound() {
        let pool = Pool::new(0);
        let many: Vec<Buffer> = (0..BUFFERS_KEPT + 3).map(|_| pool.take()).collect();
        many.into_iter().for_each(|buffer| pool.give(buffer));
        assert_eq!(pool.free().len(), BUFFERS_KEPT);
    }
}
