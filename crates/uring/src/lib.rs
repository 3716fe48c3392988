//! # uring: file reads over io_uring, which wait for a device without blocking a thread
//!
//! Owns   a read that an io_uring executes while no thread blocks in the kernel for it: its buffer, its completion, its waker.
//! Never  checks whether the page cache has the bytes, and never reads by itself: the caller has done the first, and does the
//!        second if no ring takes the read.
//! Enter  at [`read`]. A thread with its own ring serves it with [`ThreadRing`]; a runtime serves all its threads with [`serve`].
//!
//! Without a ring, a read that must wait for a device blocks a thread of a pool: one wake-up to start that thread and one to wake
//! the reader, and each takes as long as a fast disk. A ring needs neither: the thread that starts the read goes on with other
//! work, and finds the read completed when it next polls for events.

mod device_waits;
mod ring_read;
mod shared_ring;
mod thread_ring;

pub use ring_read::{ReadFuture, ReadableFile};
pub use shared_ring::serve;
pub use thread_ring::{BlockingPermit, BlockingThreads, ThreadRing, acquire_blocking_permit};

use bytes::BytesMut;
use ring_read::ReadRequest;

/// Starts to read up to `len` bytes and to append them to `into`: over the calling thread's own ring, or its runtime's ring.
///
/// # Errors
/// Returns the buffer if there is no ring, or while no read may wait for a device.
pub fn read(
    file: &ReadableFile,
    into: BytesMut,
    len: usize,
    offset: u64,
) -> Result<ReadFuture, BytesMut> {
    let request = |into, len| ReadRequest {
        file,
        into,
        len,
        offset,
    };
    match u32::try_from(len) {
        Ok(len) => thread_ring::read(request(into, len))
            .or_else(|into| shared_ring::read(request(into, len))),
        Err(_) => Err(into),
    }
}
