//! The system calls that rustix has no safe call for: every `unsafe` of this crate.

use std::os::fd::{AsFd, AsRawFd};

use rustix::io::Errno;
use rustix::mm::{MapFlags, MsyncFlags, mmap, msync, munmap};

pub use rustix::mm::ProtFlags;

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

/// A shared mapping of a file from its start. The file must be as long as the mapping, as long as that is used.
pub struct Mapping {
    start: *mut std::ffi::c_void,
    length: usize,
}

impl Mapping {
    pub fn new(fd: impl AsFd, length: u64, access: ProtFlags) -> SysResult<Mapping> {
        let length = length as usize;
        let nowhere = std::ptr::null_mut();
        // SAFETY: the kernel chooses the place, so nothing of ours is overlaid.
        let start = unsafe { mmap(nowhere, length, access, MapFlags::SHARED, fd, 0) }?;
        Ok(Mapping { start, length })
    }

    /// The bytes of a range inside the mapping, which is readable.
    pub fn load(&self, from: u64, to: u64) -> Vec<u8> {
        assert!(to as usize <= self.length, "inside the mapping");
        (from as usize..to as usize)
            // SAFETY: inside the mapping, of which no reference exists; other processes may change it at any time.
            .map(|at| unsafe { self.start.cast::<u8>().add(at).read_volatile() })
            .collect()
    }

    /// Stores bytes in the mapping, which is writable, at an offset that is a multiple of eight, and brings them to the file.
    pub fn store(&self, from: u64, bytes: &[u8]) -> SysResult<()> {
        let from = from as usize;
        assert!(from + bytes.len() <= self.length, "inside the mapping");
        for (word, eight) in bytes.as_chunks::<8>().0.iter().enumerate() {
            // SAFETY: inside the mapping, of which no reference exists. Aligned: the mapping begins at a page, `from` is a
            // multiple of eight. A word is stored at once, so that no reader sees half of one.
            unsafe {
                self.start
                    .cast::<u8>()
                    .add(from)
                    .cast::<u64>()
                    .add(word)
                    .write_volatile(u64::from_ne_bytes(*eight));
            }
        }
        // SAFETY: exactly what was mapped.
        unsafe { msync(self.start, self.length, MsyncFlags::SYNC) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly what was mapped, and nothing points into it any more.
        let unmapped = unsafe { munmap(self.start, self.length) };
        debug_assert!(unmapped.is_ok(), "it was mapped: {unmapped:?}");
    }
}

fn last_errno() -> Errno {
    let errno = std::io::Error::last_os_error().raw_os_error();
    Errno::from_raw_os_error(errno.unwrap_or(libc::EIO))
}
