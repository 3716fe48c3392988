//! Directories as streams: getdents64 itself, and the working directory.

use std::os::fd::AsRawFd;

use super::{c, count, done};
use crate::outcome::Answer;

pub use libc::{DT_BLK, DT_CHR, DT_DIR, DT_FIFO, DT_LNK, DT_REG, DT_SOCK, DT_UNKNOWN};

/// One entry as the kernel gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub ino: u64,
    /// Where the stream goes on after this entry: telldir's cookie, seekdir's argument.
    pub next: i64,
    pub kind: u8,
    pub name: Vec<u8>,
}

/// One getdents64 with a buffer of `room` bytes; empty at the end of the directory.
pub fn getdents(fd: impl AsRawFd, room: usize) -> Answer<Vec<Entry>> {
    let mut buffer = vec![0u8; room];
    // SAFETY: see the module.
    let filled = count("getdents64", unsafe {
        libc::syscall(
            libc::SYS_getdents64,
            fd.as_raw_fd(),
            buffer.as_mut_ptr(),
            room,
        )
    })?;
    Ok(parse(&buffer[..filled]))
}

/// struct linux_dirent64: d_ino u64, d_off i64, d_reclen u16, d_type u8, d_name up to NUL.
fn parse(mut bytes: &[u8]) -> Vec<Entry> {
    let mut entries = Vec::new();
    while bytes.len() >= 19 {
        let word =
            |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let length = usize::from(u16::from_ne_bytes([bytes[16], bytes[17]]));
        let name = bytes[19..length]
            .split(|byte| *byte == 0)
            .next()
            .unwrap_or_default()
            .to_vec();
        entries.push(Entry {
            ino: word(0),
            next: word(8) as i64,
            kind: bytes[18],
            name,
        });
        bytes = &bytes[length..];
    }
    entries
}

pub fn chdir(name: impl AsRef<[u8]>) -> Answer {
    let name = c(name);
    // SAFETY: see the module.
    done("chdir", unsafe { libc::chdir(name.as_ptr()) })
}

pub fn fchdir(fd: impl AsRawFd) -> Answer {
    // SAFETY: see the module.
    done("fchdir", unsafe { libc::fchdir(fd.as_raw_fd()) })
}

/// The raw getcwd: without glibc's search for a directory that the kernel calls unreachable.
pub fn getcwd() -> Answer<Vec<u8>> {
    let mut buffer = vec![0u8; 64 * 1024];
    // SAFETY: see the module. The kernel counts the terminating NUL.
    let filled = count("getcwd", unsafe {
        libc::syscall(libc::SYS_getcwd, buffer.as_mut_ptr(), buffer.len())
    })?;
    buffer.truncate(filled - 1);
    Ok(buffer)
}
