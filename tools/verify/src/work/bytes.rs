//! Operations on bytes and sizes.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{FallocateFlags, OFlags, fallocate, fstat, fsync, ftruncate, stat};
use rustix::io::{Errno, pread, pwrite, write};

use super::sys::{Mapping, ProtFlags};
use super::{RoundDirectory, SysResult, open_there};
use crate::history::{Allocate, Answer, Flavour, tag};
use crate::subject::{LOG_RECORD, Range, Subject};

/// More than a log ever holds.
const LOG_MAX: usize = 1 << 20;

/// A session's descriptor, or one for a single operation.
pub(super) enum OpenDescriptor<'a> {
    Session(BorrowedFd<'a>),
    Fresh(OwnedFd),
}

impl AsFd for OpenDescriptor<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            OpenDescriptor::Session(fd) => fd.as_fd(),
            OpenDescriptor::Fresh(fd) => fd.as_fd(),
        }
    }
}

impl RoundDirectory {
    pub fn has_session(&self, subject: Subject) -> bool {
        subject.is_held() || self.sessions.contains_key(&subject)
    }

    pub fn sessions(&self) -> Vec<Subject> {
        self.sessions.keys().copied().collect()
    }

    pub(super) fn open_session(&mut self, subject: Subject) -> SysResult {
        let fd = open_there(&self.path(subject), OFlags::RDWR)?;
        self.sessions.insert(subject, fd);
        Ok(Answer::Done)
    }

    pub(super) fn close_session(&mut self, subject: Subject) -> SysResult {
        drop(self.sessions.remove(&subject));
        Ok(Answer::Done)
    }

    fn session(&self, subject: Subject) -> SysResult<&OwnedFd> {
        match subject.is_held() {
            true => self.held()?.file(subject).ok_or(Errno::BADF),
            false => self.sessions.get(&subject).ok_or(Errno::BADF),
        }
    }

    pub(super) fn through(
        &self,
        subject: Subject,
        flavour: Flavour,
        flags: OFlags,
    ) -> SysResult<OpenDescriptor<'_>> {
        Ok(match flavour {
            Flavour::Session => OpenDescriptor::Session(self.session(subject)?.as_fd()),
            Flavour::Fresh => OpenDescriptor::Fresh(open_there(&self.path(subject), flags)?),
        })
    }

    pub(super) fn write(
        &self,
        subject: Subject,
        range: Range,
        tag: u64,
        flavour: Flavour,
    ) -> SysResult {
        let bytes = tag::fill(tag, range.from, range.to);
        let fd = self.through(subject, flavour, OFlags::WRONLY)?;
        whole(pwrite(&fd, &bytes, range.from)?, bytes.len())
    }

    pub(super) fn read(&self, subject: Subject, range: Range, flavour: Flavour) -> SysResult {
        let mut bytes = vec![0; (range.to - range.from) as usize];
        let fd = self.through(subject, flavour, OFlags::RDONLY)?;
        let count = pread(&fd, &mut bytes, range.from)?;
        Ok(Answer::Bytes {
            count: count as u64,
            runs: tag::read(&bytes[..count], range.from),
        })
    }

    pub(super) fn truncate(&self, subject: Subject, to: u64) -> SysResult {
        ftruncate(self.session(subject)?, to)?;
        Ok(Answer::Done)
    }

    pub(super) fn allocate(&self, subject: Subject, range: Range, how: Allocate) -> SysResult {
        let flags = match how {
            Allocate::Plain => FallocateFlags::empty(),
            Allocate::KeepSize => FallocateFlags::KEEP_SIZE,
            Allocate::Punch => FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
            Allocate::Zero => FallocateFlags::ZERO_RANGE,
        };
        let length = range.to - range.from;
        fallocate(self.session(subject)?, flags, range.from, length)?;
        Ok(Answer::Done)
    }

    pub(super) fn size(&self, subject: Subject, flavour: Flavour) -> SysResult {
        let stat = match flavour {
            Flavour::Session => fstat(self.session(subject)?)?,
            Flavour::Fresh => stat(self.path(subject))?,
        };
        Ok(Answer::Size(stat.st_size as u64))
    }

    pub(super) fn sync(&self, subject: Subject) -> SysResult {
        fsync(self.session(subject)?)?;
        Ok(Answer::Done)
    }

    pub(super) fn map_read(&self, subject: Subject, range: Range) -> SysResult {
        let bytes = match subject.is_held() {
            true => self.held()?.mapping()?.load(range.from, range.to),
            false => {
                let fd = open_there(&self.path(subject), OFlags::RDONLY)?;
                Mapping::new(&fd, range.to, ProtFlags::READ)?.load(range.from, range.to)
            }
        };
        Ok(Answer::Bytes {
            count: bytes.len() as u64,
            runs: tag::read(&bytes, range.from),
        })
    }

    pub(super) fn map_write(&self, subject: Subject, range: Range, tag: u64) -> SysResult {
        let bytes = tag::fill(tag, range.from, range.to);
        if subject.is_held() {
            self.held()?.mapping()?.store(range.from, &bytes)?;
            return Ok(Answer::Done);
        }
        let fd = open_there(&self.path(subject), OFlags::RDWR)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        Mapping::new(&fd, range.to, access)?.store(range.from, &bytes)?;
        Ok(Answer::Done)
    }

    fn log(&mut self, subject: Subject) -> SysResult<&OwnedFd> {
        if !self.logs.contains_key(&subject) {
            let fd = open_there(&self.path(subject), OFlags::RDWR | OFlags::APPEND)?;
            self.logs.insert(subject, fd);
        }
        Ok(&self.logs[&subject])
    }

    pub(super) fn append(&mut self, subject: Subject, tag: u64) -> SysResult {
        // A record is the same wherever it comes to lie.
        let bytes = tag::word(tag, 0)
            .to_le_bytes()
            .repeat(LOG_RECORD as usize / 8);
        let fd = self.log(subject)?;
        whole(write(fd, &bytes)?, bytes.len())
    }

    pub(super) fn read_log(&mut self, subject: Subject) -> SysResult {
        let mut bytes = vec![0; LOG_MAX.min(16 << 10)];
        let fd = self.log(subject)?;
        let count = pread(fd, &mut bytes, 0)?;
        Ok(Answer::Log(
            bytes[..count]
                .chunks(LOG_RECORD as usize)
                .map(record_tag)
                .collect(),
        ))
    }

    pub(super) fn log_size(&mut self, subject: Subject) -> SysResult {
        Ok(Answer::Size(stat(self.path(subject))?.st_size as u64))
    }

    pub(super) fn cut_log(&mut self, subject: Subject) -> SysResult {
        ftruncate(self.log(subject)?, 0)?;
        Ok(Answer::Done)
    }
}

/// The tag of a record's writer, if it is a whole record.
fn record_tag(record: &[u8]) -> u64 {
    let (words, rest) = record.as_chunks::<8>();
    let tag = words
        .first()
        .map_or(tag::BAD, |word| tag::read_word(*word, 0));
    let same = words.iter().all(|word| Some(word) == words.first());
    match same && rest.is_empty() && record.len() as u64 == LOG_RECORD && tag != 0 {
        true => tag,
        false => tag::BAD,
    }
}

/// A write that came to its end. Of another it is not known what it did.
fn whole(count: usize, length: usize) -> SysResult {
    match count == length {
        true => Ok(Answer::Done),
        false => Err(Errno::IO),
    }
}
