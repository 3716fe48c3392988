//! # sys: system calls that no library has, or has as unsafe
//!
//! Owns   the unsafe code of this crate that is not about memory shared with the kernel (`transport/ring`).
//! Never  grows without saying why the call is sound.

use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::thread::{UnshareFlags, unshare_unsafe};

use crate::Errno;

/// `_IOR(229, 0, uint32_t)`.
const FUSE_DEV_IOC_CLONE: libc::c_ulong = 0x8004_e500;

/// Makes the fresh device descriptor `fd` one more way into the connection of `original`.
pub(crate) fn join_connection(fd: BorrowedFd<'_>, original: BorrowedFd<'_>) -> Result<(), Errno> {
    let source = original.as_raw_fd() as u32;
    // SAFETY: both descriptors are open while borrowed. The kernel reads four bytes at the address, which `source` has,
    // and keeps nothing of it.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), FUSE_DEV_IOC_CLONE as _, &raw const source) };
    if result == 0 {
        Ok(())
    } else {
        Err(std::io::Error::last_os_error().into())
    }
}

/// Mounts of the calling thread, and of threads that it starts, are seen by nobody else from here on.
pub(crate) fn leave_mount_namespace() -> rustix::io::Result<()> {
    // SAFETY: of what a thread shares with others only the mount namespace and, as that needs, the working directory are left;
    // open descriptors stay shared.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS | UnshareFlags::FS) }
}
