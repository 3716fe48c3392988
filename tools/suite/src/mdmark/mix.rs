//! A process that wanders through the tree and does this and that, together with others.
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

use crate::chance::{Dice, mix_all};
use crate::halt::Halt;
use crate::latency::{Histogram, Laps};
use crate::trouble::{Doing, Outcome, Trouble};

/// What is done, and how often of 100 times: looking most, as on a home file system; making as often as removing.
const ACTS: [(Act, u64); 8] = [
    (Act::Stat, 40),
    (Act::Update, 10),
    (Act::Down, 10),
    (Act::Up, 10),
    (Act::Create, 10),
    (Act::Unlink, 10),
    (Act::MakeDirectory, 5),
    (Act::RemoveDirectory, 5),
];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Act {
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
    /// What another process had made, removed or filled meanwhile: done, and refused by the file system, as is right.
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

    fn of(&mut self, act: Act) -> &mut u64 {
        match act {
            Act::Stat => &mut self.stat,
            Act::Update => &mut self.update,
            Act::Down | Act::Up => &mut self.chdir,
            Act::Create => &mut self.create,
            Act::Unlink => &mut self.unlink,
            Act::MakeDirectory => &mut self.mkdir,
            Act::RemoveDirectory => &mut self.rmdir,
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

pub struct Wanderer<'a> {
    top: &'a Path,
    worker: usize,
    dice: Dice,
    here: Here,
    /// How far below the top.
    depth: usize,
    made: u64,
    counts: Counts,
}

/// The directory in which a process is.
struct Here {
    dir: OwnedFd,
    entries: Vec<CString>,
    directories: Vec<CString>,
    /// What this process made since it came.
    own_files: Vec<CString>,
    own_directories: Vec<CString>,
}

impl Here {
    fn enter(from: Option<&OwnedFd>, name: impl rustix::path::Arg) -> Result<Here, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = match from {
            Some(from) => openat(from, name, flags, Mode::empty())?,
            None => openat(CWD, name, flags, Mode::empty())?,
        };
        let mut here = Here {
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

impl Wanderer<'_> {
    pub fn new(top: &Path, seed: u64, worker: usize) -> Outcome<Wanderer<'_>> {
        Ok(Wanderer {
            top,
            worker,
            dice: Dice::new(mix_all(&[seed, 5, worker as u64])),
            here: Here::enter(None, top).doing("enter", top)?,
            depth: 0,
            made: 0,
            counts: Counts::default(),
        })
    }

    pub fn wander(mut self, time: Duration, halt: &Halt) -> Outcome<(Counts, Histogram)> {
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
                    return Err(Trouble::met(format!(
                        "{act:?} somewhere below {}: {error}",
                        self.top.display()
                    )));
                }
            }
            laps.lap()?;
        }
        Ok((self.counts, laps.histogram))
    }

    fn choose(&mut self) -> Act {
        let mut left = self.dice.below(ACTS.iter().map(|(_, often)| often).sum());
        for (act, often) in ACTS {
            if left < often {
                return act;
            }
            left -= often;
        }
        unreachable!("a number below the sum lies in an act")
    }

    /// Whether it could be done here.
    fn perform(&mut self, act: Act) -> Result<bool, Errno> {
        match act {
            Act::Stat | Act::Update => self.look(act),
            Act::Down => self.down(),
            Act::Up => self.up(),
            Act::Create => {
                let name = self.new_name();
                let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
                drop(openat(&self.here.dir, &name, flags, Mode::from(0o644))?);
                self.here.own_files.push(name);
                Ok(true)
            }
            Act::MakeDirectory => {
                let name = self.new_name();
                mkdirat(&self.here.dir, &name, Mode::from(0o755))?;
                self.here.own_directories.push(name);
                Ok(true)
            }
            Act::Unlink => match self.here.own_files.pop() {
                Some(name) => unlinkat(&self.here.dir, &name, AtFlags::empty()).map(|()| true),
                None => Ok(false),
            },
            Act::RemoveDirectory => match self.here.own_directories.pop() {
                Some(name) => unlinkat(&self.here.dir, &name, AtFlags::REMOVEDIR).map(|()| true),
                None => Ok(false),
            },
        }
    }

    fn look(&mut self, act: Act) -> Result<bool, Errno> {
        if self.here.entries.is_empty() {
            return Ok(false);
        }
        let index = self.dice.below(self.here.entries.len() as u64);
        let name = &self.here.entries[index as usize];
        if act == Act::Stat {
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
        let index = self.dice.below(self.here.directories.len() as u64);
        let name = &self.here.directories[index as usize];
        self.here = Here::enter(Some(&self.here.dir), name)?;
        self.depth += 1;
        Ok(true)
    }

    fn up(&mut self) -> Result<bool, Errno> {
        if self.depth == 0 {
            return Ok(false);
        }
        match Here::enter(Some(&self.here.dir), c"..") {
            Ok(here) => {
                self.here = here;
                self.depth -= 1;
                Ok(true)
            }
            // The directory was another's, and is removed: begin again.
            Err(error) => {
                self.here = Here::enter(None, self.top)?;
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
