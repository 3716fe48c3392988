//! The system calls that rustix has no safe call for: every `unsafe` of this crate.

use std::os::fd::{AsFd, AsRawFd};

use rustix::io::Errno;
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags, mmap, msync, munmap};

use super::SysResult;

/// Tries for an fcntl record lock of these bytes (None: frees them), without waiting.
pub fn record_lock(
    fd: impl AsFd,
    from: i64,
    length: i64,
    exclusive: Option<bool>,
) -> SysResult<()> {
    let kind = match exclusive {
        None => libc::F_UNLCK,
        Some(false) => libc::F_RDLCK,
        Some(true) => libc::F_WRLCK,
    };
    // SAFETY: the structure is plain numbers, all zero is a value of it.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as i16;
    lock.l_whence = libc::SEEK_SET as i16;
    lock.l_start = from;
    lock.l_len = length;
    // SAFETY: the descriptor is open for the call, the structure lives as long.
    let done = unsafe { libc::fcntl(fd.as_fd().as_raw_fd(), libc::F_SETLK, &raw const lock) };
    match done {
        -1 => Err(last_errno()),
        _ => Ok(()),
    }
}

/// The generation that distinguishes a file from a former one of the same number, or 0 where the file system does not say.
pub fn generation(fd: impl AsFd) -> u32 {
    let mut version: libc::c_long = 0;
    // SAFETY: FS_IOC_GETVERSION writes at most a long to where it is told, which lives as long as the call.
    let done = unsafe {
        libc::ioctl(
            fd.as_fd().as_raw_fd(),
            libc::FS_IOC_GETVERSION,
            &raw mut version,
        )
    };
    match done {
        0 => version as u32,
        _ => 0,
    }
}

/// Reads bytes of a file through a mapping that begins at its start. They must lie inside the file, as long as this takes.
pub fn map_read(fd: impl AsFd, from: u64, to: u64) -> SysResult<Vec<u8>> {
    let length = to as usize;
    // SAFETY: the kernel chooses the place, so nothing of ours is overlaid.
    let start = unsafe {
        mmap(
            std::ptr::null_mut(),
            length,
            ProtFlags::READ,
            MapFlags::SHARED,
            fd,
            0,
        )
    }?;
    let bytes = (from as usize..length)
        // SAFETY: inside the mapping, of which no reference exists; other processes may change it at any time.
        .map(|at| unsafe { start.cast::<u8>().add(at).read_volatile() })
        .collect();
    // SAFETY: it was mapped above, and nothing points into it any more.
    unsafe { munmap(start, length) }?;
    Ok(bytes)
}

/// Writes bytes of a file through a mapping that begins at its start, and brings them to the file.
pub fn map_write(fd: impl AsFd, from: u64, bytes: &[u8]) -> SysResult<()> {
    let length = from as usize + bytes.len();
    // SAFETY: the kernel chooses the place, so nothing of ours is overlaid.
    let start = unsafe {
        mmap(
            std::ptr::null_mut(),
            length,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::SHARED,
            fd,
            0,
        )
    }?;
    for (word, eight) in bytes.as_chunks::<8>().0.iter().enumerate() {
        // SAFETY: inside the mapping, of which no reference exists. Aligned: the mapping begins at a page, `from` is a multiple
        // of eight. A word is stored at once, so that no reader sees half of one.
        unsafe {
            start
                .cast::<u8>()
                .add(from as usize)
                .cast::<u64>()
                .add(word)
                .write_volatile(u64::from_ne_bytes(*eight));
        }
    }
    // SAFETY: exactly what was mapped above.
    let synced = unsafe { msync(start, length, MsyncFlags::SYNC) };
    // SAFETY: as above, and nothing points into it any more.
    unsafe { munmap(start, length) }?;
    synced
}

fn last_errno() -> Errno {
    let errno = std::io::Error::last_os_error().raw_os_error();
    Errno::from_raw_os_error(errno.unwrap_or(libc::EIO))
}
