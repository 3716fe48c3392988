//! The io_uring of a ring: its size and flags, and what the io_uring library has no method for.

use std::io;

use io_uring::{IoUring, cqueue, squeue};

pub(super) type Uring = IoUring<squeue::Entry128, cqueue::Entry>;

pub(super) fn build(entries: u32) -> io::Result<Uring> {
    // One thread submits, and the kernel does completion work when that thread asks for it: no interrupts, no locks.
    IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_submit_all()
        .setup_cqsize(4 * entries)
        .build(entries)
}

/// The error that prevents this process from creating rings, if any.
pub(crate) fn creation_error() -> Option<io::Error> {
    build(8).err()
}

/// Sets the number of vectors of a command; the io_uring library has no method for it.
pub(super) fn with_length(entry: squeue::Entry128, length: u32) -> squeue::Entry128 {
    /// `len` of `struct io_uring_sqe`.
    const LENGTH: usize = 24;
    const SIZE: usize = 128;
    const _: () = assert!(size_of::<squeue::Entry128>() == SIZE);
    // SAFETY: both are 128 bytes, and every bit pattern is valid: the entry has the layout of the kernel's header file,
    // integers only.
    let mut bytes = unsafe { std::mem::transmute::<squeue::Entry128, [u8; SIZE]>(entry) };
    bytes[LENGTH..LENGTH + 4].copy_from_slice(&length.to_ne_bytes());
    // SAFETY: the same.
    unsafe { std::mem::transmute::<[u8; SIZE], squeue::Entry128>(bytes) }
}

/// Whether this result means that the mount has ended.
pub(super) fn is_disconnected(result: i32) -> bool {
    matches!(
        -result,
        libc::ENOTCONN | libc::ECONNABORTED | libc::ENODEV | libc::ECANCELED
    )
}
