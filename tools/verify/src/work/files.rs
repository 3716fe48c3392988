//! Operations on attributes and locks; the initial files of a round.

use std::os::fd::OwnedFd;

use rustix::fs::{
    AtFlags, CWD, FlockOperation, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT, XattrFlags,
    chmod, fchmod, fgetxattr, flock, fremovexattr, fsetxattr, fstat, ftruncate, futimens, getxattr,
    mkdir, open, removexattr, setxattr, stat, utimensat,
};
use rustix::io::Errno;

use super::{RoundDirectory, SysResult, open_there, sys};
use crate::check::ATTRIBUTES;
use crate::check::model::locks::UNITS;
use crate::history::{Answer, tag};
use crate::subject::{CONSTANT_SIZE, Subject, UNPUBLISHED, subjects};

const XATTR: &str = "user.verify";

impl RoundDirectory {
    /// Makes what every round begins with.
    pub fn furnish(&self) -> SysResult<()> {
        let dir_mode = Mode::from_raw_mode(0o755);
        mkdir(&self.directory, dir_mode)?;
        mkdir(self.directory.join(UNPUBLISHED), dir_mode)?;
        for subject in subjects().into_iter().filter(|subject| !subject.is_held()) {
            let path = self.path(subject);
            if let Subject::Names(_) = subject {
                mkdir(&path, dir_mode)?;
                mkdir(path.join("x"), dir_mode)?;
                mkdir(path.join("y"), dir_mode)?;
                continue;
            }
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
            let fd = open(&path, flags, Mode::from_raw_mode(0o600))?;
            match subject {
                Subject::Mapped(_) | Subject::Spliced(_) => ftruncate(&fd, CONSTANT_SIZE)?,
                Subject::Attr(_) => set_initial_attributes(&fd)?,
                _ => {}
            }
        }
        Ok(())
    }

    pub(super) fn set_mode(&self, subject: Subject, mode: u32) -> SysResult {
        let mode = Mode::from_raw_mode(mode);
        match self.held_file(subject)? {
            Some(fd) => fchmod(fd, mode)?,
            None => chmod(self.path(subject), mode)?,
        }
        Ok(Answer::Done)
    }

    pub(super) fn set_time(&self, subject: Subject, seconds: u64) -> SysResult {
        let times = modified(seconds);
        match self.held_file(subject)? {
            Some(fd) => futimens(fd, &times)?,
            None => utimensat(CWD, self.path(subject), &times, AtFlags::empty())?,
        }
        Ok(Answer::Done)
    }

    pub(super) fn set_xattr(&self, subject: Subject, tag: u64) -> SysResult {
        let (value, flags) = (tag.to_le_bytes(), XattrFlags::empty());
        match self.held_file(subject)? {
            Some(fd) => fsetxattr(fd, XATTR, &value, flags)?,
            None => setxattr(self.path(subject), XATTR, &value, flags)?,
        }
        Ok(Answer::Done)
    }

    pub(super) fn remove_xattr(&self, subject: Subject) -> SysResult {
        match self.held_file(subject)? {
            Some(fd) => fremovexattr(fd, XATTR)?,
            None => removexattr(self.path(subject), XATTR)?,
        }
        Ok(Answer::Done)
    }

    pub(super) fn get_xattr(&self, subject: Subject) -> SysResult {
        let mut value = [0u8; 16];
        let got = match self.held_file(subject)? {
            Some(fd) => fgetxattr(fd, XATTR, &mut value[..]),
            None => getxattr(self.path(subject), XATTR, &mut value[..]),
        };
        match got {
            Ok(8) => {
                let tag = value
                    .first_chunk()
                    .map_or(tag::BAD, |tag| u64::from_le_bytes(*tag));
                Ok(Answer::Value(tag))
            }
            Ok(_) => Ok(Answer::Value(tag::BAD)),
            Err(Errno::NODATA) => Ok(Answer::Value(0)),
            Err(errno) => Err(errno),
        }
    }

    pub(super) fn stat(&self, subject: Subject) -> SysResult {
        let stat = match self.held_file(subject)? {
            Some(fd) => fstat(fd)?,
            None => stat(self.path(subject))?,
        };
        Ok(Answer::Attributes {
            mode: stat.st_mode & 0o7777,
            seconds: stat.st_mtime as u64,
        })
    }

    /// The descriptor of a held file; None: it is not held.
    fn held_file(&self, subject: Subject) -> SysResult<Option<&OwnedFd>> {
        match subject.is_held() {
            true => self.held()?.file(subject).ok_or(Errno::BADF).map(Some),
            false => Ok(None),
        }
    }

    pub(super) fn open_lock(&mut self, subject: Subject) -> SysResult<()> {
        if !self.locks.contains_key(&subject) {
            let fd = open_there(&self.path(subject), OFlags::RDWR)?;
            self.locks.insert(subject, fd);
        }
        Ok(())
    }

    /// Even numbers are locked by flock, odd ones by fcntl.
    pub(super) fn lock(
        &self,
        subject: Subject,
        first: u8,
        last: u8,
        exclusive: Option<bool>,
    ) -> SysResult {
        let fd = self.locks.get(&subject).ok_or(Errno::BADF)?;
        if matches!(subject, Subject::Lock(n) if n % 2 == 1) {
            sys::record_lock(fd, i64::from(first), i64::from(last - first), exclusive)?;
            return Ok(Answer::Done);
        }
        debug_assert_eq!(usize::from(last - first), UNITS, "flock locks all");
        flock(
            fd,
            match exclusive {
                None => FlockOperation::Unlock,
                Some(false) => FlockOperation::NonBlockingLockShared,
                Some(true) => FlockOperation::NonBlockingLockExclusive,
            },
        )?;
        Ok(Answer::Done)
    }
}

/// The attributes that every file for them begins with.
pub(super) fn set_initial_attributes(fd: &OwnedFd) -> SysResult<()> {
    fchmod(fd, Mode::from_raw_mode(ATTRIBUTES.0))?;
    futimens(fd, &modified(ATTRIBUTES.1))
}

fn modified(seconds: u64) -> Timestamps {
    Timestamps {
        last_access: Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_OMIT as _,
        },
        last_modification: Timespec {
            tv_sec: seconds as i64,
            tv_nsec: 0,
        },
    }
}
