//! Objects of the whole run, which a worker opens once and then reaches only through what it holds: descriptors, a mapping, its working
//! directory. No path is resolved again, but the last name of one relative to a directory that is held.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, ftruncate, mkdir, open, openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::{chdir, fchdir, getcwd};

use super::names::{file, seen};
use super::sys::{Mapping, ProtFlags};
use super::{RoundDirectory, SysResult, files};
use crate::history::Answer;
use crate::subject::{
    CONSTANT_SIZE, HELD_CALLED, HELD_DIRS, Subject, held_name, subject_path, subjects,
};

/// What a worker holds.
pub struct HeldObjects {
    data: OwnedFd,
    mapped: OwnedFd,
    attr: OwnedFd,
    mapping: Option<Mapping>,
    /// Each with the directory in it that is held.
    directories: Vec<(OwnedFd, OwnedFd)>,
}

/// Makes them below the directory of the run.
pub fn furnish(run: &Path) -> SysResult<()> {
    let dir_mode = Mode::from_raw_mode(0o755);
    mkdir(run.join("held"), dir_mode)?;
    for subject in subjects().into_iter().filter(|subject| subject.is_held()) {
        let path = run.join(subject_path(subject));
        if let Subject::HeldDir(_) = subject {
            mkdir(&path, dir_mode)?;
            mkdir(path.join(HELD_CALLED[0]), dir_mode)?;
            continue;
        }
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
        let fd = open(&path, flags, Mode::from_raw_mode(0o600))?;
        match subject {
            Subject::HeldMapped(_) => ftruncate(&fd, CONSTANT_SIZE)?,
            // The first look must find a time of whole seconds.
            Subject::HeldAttr(_) => files::set_initial_attributes(&fd)?,
            _ => {}
        }
    }
    Ok(())
}

impl HeldObjects {
    /// Opens them, and goes into the directory that is the working directory.
    pub fn open(run: &Path, mapped: bool) -> SysResult<HeldObjects> {
        let file = |subject| {
            let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            open(run.join(subject_path(subject)), flags, Mode::empty())
        };
        let directory = |n| {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let path = run.join(subject_path(Subject::HeldDir(n)));
            let parent = open(path, flags, Mode::empty())?;
            let inside = openat(&parent, HELD_CALLED[0], flags, Mode::empty())?;
            Ok((parent, inside))
        };
        let mut held = HeldObjects {
            data: file(Subject::HeldData(0))?,
            mapped: file(Subject::HeldMapped(0))?,
            attr: file(Subject::HeldAttr(0))?,
            mapping: None,
            directories: (0..HELD_DIRS).map(directory).collect::<SysResult<_>>()?,
        };
        if mapped {
            let access = ProtFlags::READ | ProtFlags::WRITE;
            held.mapping = Some(Mapping::new(&held.mapped, CONSTANT_SIZE, access)?);
        }
        fchdir(&held.directories[1].1)?;
        Ok(held)
    }

    /// Whether an operation on this subject finds something.
    pub fn has(&self, subject: Subject) -> bool {
        match subject {
            Subject::HeldMapped(_) => self.mapping.is_some(),
            _ => subject.is_held(),
        }
    }

    pub(super) fn file(&self, subject: Subject) -> Option<&OwnedFd> {
        match subject {
            Subject::HeldData(_) => Some(&self.data),
            Subject::HeldMapped(_) => Some(&self.mapped),
            Subject::HeldAttr(_) => Some(&self.attr),
            _ => None,
        }
    }

    pub(super) fn mapping(&self) -> SysResult<&Mapping> {
        self.mapping.as_ref().ok_or(Errno::BADF)
    }
}

/// Leaves the working directory.
pub fn leave() {
    // The root directory is there.
    let _ = chdir("/");
}

impl RoundDirectory {
    /// What names in a held directory are relative to; None: another subject.
    fn relative_to(&self, subject: Subject) -> SysResult<Option<BorrowedFd<'_>>> {
        Ok(match subject {
            Subject::HeldDir(n) if n % 2 == 1 => Some(CWD),
            Subject::HeldDir(n) => Some(self.held()?.directories[usize::from(n)].1.as_fd()),
            _ => None,
        })
    }

    pub(super) fn held_create(&self, subject: Subject, at: u8) -> SysResult<Option<Answer>> {
        let Some(directory) = self.relative_to(subject)? else {
            return Ok(None);
        };
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
        let fd = openat(directory, held_name(at), flags, Mode::from_raw_mode(0o644))?;
        file(&fd, 0).map(Some)
    }

    pub(super) fn held_look(&self, subject: Subject, at: u8) -> SysResult<Option<Answer>> {
        let Some(directory) = self.relative_to(subject)? else {
            return Ok(None);
        };
        let stat = statat(directory, held_name(at), AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(Some(seen(&stat)))
    }

    pub(super) fn held_unlink(&self, subject: Subject, at: u8) -> SysResult<Option<Answer>> {
        let Some(directory) = self.relative_to(subject)? else {
            return Ok(None);
        };
        unlinkat(directory, held_name(at), AtFlags::empty())?;
        Ok(Some(Answer::Done))
    }

    pub(super) fn move_dir(&self, subject: Subject, to: u8) -> SysResult {
        let Subject::HeldDir(n) = subject else {
            return Err(Errno::BADF);
        };
        let parent = &self.held()?.directories[usize::from(n)].0;
        let [from, to] = [1 - to, to].map(|name| HELD_CALLED[usize::from(name)]);
        renameat(parent, from, parent, to)?;
        Ok(Answer::Done)
    }

    pub(super) fn get_cwd(&self) -> SysResult {
        let path = getcwd(Vec::new())?;
        let name = path.to_bytes().rsplit(|byte| *byte == b'/').next();
        let known = HELD_CALLED
            .iter()
            .position(|known| Some(known.as_bytes()) == name);
        Ok(Answer::Called(known.unwrap_or(HELD_CALLED.len()) as u8))
    }
}
