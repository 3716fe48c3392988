//! # reads: reads of files that wait for a device without a thread
//!
//! Owns   the read that a ring does (io_uring) while nobody waits for it in the kernel: its buffer, its end, who is woken.
//! Never  looks for what is in memory already, and reads nothing by itself: who asks has done the first, and does the second if
//!        nobody here can.
//! Enter  at [`read`]. A thread that has a ring serves its own with [`Here`]; a runtime serves all its threads with [`serve`].
//!
//! A read that must wait for a device was a thread of a pool, woken to wait, which then woke the one that wanted the bytes: two
//! wake-ups, each as long as a fast disk takes. A ring needs none of them: the thread that asks goes on with other work, and finds
//! the read done when it next looks what there is to do.

mod all;
mod here;
mod one;
mod patience;

pub use all::serve;
pub use here::{Here, Waiters, Waiting, may_wait_here};
pub use one::{File, Reading};

use bytes::BytesMut;
use one::Wish;

/// Begins to read up to `len` bytes behind what `into` holds: over the calling thread's own ring, or its runtime's.
///
/// # Errors
/// Returns the buffer if there is neither.
pub fn read(file: &File, into: BytesMut, len: usize, offset: u64) -> Result<Reading, BytesMut> {
    let wish = |into, len| Wish {
        file,
        into,
        len,
        offset,
    };
    match u32::try_from(len) {
        Ok(len) => here::read(wish(into, len)).or_else(|into| all::read(wish(into, len))),
        Err(_) => Err(into),
    }
}
