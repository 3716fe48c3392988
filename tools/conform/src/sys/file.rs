//! Opening and descriptors: open, openat, openat2, dup, fcntl flags, pipes.

use std::os::fd::AsRawFd;

use super::{Fd, c, count, descriptor, done, number};
use crate::outcome::Answer;

pub use libc::{
    O_ACCMODE, O_APPEND, O_CLOEXEC, O_CREAT, O_DIRECT, O_DIRECTORY, O_DSYNC, O_EXCL, O_NOATIME,
    O_NOFOLLOW, O_NONBLOCK, O_PATH, O_RDONLY, O_RDWR, O_SYNC, O_TMPFILE, O_TRUNC, O_WRONLY,
};
pub use libc::{
    RESOLVE_BENEATH, RESOLVE_IN_ROOT, RESOLVE_NO_MAGICLINKS, RESOLVE_NO_SYMLINKS, RESOLVE_NO_XDEV,
};

/// Children that other threads fork must not keep our files open when they execute a program: every descriptor
/// closes on exec.
pub fn openat(dir: impl AsRawFd, name: impl AsRef<[u8]>, flags: i32, mode: u32) -> Answer<Fd> {
    openat_inherited(dir, name, flags | O_CLOEXEC, mode)
}

/// With exactly these flags.
pub fn openat_inherited(
    dir: impl AsRawFd,
    name: impl AsRef<[u8]>,
    flags: i32,
    mode: u32,
) -> Answer<Fd> {
    let name = c(name);
    // SAFETY: see the module.
    descriptor("open", unsafe {
        libc::openat(dir.as_raw_fd(), name.as_ptr(), flags, mode)
    })
}

pub fn open(name: impl AsRef<[u8]>, flags: i32, mode: u32) -> Answer<Fd> {
    openat(super::CWD, name, flags, mode)
}

/// An existing file, with these flags.
pub fn reopen(name: impl AsRef<[u8]>, flags: i32) -> Answer<Fd> {
    open(name, flags, 0)
}

/// openat2 with an explicit structure size, so that the kernel's size rules can be tried.
pub fn openat2_sized(
    dir: impl AsRawFd,
    name: impl AsRef<[u8]>,
    flags: u64,
    mode: u64,
    resolve: u64,
    size: usize,
) -> Answer<Fd> {
    let name = c(name);
    // Four words more than the structure has today: the kernel may read as far as `size` says.
    let mut how = [0u64; 7];
    how[0] = flags;
    how[1] = mode;
    how[2] = resolve;
    assert!(
        size <= size_of_val(&how),
        "the kernel may only read what we own"
    );
    // SAFETY: see the module; `how` is as long as `size` at least.
    descriptor("openat2", unsafe {
        libc::syscall(
            libc::SYS_openat2,
            dir.as_raw_fd(),
            name.as_ptr(),
            how.as_ptr(),
            size,
        )
    })
}

pub fn openat2(
    dir: impl AsRawFd,
    name: impl AsRef<[u8]>,
    flags: i32,
    mode: u32,
    resolve: u64,
) -> Answer<Fd> {
    openat2_sized(
        dir,
        name,
        flags as u64,
        mode.into(),
        resolve,
        size_of::<libc::open_how>(),
    )
}

pub fn dup(fd: impl AsRawFd) -> Answer<Fd> {
    // SAFETY: see the module.
    descriptor("dup", unsafe {
        libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 0)
    })
}

/// close(2) of a bare number, to see it refused.
pub fn close_number(fd: i32) -> Answer {
    // SAFETY: no object owns the number; the suite passes only such numbers.
    done("close", unsafe { libc::close(fd) })
}

/// F_GETFL: access mode and status flags.
pub fn status_flags(fd: impl AsRawFd) -> Answer<i32> {
    // SAFETY: see the module.
    number("fcntl F_GETFL", unsafe {
        libc::fcntl(fd.as_raw_fd(), libc::F_GETFL)
    })
    .map(|flags| flags as i32)
}

pub fn set_status_flags(fd: impl AsRawFd, flags: i32) -> Answer {
    // SAFETY: see the module.
    done("fcntl F_SETFL", unsafe {
        libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags)
    })
}

/// F_GETFD: whether exec closes the descriptor.
pub fn closes_on_exec(fd: impl AsRawFd) -> Answer<bool> {
    // SAFETY: see the module.
    number("fcntl F_GETFD", unsafe {
        libc::fcntl(fd.as_raw_fd(), libc::F_GETFD)
    })
    .map(|flags| flags & i64::from(libc::FD_CLOEXEC) != 0)
}

/// A pipe: the end to read and the end to write.
pub fn pipe() -> Answer<(Fd, Fd)> {
    let mut ends = [0i32; 2];
    // SAFETY: see the module.
    done("pipe", unsafe {
        libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC)
    })?;
    Ok((Fd(ends[0]), Fd(ends[1])))
}

/// The kernel's own name for a descriptor, for linkat with AT_SYMLINK_FOLLOW.
pub fn proc_name(fd: impl AsRawFd) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

/// Bytes that wait in a pipe, fifo or file (FIONREAD).
pub fn bytes_waiting(fd: impl AsRawFd) -> Answer<i32> {
    let mut waiting = 0i32;
    // SAFETY: see the module; FIONREAD fills one int.
    done("ioctl FIONREAD", unsafe {
        libc::ioctl(fd.as_raw_fd(), libc::FIONREAD, &raw mut waiting)
    })?;
    Ok(waiting)
}

/// An ioctl that no file system knows.
pub fn unknown_ioctl(fd: impl AsRawFd) -> Answer {
    const NOBODYS: libc::c_ulong = 0x0000_f7f7;
    // SAFETY: see the module; no argument is passed, so nothing can be written through it.
    done("ioctl", unsafe { libc::ioctl(fd.as_raw_fd(), NOBODYS, 0) })
}

/// inotify_init1, non-blocking: reading with nothing to say is EAGAIN.
pub fn inotify() -> Answer<Fd> {
    // SAFETY: see the module.
    descriptor("inotify_init", unsafe {
        libc::inotify_init1(libc::IN_CLOEXEC | libc::IN_NONBLOCK)
    })
}

pub fn inotify_watch(queue: impl AsRawFd, name: impl AsRef<[u8]>, events: u32) -> Answer<i32> {
    let name = c(name);
    // SAFETY: see the module.
    number("inotify_add_watch", unsafe {
        libc::inotify_add_watch(queue.as_raw_fd(), name.as_ptr(), events)
    })
    .map(|watch| watch as i32)
}

/// The events that wait: (mask, cookie, name).
pub fn inotify_events(queue: impl AsRawFd) -> Answer<Vec<(u32, u32, Vec<u8>)>> {
    let mut buffer = vec![0u8; 64 * 1024];
    // SAFETY: see the module.
    let filled = count("read inotify", unsafe {
        libc::read(queue.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len())
    })?;
    let word = |at: usize| u32::from_ne_bytes(buffer[at..at + 4].try_into().expect("four bytes"));
    let mut events = Vec::new();
    let mut at = 0;
    // struct inotify_event: wd, mask, cookie, len, name[len] padded with NULs.
    while at + 16 <= filled {
        let length = word(at + 12) as usize;
        let name = buffer[at + 16..at + 16 + length]
            .split(|byte| *byte == 0)
            .next()
            .unwrap_or_default()
            .to_vec();
        events.push((word(at + 4), word(at + 8), name));
        at += 16 + length;
    }
    Ok(events)
}

/// FS_IMMUTABLE_FL, FS_APPEND_FL, as FS_IOC_GETFLAGS and FS_IOC_SETFLAGS have them.
pub const IMMUTABLE_FL: i32 = 0x10;
pub const APPEND_FL: i32 = 0x20;

/// FS_IOC_GETFLAGS.
pub fn inode_flags(fd: impl AsRawFd) -> Answer<i32> {
    let mut flags = 0i32;
    // SAFETY: see the module; the call fills one int, whatever its number says of a long.
    done("ioctl FS_IOC_GETFLAGS", unsafe {
        libc::ioctl(fd.as_raw_fd(), libc::FS_IOC_GETFLAGS, &raw mut flags)
    })?;
    Ok(flags)
}

/// FS_IOC_SETFLAGS.
pub fn set_inode_flags(fd: impl AsRawFd, flags: i32) -> Answer {
    // SAFETY: see the module; the call reads one int.
    done("ioctl FS_IOC_SETFLAGS", unsafe {
        libc::ioctl(fd.as_raw_fd(), libc::FS_IOC_SETFLAGS, &raw const flags)
    })
}
