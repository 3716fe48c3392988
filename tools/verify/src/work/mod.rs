//! # work: a process that performs operations and records their answers
//!
//! Owns   the system calls, the descriptors, the times around each call.
//! Never  judges an answer, waits for another worker, decides how long.
//! Enter  at [`serve`], with orders on one pipe and reports on another.

mod act;
mod bytes;
mod files;
mod held;
mod look;
mod names;
mod progress;
mod protocol;
mod round;
mod splice;
mod sys;

pub use progress::now;
pub use protocol::{Order, Report, RoundPlan};
pub use round::serve;

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;

use self::held::HeldObjects;
use crate::history::Answer;
use crate::subject::{Subject, UNPUBLISHED, subject_path};

/// The result of a system call.
type SysResult<T = Answer> = Result<T, Errno>;

/// The directory of a round, and the files that a worker has open there.
pub struct RoundDirectory {
    directory: PathBuf,
    worker: u16,
    /// What lasts for the run.
    held: Option<Rc<HeldObjects>>,
    sessions: BTreeMap<Subject, OwnedFd>,
    /// Opened once: closing any descriptor of a file frees its fcntl locks.
    locks: BTreeMap<Subject, OwnedFd>,
    logs: BTreeMap<Subject, OwnedFd>,
    /// The file that copy_file_range(2) copies to: no other worker knows it.
    copy: Option<OwnedFd>,
    /// The file that is ready to be published.
    unpublished: Option<(PathBuf, Answer)>,
}

impl RoundDirectory {
    pub fn new(directory: PathBuf, worker: u16, held: Option<Rc<HeldObjects>>) -> RoundDirectory {
        RoundDirectory {
            directory,
            worker,
            held,
            sessions: BTreeMap::new(),
            locks: BTreeMap::new(),
            logs: BTreeMap::new(),
            copy: None,
            unpublished: None,
        }
    }

    fn held(&self) -> SysResult<&HeldObjects> {
        self.held.as_deref().ok_or(Errno::BADF)
    }

    fn path(&self, subject: Subject) -> PathBuf {
        self.directory.join(subject_path(subject))
    }

    fn unpublished_path(&self, number: u32) -> PathBuf {
        self.directory
            .join(UNPUBLISHED)
            .join(format!("w{}-{number}", self.worker))
    }
}

/// Opens a file whose name no operation changes.
fn open_there(path: &Path, flags: OFlags) -> SysResult<OwnedFd> {
    open(
        path,
        flags | OFlags::CLOEXEC | OFlags::NOFOLLOW,
        Mode::empty(),
    )
}
