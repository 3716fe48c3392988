//! Reads of bytes through calls that pass the pages of a file on: sendfile(2), splice(2), copy_file_range(2).
//!
//! Linux serves them from its page cache up to the size that it knows, also for a file that a FUSE server opened for direct I/O, and
//! asks for no attributes. Programs call fstat(2) for the size first; so does this.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{MemfdFlags, Mode, OFlags, copy_file_range, fstat, memfd_create, open, sendfile};
use rustix::io::{Errno, pread, read};
use rustix::pipe::{PipeFlags, SpliceFlags, pipe_with, splice};

use super::{RoundDirectory, SysResult};
use crate::history::{Answer, Flavour, SpliceCall, tag};
use crate::subject::{Range, Subject, UNPUBLISHED};

impl RoundDirectory {
    /// Makes the file that is copied to.
    pub(super) fn open_copy(&mut self) -> SysResult<()> {
        if self.copy.is_none() {
            let path = self
                .directory
                .join(UNPUBLISHED)
                .join(format!("w{}-copy", self.worker));
            let flags = OFlags::CREATE | OFlags::RDWR | OFlags::TRUNC | OFlags::CLOEXEC;
            self.copy = Some(open(&path, flags, Mode::from_raw_mode(0o600))?);
        }
        Ok(())
    }

    pub(super) fn splice(
        &self,
        subject: Subject,
        range: Range,
        how: SpliceCall,
        flavour: Flavour,
    ) -> SysResult {
        let fd = self.through(subject, flavour, OFlags::RDONLY)?;
        let size = fstat(&fd)?.st_size as u64;
        let (from, to) = (range.from, range.to.min(size));
        let bytes = match how {
            SpliceCall::Sendfile => through_memory(fd.as_fd(), from, to)?,
            SpliceCall::Splice => through_pipe(fd.as_fd(), from, to)?,
            SpliceCall::CopyFileRange => {
                let copy = self.copy.as_ref().ok_or(Errno::BADF)?;
                through_copy(fd.as_fd(), from, to, copy)?
            }
        };
        Ok(Answer::Bytes {
            count: bytes.len() as u64,
            runs: tag::read(&bytes, from),
        })
    }
}

fn through_memory(fd: BorrowedFd, from: u64, to: u64) -> SysResult<Vec<u8>> {
    let memory = memfd_create("verify", MemfdFlags::CLOEXEC)?;
    let mut at = from;
    while at < to {
        let length = (to - at) as usize;
        if sendfile(&memory, fd, Some(&mut at), length)? == 0 {
            break;
        }
    }
    read_back(&memory, at - from)
}

fn through_pipe(fd: BorrowedFd, from: u64, to: u64) -> SysResult<Vec<u8>> {
    let (out, into) = pipe_with(PipeFlags::CLOEXEC)?;
    let mut bytes = Vec::with_capacity(to.saturating_sub(from) as usize);
    let mut at = from;
    while at < to {
        let length = (to - at) as usize;
        // The pipe is empty: it takes some, and never waits.
        let count = splice(fd, Some(&mut at), &into, None, length, SpliceFlags::empty())?;
        if count == 0 {
            break;
        }
        let end = bytes.len() + count;
        while bytes.len() < end {
            let had = bytes.len();
            bytes.resize(end, 0);
            let more = read(&out, &mut bytes[had..])?;
            bytes.truncate(had + more);
        }
    }
    Ok(bytes)
}

fn through_copy(fd: BorrowedFd, from: u64, to: u64, copy: &OwnedFd) -> SysResult<Vec<u8>> {
    let (mut at, mut done) = (from, 0);
    while at < to {
        let length = (to - at) as usize;
        if copy_file_range(fd, Some(&mut at), copy, Some(&mut done), length)? == 0 {
            break;
        }
    }
    read_back(copy, done)
}

/// The first bytes of a file that this worker alone has.
fn read_back(fd: &OwnedFd, count: u64) -> SysResult<Vec<u8>> {
    let mut bytes = vec![0; count as usize];
    let mut had = 0;
    while had < bytes.len() {
        match pread(fd, &mut bytes[had..], had as u64)? {
            // They were written: a file that has lost them is no answer about another.
            0 => return Err(Errno::IO),
            more => had += more,
        }
    }
    Ok(bytes)
}
