//! # buffer: the memory that requests are read into
//!
//! Owns   the buffers of a worker, the payload of a WRITE, scratch memory for READ.
//! Never  copies a payload, except where a caller asks for bytes to keep, or where early replies need the ring entry.
//! Enter  at `Pool::take`.
//!
//! A request is read so that the payload of a WRITE begins on a page: `[…, head of 80 bytes | payload …]`. A handler that drops
//! the payload returns the buffer; a handler that keeps the payload keeps the buffer, and the worker takes another.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use crate::limits::{ALIGN, BEFORE_PAYLOAD, FREE_BUFFERS_MAX, PAYLOAD_MIN};
use crate::transport::ring::EntryPayload;

/// Memory for one request.
pub(crate) struct Buffer {
    /// Zeroed once, when it was allocated; larger than needed, so that the payload can be aligned to a page boundary.
    bytes: Vec<u8>,
    /// Offset of the payload: on a page boundary, with space for the head before it.
    payload: usize,
    capacity: usize,
}

impl Buffer {
    fn new(capacity: usize) -> Buffer {
        let bytes = vec![0; 2 * ALIGN + capacity];
        // At least one page precedes the payload; the head needs less.
        let payload = ALIGN + bytes.as_ptr().align_offset(ALIGN).min(ALIGN);
        Buffer {
            bytes,
            payload,
            capacity,
        }
    }

    /// The slice that a message is read into.
    pub fn read_target(&mut self) -> &mut [u8] {
        &mut self.bytes[self.payload - BEFORE_PAYLOAD..self.payload + self.capacity]
    }

    /// The message of `length` bytes that was read.
    pub fn message(&self, length: usize) -> &[u8] {
        &self.bytes[self.payload - BEFORE_PAYLOAD..][..length]
    }
}

/// The free buffers of one worker.
pub(crate) struct Pool {
    free: Mutex<Vec<Buffer>>,
    capacity: usize,
}

impl Pool {
    pub fn new(max_write: usize) -> Pool {
        Pool {
            free: Mutex::new(Vec::with_capacity(FREE_BUFFERS_MAX)),
            capacity: max_write.max(PAYLOAD_MIN),
        }
    }

    pub fn take(&self) -> Buffer {
        // The buffer that was returned last is the most likely to be in the CPU's cache.
        self.free()
            .pop()
            .unwrap_or_else(|| Buffer::new(self.capacity))
    }

    pub fn put_back(&self, buffer: Buffer) {
        let mut free = self.free();
        // A buffer that was made for an unusually large `Scratch` is not kept.
        if free.len() < FREE_BUFFERS_MAX && buffer.capacity == self.capacity {
            free.push(buffer);
        }
    }

    /// A panic cannot leave the list in an intermediate state: only push and pop change it.
    fn free(&self) -> MutexGuard<'_, Vec<Buffer>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A buffer that returns to its pool when this is dropped.
struct PooledBuffer {
    buffer: Option<Buffer>,
    pool: Arc<Pool>,
}

impl Drop for PooledBuffer {
    fn drop(&mut self) {
        if let Some(buffer) = self.buffer.take() {
            self.pool.put_back(buffer);
        }
    }
}

/// The memory that contains a payload.
enum PayloadMemory {
    /// A buffer of the pool; the payload begins at the buffer's `payload`.
    Pooled(PooledBuffer),
    /// The payload pages of a ring entry.
    EntryPayload(EntryPayload),
}

/// A range of a payload.
struct PayloadRange {
    memory: PayloadMemory,
    /// Always 0 in a pooled buffer. In a ring entry other bytes may precede the data.
    start: usize,
    size: usize,
}

impl PayloadRange {
    fn bytes(&self) -> &[u8] {
        match &self.memory {
            PayloadMemory::Pooled(PooledBuffer { buffer, .. }) => buffer
                .as_ref()
                .map_or(&[], |buffer| &buffer.bytes[buffer.payload..][..self.size]),
            PayloadMemory::EntryPayload(entry) => {
                &entry.bytes(self.start + self.size)[self.start..]
            }
        }
    }

    fn capacity(&self) -> usize {
        match &self.memory {
            PayloadMemory::Pooled(pooled) => pooled.pool.capacity,
            PayloadMemory::EntryPayload(entry) => entry.capacity(),
        }
    }
}

/// The bytes of a WRITE, on a page boundary. (The bytes of `op::Retrieved` need not be aligned.)
///
/// If the request came through a ring, the bytes lie in memory that the kernel needs for the reply: the reply is sent when this
/// is dropped.
pub struct Payload(PayloadRange);

impl Payload {
    /// The first `size` bytes of the payload of the message that was read into `buffer`.
    pub(crate) fn new(buffer: Buffer, size: usize, pool: Arc<Pool>) -> Payload {
        assert!(
            size <= buffer.capacity,
            "a payload must fit into its buffer"
        );
        let buffer = Some(buffer);
        Payload(PayloadRange {
            memory: PayloadMemory::Pooled(PooledBuffer { buffer, pool }),
            start: 0,
            size,
        })
    }

    /// The bytes from `start` on of a request that came through a ring.
    pub(crate) fn in_entry(entry: EntryPayload, start: usize, size: usize) -> Payload {
        let fits = start + size <= entry.capacity();
        assert!(fits, "a payload must fit into its ring entry");
        Payload(PayloadRange {
            memory: PayloadMemory::EntryPayload(entry),
            start,
            size,
        })
    }

    /// The same bytes, copied into a buffer of the pool.
    pub(crate) fn copied(self, pool: Arc<Pool>) -> Payload {
        let size = self.len();
        let mut buffer = match size <= pool.capacity {
            true => pool.take(),
            false => Buffer::new(size),
        };
        buffer.read_target()[BEFORE_PAYLOAD..][..size].copy_from_slice(&self);
        Payload::new(buffer, size, pool)
    }

    /// Bytes that the caller may keep beyond the request. A payload that fills less than a quarter of its memory is copied, so
    /// that keeping it costs no more memory than it has bytes; a larger one keeps its memory, unless it came through a ring.
    pub fn into_bytes(self) -> Bytes {
        match self.0.memory {
            PayloadMemory::EntryPayload(_) => Bytes::copy_from_slice(&self),
            PayloadMemory::Pooled(_) => self.into_shared_bytes(),
        }
    }

    /// Bytes that are needed only until the reply is sent: like `into_bytes`, but without a copy of a payload that came through
    /// a ring. The reply waits until all clones of the result are dropped.
    pub fn into_shared_bytes(self) -> Bytes {
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

/// Page-aligned memory of the worker's pool, or of the ring entry, to read a file's bytes into and to reply to a READ with.
///
/// It contains bytes of earlier requests: `truncate` it to the length that was filled.
pub struct Scratch(PayloadRange);

impl Scratch {
    pub(crate) fn new(size: usize, pool: Arc<Pool>) -> Scratch {
        let buffer = if size <= pool.capacity {
            pool.take()
        } else {
            Buffer::new(size)
        };
        let buffer = Some(buffer);
        Scratch(PayloadRange {
            memory: PayloadMemory::Pooled(PooledBuffer { buffer, pool }),
            start: 0,
            size,
        })
    }

    /// `size` must be at most the capacity of `entry`.
    pub(crate) fn in_entry(entry: EntryPayload, size: usize) -> Scratch {
        Scratch(PayloadRange {
            memory: PayloadMemory::EntryPayload(entry),
            start: 0,
            size,
        })
    }

    pub(crate) fn entry_payload(&self) -> Option<&EntryPayload> {
        match &self.0.memory {
            PayloadMemory::EntryPayload(entry) => Some(entry),
            PayloadMemory::Pooled(_) => None,
        }
    }

    /// Keeps the first `size` bytes; no effect if it has fewer.
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

impl AsRef<[u8]> for Scratch {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl DerefMut for Scratch {
    fn deref_mut(&mut self) -> &mut [u8] {
        let size = self.0.size;
        match &mut self.0.memory {
            PayloadMemory::Pooled(PooledBuffer { buffer, .. }) => {
                buffer.as_mut().map_or(&mut [], |buffer| {
                    &mut buffer.bytes[buffer.payload..][..size]
                })
            }
            PayloadMemory::EntryPayload(entry) => entry.bytes_mut(size),
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
        buffer.read_target()[BEFORE_PAYLOAD..][..bytes.len()].copy_from_slice(bytes);
        Payload::new(buffer, bytes.len(), pool.clone())
    }

    #[test]
    fn payloads_begin_on_a_page_and_return_to_the_pool_when_dropped() {
        let pool = Arc::new(Pool::new(1 << 20));
        let first = payload(&pool, b"bytes");
        assert_eq!(&*first, b"bytes");
        assert_eq!(first.as_ptr().align_offset(ALIGN), 0);
        let address = first.as_ptr();
        assert_eq!(pool.free().len(), 0);
        drop(first);
        assert_eq!(pool.free().len(), 1);
        assert_eq!(payload(&pool, b"x").as_ptr(), address);
    }

    #[test]
    fn a_small_payload_is_kept_in_little_memory_and_a_large_one_without_a_copy() {
        let pool = Arc::new(Pool::new(1 << 20));
        let small = payload(&pool, &[1; 4096]);
        let kept = small.into_bytes();
        assert_eq!(pool.free().len(), 1);
        assert_eq!(kept, vec![1; 4096]);
        let large = payload(&pool, &vec![2; 1 << 20]);
        let address = large.as_ptr();
        let kept = large.into_bytes();
        assert_eq!(kept.as_ptr(), address);
        assert_eq!(pool.free().len(), 0);
        drop(kept);
        assert_eq!(pool.free().len(), 1);
    }

    #[test]
    fn scratch_is_truncated_to_the_filled_length() {
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
    fn the_pool_keeps_at_most_its_limit() {
        let pool = Pool::new(0);
        let many: Vec<Buffer> = (0..FREE_BUFFERS_MAX + 3).map(|_| pool.take()).collect();
        many.into_iter().for_each(|buffer| pool.put_back(buffer));
        assert_eq!(pool.free().len(), FREE_BUFFERS_MAX);
    }
}
