//! # sys: system calls that no library offers, or offers only as unsafe
//!
//! Owns   the unsafe code of this crate that is not about memory shared with the kernel (`transport/ring`).
//! Never  contains a call without a reason why it is sound.

use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::thread::{UnshareFlags, unshare_unsafe};

use crate::Errno;

/// `_IOR(229, 0, uint32_t)`.
const FUSE_DEV_IOC_CLONE: libc::c_ulong = 0x8004_e500;

/// Attaches the new device descriptor `fd` to the connection of `original`.
pub(crate) fn join_connection(fd: BorrowedFd<'_>, original: BorrowedFd<'_>) -> Result<(), Errno> {
    let source = original.as_raw_fd() as u32;
    // SAFETY: both descriptors are open while borrowed. The kernel reads the four bytes of `source` and does not keep the
    // address.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), FUSE_DEV_IOC_CLONE as _, &raw const source) };
    if result == 0 {
        Ok(())
    } else {
        Err(std::io::Error::last_os_error().into())
    }
}

/// Gives the calling thread a working directory of its own.
pub(crate) fn unshare_working_directory() -> rustix::io::Result<()> {
    // SAFETY: the thread stops sharing only its working directory, root and umask; open descriptors stay shared.
    unsafe { unshare_unsafe(UnshareFlags::FS) }
}

/// Moves the calling thread to a new mount namespace: processes outside it do not see mounts that this thread, or threads that
/// it starts, make from here on.
pub(crate) fn unshare_mount_namespace() -> rustix::io::Result<()> {
    // SAFETY: the thread stops sharing only the mount namespace and, because that requires it, the working directory; open
    // descriptors stay shared.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS | UnshareFlags::FS) }
}
