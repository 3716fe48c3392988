//! Mappings of files.

use std::os::fd::AsRawFd;

use super::done;
use crate::errno::Errno;
use crate::outcome::{Answer, SyscallError};

pub use libc::{MAP_PRIVATE, MAP_SHARED, MS_ASYNC, MS_INVALIDATE, MS_SYNC, PROT_READ, PROT_WRITE};

/// Mapped bytes of a file, unmapped when dropped. Reads and writes go byte by byte through volatile accesses: another
/// process or a system call may change the bytes at any time.
#[derive(Debug)]
pub struct Mapping {
    at: *mut u8,
    length: usize,
}

// SAFETY: the mapping is plain memory; all access is by single volatile bytes.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

pub fn mmap(
    fd: impl AsRawFd,
    offset: i64,
    length: usize,
    protection: i32,
    flags: i32,
) -> Answer<Mapping> {
    // SAFETY: the kernel chooses the place, so nothing of ours is overlaid.
    let at = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            length,
            protection,
            flags,
            fd.as_raw_fd(),
            offset,
        )
    };
    if at == libc::MAP_FAILED {
        return Err(SyscallError {
            call: "mmap",
            errno: Errno::last(),
        });
    }
    Ok(Mapping {
        at: at.cast(),
        length,
    })
}

impl Mapping {
    /// Load bytes. Touching what lies behind the file's end raises SIGBUS, as it should.
    pub fn load(&self, from: usize, length: usize) -> Vec<u8> {
        assert!(from + length <= self.length, "inside the mapping");
        // SAFETY: inside the mapping, which lives as long as self.
        (from..from + length)
            .map(|at| unsafe { self.at.add(at).read_volatile() })
            .collect()
    }

    /// Store bytes. The mapping must have been made writable, else SIGSEGV.
    pub fn store(&self, to: usize, bytes: impl AsRef<[u8]>) {
        let bytes = bytes.as_ref();
        assert!(to + bytes.len() <= self.length, "inside the mapping");
        for (at, byte) in bytes.iter().enumerate() {
            // SAFETY: inside the mapping, which lives as long as self.
            unsafe { self.at.add(to + at).write_volatile(*byte) };
        }
    }

    pub fn sync(&self, flags: i32) -> Answer {
        // SAFETY: see the module.
        done("msync", unsafe {
            libc::msync(self.at.cast(), self.length, flags)
        })
    }

    /// madvise over the whole mapping.
    pub fn advise(&self, advice: i32) -> Answer {
        // SAFETY: see the module; the suite uses only advice that keeps the mapping's bytes those of the file.
        done("madvise", unsafe {
            libc::madvise(self.at.cast(), self.length, advice)
        })
    }

    pub fn protect(&self, protection: i32) -> Answer {
        // SAFETY: see the module.
        done("mprotect", unsafe {
            libc::mprotect(self.at.cast(), self.length, protection)
        })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: ours, and no pointer into it remains after this.
        unsafe { libc::munmap(self.at.cast(), self.length) };
    }
}

/// Memory aligned for O_DIRECT.
pub struct Aligned {
    bytes: Vec<u8>,
    start: usize,
    length: usize,
}

/// Suits every device and file system in use.
pub const DIRECT_ALIGNMENT: usize = 4096;

impl Aligned {
    pub fn filled(byte: u8, length: usize) -> Aligned {
        let bytes = vec![byte; length + DIRECT_ALIGNMENT];
        let start = bytes.as_ptr().align_offset(DIRECT_ALIGNMENT);
        Aligned {
            bytes,
            start,
            length,
        }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.length]
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.length]
    }
}

/// pread into memory of our choosing (aligned, or a mapping).
pub fn pread_into(fd: impl AsRawFd, bytes: &mut [u8], offset: i64) -> Answer<usize> {
    // SAFETY: see the module.
    super::count("pread", unsafe {
        libc::pread(
            fd.as_raw_fd(),
            bytes.as_mut_ptr().cast(),
            bytes.len(),
            offset,
        )
    })
}

/// write(2) of mapped bytes of a file: the kernel faults the page in while it writes.
pub fn pwrite_mapped(
    fd: impl AsRawFd,
    from: &Mapping,
    length: usize,
    offset: i64,
) -> Answer<usize> {
    assert!(length <= from.length, "inside the mapping");
    // SAFETY: inside the mapping, which outlives the call.
    super::count("pwrite", unsafe {
        libc::pwrite(fd.as_raw_fd(), from.at.cast(), length, offset)
    })
}

/// read(2) into mapped bytes of a file.
pub fn pread_mapped(fd: impl AsRawFd, to: &Mapping, length: usize, offset: i64) -> Answer<usize> {
    assert!(length <= to.length, "inside the mapping");
    // SAFETY: inside the mapping, which outlives the call.
    super::count("pread", unsafe {
        libc::pread(fd.as_raw_fd(), to.at.cast(), length, offset)
    })
}
