//! The directory of a lab, which stands for the lab: the process of a living lab holds its lock.

use std::fs::{DirBuilder, File};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::error::{ErrorContext, SuiteError, SuiteResult};

/// Gone after a restart of the machine, as namespaces are.
const LABS: &str = "/run/gupfs-lab";

pub struct LabDirectory {
    /// As its namespaces begin.
    pub lab: String,
    pub dir: PathBuf,
    /// Held as long as the lab lives.
    _lock: File,
}

/// No other process makes or looks for labs while the lock is held.
fn alone() -> SuiteResult<File> {
    let labs = Path::new(LABS);
    let made = DirBuilder::new().recursive(true).mode(0o755).create(labs);
    made.doing("make", labs)?;
    let lock = labs.join("lock");
    let file = File::create(&lock).doing("open", &lock)?;
    flock(&file, FlockOperation::LockExclusive).doing("lock", &lock)?;
    Ok(file)
}

impl LabDirectory {
    /// The first that is free.
    pub fn make() -> SuiteResult<LabDirectory> {
        let _alone = alone()?;
        for number in 1.. {
            let lab = format!("gupfs-lab{number}");
            let dir = Path::new(LABS).join(&lab);
            match DirBuilder::new().mode(0o755).create(&dir) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                made => made.doing("make", &dir)?,
            }
            let lock = lock_of(&dir);
            let file = File::create(&lock).doing("make", &lock)?;
            flock(&file, FlockOperation::NonBlockingLockExclusive).doing("lock", &lock)?;
            return Ok(LabDirectory {
                lab,
                dir,
                _lock: file,
            });
        }
        Err(SuiteError::failed("there are too many labs"))
    }

    /// Labs whose makers live no more; and how many live.
    pub fn abandoned() -> SuiteResult<(Vec<LabDirectory>, usize)> {
        let _alone = alone()?;
        let labs = Path::new(LABS);
        let (mut abandoned, mut living) = (Vec::new(), 0);
        for entry in std::fs::read_dir(labs).doing("read", labs)? {
            let entry = entry.doing("read", labs)?;
            let (dir, name) = (entry.path(), entry.file_name());
            let Some(lab) = name.to_str().filter(|_| dir.is_dir()) else {
                continue;
            };
            let lock = lock_of(&dir);
            let file = File::create(&lock).doing("open", &lock)?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => abandoned.push(LabDirectory {
                    lab: lab.into(),
                    dir,
                    _lock: file,
                }),
                Err(Errno::WOULDBLOCK) => living += 1,
                Err(error) => return Err(error).doing("lock", &lock),
            }
        }
        Ok((abandoned, living))
    }
}

fn lock_of(dir: &Path) -> PathBuf {
    dir.join("lock")
}
