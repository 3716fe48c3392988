//! # buffer: the memory that requests are read into
//!
//! Owns   the buffers of a reactor, the payload of a WRITE, scratch memory for READ.
//! Never  copies a payload, except when asked to keep a small one.
//! Enter  at `Pool::take`.
//!
//! A request is read so that the payload of a WRITE begins on a page: `[…, head of 80 bytes | payload …]`. A handler
//! that drops the payload gives the buffer back; one that keeps it keeps the buffer, and the reactor takes another.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use crate::limits::{ALIGN, BEFORE_PAYLOAD, BUFFERS_KEPT, PAYLOAD_MIN};
use crate::transport::ring::Lent;

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

/// A buffer of a pool, which goes back when this is dropped.
struct Pooled {
    buffer: Option<Buffer>,
    pool: Arc<Pool>,
}

impl Drop for Pooled {
    fn drop(&mut self) {
        if let Some(buffer) = self.buffer.take() {
            self.pool.give(buffer);
        }
    }
}

/// Memory for one request's bytes.
enum Memory {
    /// The payload begins at the buffer's `payload`.
    Pooled(Pooled),
    /// The payload's pages in a place that the kernel knows.
    Lent(Lent),
}

/// Bytes of the payload.
struct Loan {
    memory: Memory,
    /// Not 0 only in what the kernel lent: there the bytes may lie behind others.
    begins: usize,
    size: usize,
}

impl Loan {
    fn bytes(&self) -> &[u8] {
        match &self.memory {
            Memory::Pooled(Pooled { buffer, .. }) => buffer
                .as_ref()
                .map_or(&[], |buffer| &buffer.bytes[buffer.payload..][..self.size]),
            Memory::Lent(lent) => &lent.bytes(self.begins + self.size)[self.begins..],
        }
    }

    fn capacity(&self) -> usize {
        match &self.memory {
            Memory::Pooled(pooled) => pooled.pool.capacity,
            Memory::Lent(lent) => lent.capacity(),
        }
    }
}

/// The bytes of a WRITE, on a page boundary. (Those of `op::Retrieved` may lie anywhere.)
///
/// If the request came through a ring, they lie in memory that the kernel needs for the answer: it is given when this is
/// dropped.
pub struct Payload(Loan);

impl Payload {
    /// The first `size` bytes of the payload of the message that was read into `buffer`.
    pub(crate) fn new(buffer: Buffer, size: usize, pool: Arc<Pool>) -> Payload {
        assert!(size <= buffer.capacity, "a payload lies in its buffer");
        let buffer = Some(buffer);
        Payload(Loan {
            memory: Memory::Pooled(Pooled { buffer, pool }),
            begins: 0,
            size,
        })
    }

    /// The bytes from `begins` on of a request that came through a ring.
    pub(crate) fn lent(lent: Lent, begins: usize, size: usize) -> Payload {
        let fits = begins + size <= lent.capacity();
        assert!(fits, "a payload lies in its place");
        Payload(Loan {
            memory: Memory::Lent(lent),
            begins,
            size,
        })
    }

    /// The same bytes in memory of their own.
    pub(crate) fn copied(self, pool: Arc<Pool>) -> Payload {
        let size = self.len();
        let mut buffer = match size <= pool.capacity {
            true => pool.take(),
            false => Buffer::new(size),
        };
        buffer.landing()[BEFORE_PAYLOAD..][..size].copy_from_slice(&self);
        Payload::new(buffer, size, pool)
    }

    /// To be kept beyond the request. What fills less than a quarter of its memory is copied out, so that what is kept costs
    /// what it holds; a larger payload keeps the memory, unless it came through a ring.
    pub fn into_bytes(self) -> Bytes {
        match self.0.memory {
            Memory::Lent(_) => Bytes::copy_from_slice(&self),
            Memory::Pooled(_) => self.into_passing_bytes(),
        }
    }

    /// To be handed to who needs it until the request is answered: the same, without a copy of what came through a ring. Its
    /// answer waits until all clones of the result are dropped.
    pub fn into_passing_bytes(self) -> Bytes {
        if self.len() < self.0.capacity() / 4 {
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
        let buffer = Some(buffer);
        Scratch(Loan {
            memory: Memory::Pooled(Pooled { buffer, pool }),
            begins: 0,
            size,
        })
    }

    /// `size` is at most the capacity of what is lent.
    pub(crate) fn of_lent(lent: Lent, size: usize) -> Scratch {
        Scratch(Loan {
            memory: Memory::Lent(lent),
            begins: 0,
            size,
        })
    }

    pub(crate) fn lent(&self) -> Option<&Lent> {
        match &self.0.memory {
            Memory::Lent(lent) => Some(lent),
            Memory::Pooled(_) => None,
        }
    }

    /// Keeps the first `size` bytes; no effect if there are not more.
    pub fn truncate(&mut self, size: usize) {
        self.0.size = self.0.size.min(size);
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
        let size = self.0.size;
        match &mut self.0.memory {
            Memory::Pooled(Pooled { buffer, .. }) => buffer.as_mut().map_or(&mut [], |buffer| {
                &mut buffer.bytes[buffer.payload..][..size]
            }),
            Memory::Lent(lent) => lent.bytes_mut(size),
        }
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
        Payload::new(buffer, bytes.len(), pool.clone())
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
