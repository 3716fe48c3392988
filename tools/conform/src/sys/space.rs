//! A file's extent: truncate, fallocate, clones of ranges, and the file system's own numbers.

use std::os::fd::AsRawFd;

use super::{c, done};
use crate::outcome::Answer;

pub use libc::{
    FALLOC_FL_COLLAPSE_RANGE, FALLOC_FL_INSERT_RANGE, FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE,
    FALLOC_FL_ZERO_RANGE,
};

pub fn truncate(name: impl AsRef<[u8]>, length: i64) -> Answer {
    let name = c(name);
    // SAFETY: see the module.
    done("truncate", unsafe { libc::truncate(name.as_ptr(), length) })
}

pub fn ftruncate(fd: impl AsRawFd, length: i64) -> Answer {
    // SAFETY: see the module.
    done("ftruncate", unsafe {
        libc::ftruncate(fd.as_raw_fd(), length)
    })
}

pub fn fallocate(fd: impl AsRawFd, mode: i32, offset: i64, length: i64) -> Answer {
    // SAFETY: see the module.
    done("fallocate", unsafe {
        libc::fallocate(fd.as_raw_fd(), mode, offset, length)
    })
}

/// FICLONE: `to` shares all of `from`'s bytes.
pub fn clone_file(to: impl AsRawFd, from: impl AsRawFd) -> Answer {
    // SAFETY: see the module.
    done("ioctl FICLONE", unsafe {
        libc::ioctl(to.as_raw_fd(), libc::FICLONE, from.as_raw_fd())
    })
}

/// The magic number of the file system that holds a file, as statfs tells it.
pub fn filesystem_magic(fd: impl AsRawFd) -> Answer<i64> {
    let mut facts = std::mem::MaybeUninit::<libc::statfs>::zeroed();
    // SAFETY: see the module; zeroed plain data is valid before and after the call.
    done("fstatfs", unsafe {
        libc::fstatfs(fd.as_raw_fd(), facts.as_mut_ptr())
    })?;
    // SAFETY: zeroed, then filled.
    Ok(unsafe { facts.assume_init() }.f_type)
}

pub fn statfs(name: impl AsRef<[u8]>) -> Answer<libc::statfs> {
    let name = c(name);
    let mut facts = std::mem::MaybeUninit::<libc::statfs>::zeroed();
    // SAFETY: see the module; zeroed plain data is valid before and after the call.
    done("statfs", unsafe {
        libc::statfs(name.as_ptr(), facts.as_mut_ptr())
    })?;
    // SAFETY: zeroed, then filled.
    Ok(unsafe { facts.assume_init() })
}

pub fn fstatfs(fd: impl AsRawFd) -> Answer<libc::statfs> {
    let mut facts = std::mem::MaybeUninit::<libc::statfs>::zeroed();
    // SAFETY: see the module; zeroed plain data is valid before and after the call.
    done("fstatfs", unsafe {
        libc::fstatfs(fd.as_raw_fd(), facts.as_mut_ptr())
    })?;
    // SAFETY: zeroed, then filled.
    Ok(unsafe { facts.assume_init() })
}

/// statvfs: the same facts in POSIX's words, with the mount's flags.
pub fn statvfs(name: impl AsRef<[u8]>) -> Answer<libc::statvfs> {
    let name = c(name);
    let mut facts = std::mem::MaybeUninit::<libc::statvfs>::zeroed();
    // SAFETY: see the module; zeroed plain data is valid before and after the call.
    done("statvfs", unsafe {
        libc::statvfs(name.as_ptr(), facts.as_mut_ptr())
    })?;
    // SAFETY: zeroed, then filled.
    Ok(unsafe { facts.assume_init() })
}
