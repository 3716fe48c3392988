//! Moving bytes: read and write in all forms, seek, copies inside the kernel, syncs.

use std::os::fd::AsRawFd;

use super::{count, done, number};
use crate::outcome::Answer;

pub use libc::{RWF_APPEND, RWF_DSYNC, RWF_SYNC};
pub use libc::{SEEK_CUR, SEEK_DATA, SEEK_END, SEEK_HOLE, SEEK_SET};

/// The largest offset that POSIX can express on Linux.
pub const OFFSET_MAX: i64 = i64::MAX;

/// At most `length` bytes from the current offset.
pub fn read(fd: impl AsRawFd, length: usize) -> Answer<Vec<u8>> {
    let mut bytes = vec![0u8; length];
    // SAFETY: see the module.
    let got = count("read", unsafe {
        libc::read(fd.as_raw_fd(), bytes.as_mut_ptr().cast(), length)
    })?;
    bytes.truncate(got);
    Ok(bytes)
}

pub fn pread(fd: impl AsRawFd, length: usize, offset: i64) -> Answer<Vec<u8>> {
    let mut bytes = vec![0u8; length];
    // SAFETY: see the module.
    let got = count("pread", unsafe {
        libc::pread(fd.as_raw_fd(), bytes.as_mut_ptr().cast(), length, offset)
    })?;
    bytes.truncate(got);
    Ok(bytes)
}

pub fn write(fd: impl AsRawFd, bytes: impl AsRef<[u8]>) -> Answer<usize> {
    let bytes = bytes.as_ref();
    // SAFETY: see the module.
    count("write", unsafe {
        libc::write(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len())
    })
}

pub fn pwrite(fd: impl AsRawFd, bytes: impl AsRef<[u8]>, offset: i64) -> Answer<usize> {
    let bytes = bytes.as_ref();
    // SAFETY: see the module.
    count("pwrite", unsafe {
        libc::pwrite(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), offset)
    })
}

/// A read into memory that does not exist.
pub fn read_nowhere(fd: impl AsRawFd, length: usize) -> Answer<usize> {
    // SAFETY: page 0 is never mapped, so the kernel writes nothing and answers EFAULT.
    count("read", unsafe {
        libc::read(fd.as_raw_fd(), std::ptr::null_mut(), length)
    })
}

/// A write from memory that does not exist.
pub fn write_nowhere(fd: impl AsRawFd, length: usize) -> Answer<usize> {
    // SAFETY: page 0 is never mapped, so the kernel reads nothing and answers EFAULT.
    count("write", unsafe {
        libc::write(fd.as_raw_fd(), std::ptr::null(), length)
    })
}

/// A gathering write that begins with `bytes` and goes on in memory that does not exist.
pub fn write_half_nowhere(fd: impl AsRawFd, bytes: &[u8], length: usize) -> Answer<usize> {
    let pieces = [
        libc::iovec {
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        },
        libc::iovec {
            iov_base: std::ptr::null_mut(),
            iov_len: length,
        },
    ];
    // SAFETY: the first piece is ours, the second is page 0, which is never mapped; the kernel only reads.
    count("writev", unsafe {
        libc::writev(fd.as_raw_fd(), pieces.as_ptr(), 2)
    })
}

fn gather(pieces: &[&[u8]]) -> Vec<libc::iovec> {
    pieces
        .iter()
        .map(|piece| libc::iovec {
            iov_base: piece.as_ptr().cast_mut().cast(),
            iov_len: piece.len(),
        })
        .collect()
}

fn scatter(pieces: &mut [Vec<u8>]) -> Vec<libc::iovec> {
    pieces
        .iter_mut()
        .map(|piece| libc::iovec {
            iov_base: piece.as_mut_ptr().cast(),
            iov_len: piece.len(),
        })
        .collect()
}

pub fn writev(fd: impl AsRawFd, pieces: &[&[u8]]) -> Answer<usize> {
    let iov = gather(pieces);
    // SAFETY: see the module; the kernel only reads through the pieces.
    count("writev", unsafe {
        libc::writev(fd.as_raw_fd(), iov.as_ptr(), iov.len() as i32)
    })
}

pub fn pwritev2(fd: impl AsRawFd, pieces: &[&[u8]], offset: i64, flags: i32) -> Answer<usize> {
    let iov = gather(pieces);
    // SAFETY: see the module; the kernel only reads through the pieces.
    count("pwritev2", unsafe {
        libc::pwritev2(
            fd.as_raw_fd(),
            iov.as_ptr(),
            iov.len() as i32,
            offset,
            flags,
        )
    })
}

/// Fill pieces of these lengths; returns the count and the pieces.
pub fn readv(fd: impl AsRawFd, lengths: &[usize]) -> Answer<(usize, Vec<Vec<u8>>)> {
    let mut pieces: Vec<Vec<u8>> = lengths.iter().map(|length| vec![0u8; *length]).collect();
    let iov = scatter(&mut pieces);
    // SAFETY: see the module.
    let got = count("readv", unsafe {
        libc::readv(fd.as_raw_fd(), iov.as_ptr(), iov.len() as i32)
    })?;
    Ok((got, pieces))
}

pub fn preadv2(
    fd: impl AsRawFd,
    lengths: &[usize],
    offset: i64,
    flags: i32,
) -> Answer<(usize, Vec<Vec<u8>>)> {
    let mut pieces: Vec<Vec<u8>> = lengths.iter().map(|length| vec![0u8; *length]).collect();
    let iov = scatter(&mut pieces);
    // SAFETY: see the module.
    let got = count("preadv2", unsafe {
        libc::preadv2(
            fd.as_raw_fd(),
            iov.as_ptr(),
            iov.len() as i32,
            offset,
            flags,
        )
    })?;
    Ok((got, pieces))
}

pub fn lseek(fd: impl AsRawFd, offset: i64, whence: i32) -> Answer<i64> {
    // SAFETY: see the module.
    number("lseek", unsafe {
        libc::lseek(fd.as_raw_fd(), offset, whence)
    })
}

/// copy_file_range; `None` uses and moves the descriptor's own offset. Offsets given are moved.
pub fn copy_file_range(
    from: impl AsRawFd,
    from_offset: Option<&mut i64>,
    to: impl AsRawFd,
    to_offset: Option<&mut i64>,
    length: usize,
    flags: u32,
) -> Answer<usize> {
    let pointer =
        |offset: Option<&mut i64>| offset.map_or(std::ptr::null_mut(), |offset| &raw mut *offset);
    // SAFETY: see the module.
    count("copy_file_range", unsafe {
        libc::copy_file_range(
            from.as_raw_fd(),
            pointer(from_offset),
            to.as_raw_fd(),
            pointer(to_offset),
            length,
            flags,
        )
    })
}

pub fn sendfile(
    to: impl AsRawFd,
    from: impl AsRawFd,
    offset: Option<&mut i64>,
    length: usize,
) -> Answer<usize> {
    let offset = offset.map_or(std::ptr::null_mut(), |offset| &raw mut *offset);
    // SAFETY: see the module.
    count("sendfile", unsafe {
        libc::sendfile(to.as_raw_fd(), from.as_raw_fd(), offset, length)
    })
}

/// splice between a pipe and a file; the offset belongs to whichever side is the file.
pub fn splice(
    from: impl AsRawFd,
    from_offset: Option<&mut i64>,
    to: impl AsRawFd,
    to_offset: Option<&mut i64>,
    length: usize,
) -> Answer<usize> {
    let pointer =
        |offset: Option<&mut i64>| offset.map_or(std::ptr::null_mut(), |offset| &raw mut *offset);
    // SAFETY: see the module.
    count("splice", unsafe {
        libc::splice(
            from.as_raw_fd(),
            pointer(from_offset),
            to.as_raw_fd(),
            pointer(to_offset),
            length,
            0,
        )
    })
}

pub fn fsync(fd: impl AsRawFd) -> Answer {
    // SAFETY: see the module.
    done("fsync", unsafe { libc::fsync(fd.as_raw_fd()) })
}

pub fn fdatasync(fd: impl AsRawFd) -> Answer {
    // SAFETY: see the module.
    done("fdatasync", unsafe { libc::fdatasync(fd.as_raw_fd()) })
}

pub fn syncfs(fd: impl AsRawFd) -> Answer {
    // SAFETY: see the module.
    done("syncfs", unsafe { libc::syncfs(fd.as_raw_fd()) })
}

pub fn sync_file_range(fd: impl AsRawFd, offset: i64, length: i64, flags: u32) -> Answer {
    // SAFETY: see the module.
    done("sync_file_range", unsafe {
        libc::sync_file_range(fd.as_raw_fd(), offset, length, flags)
    })
}

pub fn fadvise(fd: impl AsRawFd, offset: i64, length: i64, advice: i32) -> Result<(), i32> {
    // SAFETY: see the module. posix_fadvise returns the error instead of setting errno.
    match unsafe { libc::posix_fadvise(fd.as_raw_fd(), offset, length, advice) } {
        0 => Ok(()),
        errno => Err(errno),
    }
}

pub fn readahead(fd: impl AsRawFd, offset: i64, length: usize) -> Answer {
    // SAFETY: see the module.
    count("readahead", unsafe {
        libc::readahead(fd.as_raw_fd(), offset, length)
    })
    .map(|_| ())
}
