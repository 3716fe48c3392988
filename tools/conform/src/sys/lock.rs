//! Locks: fcntl records, open file descriptions, flock.

use std::os::fd::AsRawFd;

use super::done;
use crate::outcome::Answer;

pub use libc::{F_RDLCK, F_UNLCK, F_WRLCK};
pub use libc::{LOCK_EX, LOCK_NB, LOCK_SH, LOCK_UN};

/// A byte range; length 0 reaches to the end of every possible file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    pub start: i64,
    pub length: i64,
    pub whence: i32,
}

/// `length` bytes from `start`, counted from the beginning of the file.
pub fn range(start: i64, length: i64) -> Range {
    Range {
        start,
        length,
        whence: libc::SEEK_SET,
    }
}

pub const WHOLE: Range = Range {
    start: 0,
    length: 0,
    whence: libc::SEEK_SET,
};

/// The holder of a conflicting lock, as F_GETLK tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    pub kind: i32,
    pub start: i64,
    pub length: i64,
    pub pid: i32,
}

fn flock_of(kind: i32, range: Range) -> libc::flock {
    libc::flock {
        l_type: kind as i16,
        l_whence: range.whence as i16,
        l_start: range.start,
        l_len: range.length,
        l_pid: 0,
    }
}

fn lock(call: &'static str, command: i32, fd: impl AsRawFd, kind: i32, range: Range) -> Answer {
    let lock = flock_of(kind, range);
    // SAFETY: see the module.
    done(call, unsafe {
        libc::fcntl(fd.as_raw_fd(), command, &raw const lock)
    })
}

/// F_SETLK: lock or refuse at once. F_UNLCK as kind gives back.
pub fn try_lock(fd: impl AsRawFd, kind: i32, range: Range) -> Answer {
    lock("fcntl F_SETLK", libc::F_SETLK, fd, kind, range)
}

/// F_SETLKW: lock or wait.
pub fn wait_lock(fd: impl AsRawFd, kind: i32, range: Range) -> Answer {
    lock("fcntl F_SETLKW", libc::F_SETLKW, fd, kind, range)
}

/// F_OFD_SETLK: the same, owned by the open file description.
pub fn try_ofd_lock(fd: impl AsRawFd, kind: i32, range: Range) -> Answer {
    lock("fcntl F_OFD_SETLK", libc::F_OFD_SETLK, fd, kind, range)
}

pub fn wait_ofd_lock(fd: impl AsRawFd, kind: i32, range: Range) -> Answer {
    lock("fcntl F_OFD_SETLKW", libc::F_OFD_SETLKW, fd, kind, range)
}

fn ask(
    call: &'static str,
    command: i32,
    fd: impl AsRawFd,
    kind: i32,
    range: Range,
) -> Answer<Option<Holder>> {
    let mut lock = flock_of(kind, range);
    // SAFETY: see the module.
    done(call, unsafe {
        libc::fcntl(fd.as_raw_fd(), command, &raw mut lock)
    })?;
    let holder = Holder {
        kind: i32::from(lock.l_type),
        start: lock.l_start,
        length: lock.l_len,
        pid: lock.l_pid,
    };
    Ok((holder.kind != F_UNLCK).then_some(holder))
}

/// F_GETLK: the holder that excludes this lock.
pub fn lock_in_the_way(fd: impl AsRawFd, kind: i32, range: Range) -> Answer<Option<Holder>> {
    ask("fcntl F_GETLK", libc::F_GETLK, fd, kind, range)
}

pub fn ofd_lock_in_the_way(fd: impl AsRawFd, kind: i32, range: Range) -> Answer<Option<Holder>> {
    ask("fcntl F_OFD_GETLK", libc::F_OFD_GETLK, fd, kind, range)
}

pub fn flock(fd: impl AsRawFd, operation: i32) -> Answer {
    // SAFETY: see the module.
    done("flock", unsafe { libc::flock(fd.as_raw_fd(), operation) })
}
