//! Attributes: stat, statx, chmod, chown, times, access.

use std::os::fd::AsRawFd;

use super::{AT_EMPTY_PATH, AT_SYMLINK_NOFOLLOW, CWD, c, done, number};
use crate::outcome::Answer;

pub use libc::{F_OK, R_OK, UTIME_NOW, UTIME_OMIT, W_OK, X_OK};

/// A moment as a file system stores it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time {
    pub sec: i64,
    pub nsec: i64,
}

impl Time {
    pub const fn new(sec: i64, nsec: i64) -> Time {
        Time { sec, nsec }
    }

    /// utimensat's value for "the current time".
    pub const NOW: Time = Time::new(0, UTIME_NOW);
    /// utimensat's value for "leave it".
    pub const OMIT: Time = Time::new(0, UTIME_OMIT);
}

/// The result of stat(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    pub dev: u64,
    pub ino: u64,
    pub mode: u32,
    pub nlink: u64,
    pub uid: u32,
    pub gid: u32,
    pub rdev: u64,
    pub size: i64,
    pub blksize: i64,
    /// In units of 512 bytes, whatever the block size.
    pub blocks: i64,
    pub atime: Time,
    pub mtime: Time,
    pub ctime: Time,
}

impl Stat {
    /// The type bits: S_IFREG and so on.
    pub fn kind(&self) -> u32 {
        self.mode & libc::S_IFMT
    }

    /// Permission bits with setuid, setgid and sticky.
    pub fn permissions(&self) -> u32 {
        self.mode & 0o7777
    }

    /// Which file this is.
    pub fn identity(&self) -> (u64, u64) {
        (self.dev, self.ino)
    }
}

pub fn statat(dir: impl AsRawFd, name: impl AsRef<[u8]>, flags: i32) -> Answer<Stat> {
    let name = c(name);
    let mut raw = std::mem::MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: see the module; zeroed plain data is valid before and after the call.
    done("stat", unsafe {
        libc::syscall(
            libc::SYS_newfstatat,
            dir.as_raw_fd(),
            name.as_ptr(),
            raw.as_mut_ptr(),
            flags,
        )
    })?;
    // SAFETY: zeroed, then filled.
    let raw = unsafe { raw.assume_init() };
    Ok(Stat {
        dev: raw.st_dev,
        ino: raw.st_ino,
        mode: raw.st_mode,
        nlink: raw.st_nlink,
        uid: raw.st_uid,
        gid: raw.st_gid,
        rdev: raw.st_rdev,
        size: raw.st_size,
        blksize: raw.st_blksize,
        blocks: raw.st_blocks,
        atime: Time::new(raw.st_atime, raw.st_atime_nsec),
        mtime: Time::new(raw.st_mtime, raw.st_mtime_nsec),
        ctime: Time::new(raw.st_ctime, raw.st_ctime_nsec),
    })
}

pub fn stat(name: impl AsRef<[u8]>) -> Answer<Stat> {
    statat(CWD, name, 0)
}

pub fn lstat(name: impl AsRef<[u8]>) -> Answer<Stat> {
    statat(CWD, name, AT_SYMLINK_NOFOLLOW)
}

pub fn fstat(fd: impl AsRawFd) -> Answer<Stat> {
    statat(fd, "", AT_EMPTY_PATH)
}

pub fn statx(
    dir: impl AsRawFd,
    name: impl AsRef<[u8]>,
    flags: i32,
    mask: u32,
) -> Answer<libc::statx> {
    let name = c(name);
    let mut facts = std::mem::MaybeUninit::<libc::statx>::zeroed();
    // SAFETY: see the module; the raw call, so that unknown mask bits reach the kernel.
    done("statx", unsafe {
        libc::syscall(
            libc::SYS_statx,
            dir.as_raw_fd(),
            name.as_ptr(),
            flags,
            mask,
            facts.as_mut_ptr(),
        )
    })?;
    // SAFETY: zeroed, then filled.
    Ok(unsafe { facts.assume_init() })
}

pub fn chmod(name: impl AsRef<[u8]>, mode: u32) -> Answer {
    fchmodat(CWD, name, mode)
}

pub fn fchmodat(dir: impl AsRawFd, name: impl AsRef<[u8]>, mode: u32) -> Answer {
    let name = c(name);
    // SAFETY: see the module.
    done("chmod", unsafe {
        libc::syscall(libc::SYS_fchmodat, dir.as_raw_fd(), name.as_ptr(), mode)
    })
}

/// fchmodat2 (Linux 6.6): the one that takes flags.
pub fn fchmodat2(dir: impl AsRawFd, name: impl AsRef<[u8]>, mode: u32, flags: i32) -> Answer {
    let name = c(name);
    const SYS_FCHMODAT2: libc::c_long = 452;
    // SAFETY: see the module.
    done("fchmodat2", unsafe {
        libc::syscall(SYS_FCHMODAT2, dir.as_raw_fd(), name.as_ptr(), mode, flags)
    })
}

pub fn fchmod(fd: impl AsRawFd, mode: u32) -> Answer {
    // SAFETY: see the module.
    done("fchmod", unsafe { libc::fchmod(fd.as_raw_fd(), mode) })
}

/// chown's value for "leave it".
pub const KEEP: u32 = u32::MAX;

pub fn fchownat(
    dir: impl AsRawFd,
    name: impl AsRef<[u8]>,
    uid: u32,
    gid: u32,
    flags: i32,
) -> Answer {
    let name = c(name);
    // SAFETY: see the module.
    done("chown", unsafe {
        libc::fchownat(dir.as_raw_fd(), name.as_ptr(), uid, gid, flags)
    })
}

pub fn chown(name: impl AsRef<[u8]>, uid: u32, gid: u32) -> Answer {
    fchownat(CWD, name, uid, gid, 0)
}

pub fn lchown(name: impl AsRef<[u8]>, uid: u32, gid: u32) -> Answer {
    fchownat(CWD, name, uid, gid, AT_SYMLINK_NOFOLLOW)
}

pub fn fchown(fd: impl AsRawFd, uid: u32, gid: u32) -> Answer {
    // SAFETY: see the module.
    done("fchown", unsafe { libc::fchown(fd.as_raw_fd(), uid, gid) })
}

fn specs(atime: Time, mtime: Time) -> [libc::timespec; 2] {
    [atime, mtime].map(|time| libc::timespec {
        tv_sec: time.sec,
        tv_nsec: time.nsec,
    })
}

pub fn utimensat(
    dir: impl AsRawFd,
    name: impl AsRef<[u8]>,
    atime: Time,
    mtime: Time,
    flags: i32,
) -> Answer {
    let name = c(name);
    let times = specs(atime, mtime);
    // SAFETY: see the module; the raw call, because glibc refuses some arguments by itself.
    done("utimensat", unsafe {
        libc::syscall(
            libc::SYS_utimensat,
            dir.as_raw_fd(),
            name.as_ptr(),
            times.as_ptr(),
            flags,
        )
    })
}

pub fn utimens(name: impl AsRef<[u8]>, atime: Time, mtime: Time) -> Answer {
    utimensat(CWD, name, atime, mtime, 0)
}

pub fn futimens(fd: impl AsRawFd, atime: Time, mtime: Time) -> Answer {
    let times = specs(atime, mtime);
    // SAFETY: see the module; no name means the descriptor itself.
    done("futimens", unsafe {
        libc::syscall(
            libc::SYS_utimensat,
            fd.as_raw_fd(),
            std::ptr::null::<libc::c_char>(),
            times.as_ptr(),
            0,
        )
    })
}

/// utimensat without times: both become now.
pub fn touch(name: impl AsRef<[u8]>) -> Answer {
    let name = c(name);
    // SAFETY: see the module; no times means now.
    done("utimensat", unsafe {
        libc::syscall(
            libc::SYS_utimensat,
            CWD,
            name.as_ptr(),
            std::ptr::null::<libc::timespec>(),
            0,
        )
    })
}

pub fn access(name: impl AsRef<[u8]>, mode: i32) -> Answer {
    let name = c(name);
    // SAFETY: see the module; faccessat without flags is access.
    done("access", unsafe {
        libc::syscall(libc::SYS_faccessat, CWD, name.as_ptr(), mode)
    })
}

pub fn faccessat2(dir: impl AsRawFd, name: impl AsRef<[u8]>, mode: i32, flags: i32) -> Answer {
    let name = c(name);
    // SAFETY: see the module.
    done("faccessat2", unsafe {
        libc::syscall(
            libc::SYS_faccessat2,
            dir.as_raw_fd(),
            name.as_ptr(),
            mode,
            flags,
        )
    })
}

/// The realtime clock, coarse as file systems use it.
pub fn clock() -> Time {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: see the module; CLOCK_REALTIME_COARSE always exists.
    let returned = unsafe { libc::clock_gettime(libc::CLOCK_REALTIME_COARSE, &raw mut now) };
    assert!(
        number("clock_gettime", returned).is_ok(),
        "the coarse realtime clock can be read"
    );
    Time::new(now.tv_sec, now.tv_nsec)
}
