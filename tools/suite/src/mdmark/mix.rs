//! Mixed operations of one process that walks through the tree at random, beside others.
//!
//! It removes only what it made itself: the tree stays what it was grown to be, whatever is done to it meanwhile.

use std::ffi::{CStr, CString};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, Timespec, Timestamps, UTIME_NOW, mkdirat, openat,
    statat, unlinkat, utimensat,
};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::error::{ErrorContext, SuiteError, SuiteResult};
use crate::latency::{Histogram, Laps};
use crate::rng::{Rng, mix_all};
use crate::stop_flag::StopFlag;

/// The operations, and how often of 100 times: mostly stat, as on a home file system; as many creations as removals.
const ACTS: [(Operation, u64); 8] = [
    (Operation::Stat, 40),
    (Operation::Update, 10),
    (Operation::Down, 10),
    (Operation::Up, 10),
    (Operation::Create, 10),
    (Operation::Unlink, 10),
    (Operation::MakeDirectory, 5),
    (Operation::RemoveDirectory, 5),
];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Operation {
    Stat,
    Update,
    Down,
    Up,
    Create,
    Unlink,
    MakeDirectory,
    RemoveDirectory,
}

/// How many of each were done.
#[derive(Clone, Copy, Default, Debug, PartialEq, Serialize, Deserialize)]
pub struct Counts {
    pub stat: u64,
    pub update: u64,
    pub chdir: u64,
    pub create: u64,
    pub unlink: u64,
    pub mkdir: u64,
    pub rmdir: u64,
    /// Operations that the file system refused since another process had made, removed or filled the entry meanwhile.
    pub missed: u64,
}

impl Counts {
    pub fn named(&self) -> [(&'static str, u64); 8] {
        [
            ("stat", self.stat),
            ("update", self.update),
            ("chdir", self.chdir),
            ("create", self.create),
            ("unlink", self.unlink),
            ("mkdir", self.mkdir),
            ("rmdir", self.rmdir),
            ("missed", self.missed),
        ]
    }

    fn of(&mut self, act: Operation) -> &mut u64 {
        match act {
            Operation::Stat => &mut self.stat,
            Operation::Update => &mut self.update,
            Operation::Down | Operation::Up => &mut self.chdir,
            Operation::Create => &mut self.create,
            Operation::Unlink => &mut self.unlink,
            Operation::MakeDirectory => &mut self.mkdir,
            Operation::RemoveDirectory => &mut self.rmdir,
        }
    }

    pub fn add(&mut self, other: &Counts) {
        self.stat += other.stat;
        self.update += other.update;
        self.chdir += other.chdir;
        self.create += other.create;
        self.unlink += other.unlink;
        self.mkdir += other.mkdir;
        self.rmdir += other.rmdir;
        self.missed += other.missed;
    }
}

pub struct MixWorker<'a> {
    top: &'a Path,
    worker: usize,
    rng: Rng,
    here: CurrentDirectory,
    /// How far below the top.
    depth: usize,
    made: u64,
    counts: Counts,
}

/// The directory in which a process is.
struct CurrentDirectory {
    dir: OwnedFd,
    entries: Vec<CString>,
    directories: Vec<CString>,
    /// Files that this process made since it entered the directory.
    own_files: Vec<CString>,
    own_directories: Vec<CString>,
}

impl CurrentDirectory {
    fn enter(
        from: Option<&OwnedFd>,
        name: impl rustix::path::Arg,
    ) -> Result<CurrentDirectory, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = match from {
            Some(from) => openat(from, name, flags, Mode::empty())?,
            None => openat(CWD, name, flags, Mode::empty())?,
        };
        let mut here = CurrentDirectory {
            entries: Vec::new(),
            directories: Vec::new(),
            own_files: Vec::new(),
            own_directories: Vec::new(),
            dir,
        };
        for entry in Dir::read_from(&here.dir)? {
            let entry = entry?;
            let name = entry.file_name().to_owned();
            if [c".", c".."].contains(&name.as_c_str()) {
                continue;
            }
            if here.is_directory(&name, entry.file_type())? {
                here.directories.push(name.clone());
            }
            here.entries.push(name);
        }
        Ok(here)
    }

    /// Not every file system says with the name what it names.
    fn is_directory(&self, name: &CStr, said: FileType) -> Result<bool, Errno> {
        if said != FileType::Unknown {
            return Ok(said == FileType::Directory);
        }
        match statat(&self.dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => Ok(FileType::from_raw_mode(found.st_mode) == FileType::Directory),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl MixWorker<'_> {
    pub fn new(top: &Path, seed: u64, worker: usize) -> SuiteResult<MixWorker<'_>> {
        Ok(MixWorker {
            top,
            worker,
            rng: Rng::new(mix_all(&[seed, 5, worker as u64])),
            here: CurrentDirectory::enter(None, top).doing("enter", top)?,
            depth: 0,
            made: 0,
            counts: Counts::default(),
        })
    }

    pub fn wander(mut self, time: Duration, halt: &StopFlag) -> SuiteResult<(Counts, Histogram)> {
        let (mut laps, end) = (Laps::start(halt), Instant::now() + time);
        while Instant::now() < end {
            let act = self.choose();
            match self.perform(act) {
                Ok(true) => *self.counts.of(act) += 1,
                // There is nothing here to do it to.
                Ok(false) => continue,
                Err(Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST | Errno::STALE) => {
                    self.counts.missed += 1;
                }
                Err(error) => {
                    return Err(SuiteError::failed(format!(
                        "{act:?} somewhere below {}: {error}",
                        self.top.display()
                    )));
                }
            }
            laps.lap()?;
        }
        Ok((self.counts, laps.histogram))
    }

    fn choose(&mut self) -> Operation {
        let mut left = self.rng.below(ACTS.iter().map(|(_, often)| often).sum());
        for (act, often) in ACTS {
            if left < often {
                return act;
            }
            left -= often;
        }
        unreachable!("a number below the sum lies in an act")
    }

    /// Whether it could be done here.
    fn perform(&mut self, act: Operation) -> Result<bool, Errno> {
        match act {
            Operation::Stat | Operation::Update => self.look(act),
            Operation::Down => self.down(),
            Operation::Up => self.up(),
            Operation::Create => {
                let name = self.new_name();
                let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
                drop(openat(&self.here.dir, &name, flags, Mode::from(0o644))?);
                self.here.own_files.push(name);
                Ok(true)
            }
            Operation::MakeDirectory => {
                let name = self.new_name();
                mkdirat(&self.here.dir, &name, Mode::from(0o755))?;
                self.here.own_directories.push(name);
                Ok(true)
            }
            Operation::Unlink => match self.here.own_files.pop() {
                Some(name) => unlinkat(&self.here.dir, &name, AtFlags::empty()).map(|()| true),
                None => Ok(false),
            },
            Operation::RemoveDirectory => match self.here.own_directories.pop() {
                Some(name) => unlinkat(&self.here.dir, &name, AtFlags::REMOVEDIR).map(|()| true),
                None => Ok(false),
            },
        }
    }

    fn look(&mut self, act: Operation) -> Result<bool, Errno> {
        if self.here.entries.is_empty() {
            return Ok(false);
        }
        let index = self.rng.below(self.here.entries.len() as u64);
        let name = &self.here.entries[index as usize];
        if act == Operation::Stat {
            statat(&self.here.dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
            return Ok(true);
        }
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_NOW,
        };
        let times = Timestamps {
            last_access: now,
            last_modification: now,
        };
        utimensat(&self.here.dir, name, &times, AtFlags::SYMLINK_NOFOLLOW).map(|()| true)
    }

    fn down(&mut self) -> Result<bool, Errno> {
        if self.here.directories.is_empty() {
            return Ok(false);
        }
        let index = self.rng.below(self.here.directories.len() as u64);
        let name = &self.here.directories[index as usize];
        self.here = CurrentDirectory::enter(Some(&self.here.dir), name)?;
        self.depth += 1;
        Ok(true)
    }

    fn up(&mut self) -> Result<bool, Errno> {
        if self.depth == 0 {
            return Ok(false);
        }
        match CurrentDirectory::enter(Some(&self.here.dir), c"..") {
            Ok(here) => {
                self.here = here;
                self.depth -= 1;
                Ok(true)
            }
            // The directory was another's, and is removed: begin again.
            Err(error) => {
                self.here = CurrentDirectory::enter(None, self.top)?;
                self.depth = 0;
                Err(error)
            }
        }
    }

    fn new_name(&mut self) -> CString {
        self.made += 1;
        let name = format!("mix{}.{}", self.worker, self.made);
        CString::new(name).expect("no zero in it")
    }
}
