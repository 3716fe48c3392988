//! One process at a time: flock(2) on a file that only the owner can open.
//!
//! Anybody who can read a directory can lock it, so what decides is the lock of the file `gupfs.lock` (0600). Programs before
//! that file locked the directory itself. Its lock is taken too, to keep them out; that another has it is no reason to stop
//! unless that is such a program (docs/decisions, "A lock that only its owner can take").

use super::files::names;
use super::marker::{self, BEGUN};
use super::{StoreDir, cannot, ost_of_name};
use crate::exit::{CliError, CliResult};
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;

pub(super) const LOCK: &str = "gupfs.lock";

/// Held until dropped or until the process ends, however it ends.
#[derive(Debug)]
pub struct Lock {
    /// None where nothing may be written: then the directory's lock is all there is.
    _file: Option<OwnedFd>,
    /// None while a local user who serves nothing holds it.
    _dir: Option<OwnedFd>,
    /// The directory, if the file was not there before.
    made_in: Option<StoreDir>,
}

impl Drop for Lock {
    /// A directory that is not served in the end is left as it was. The lock is still held here: whoever has the file open by now
    /// and locks it afterwards finds that it lies nowhere (`is_there`).
    fn drop(&mut self) {
        if let Some(home) = &self.made_in {
            let _ = std::fs::remove_file(home.root().join(LOCK));
        }
    }
}

impl Lock {
    pub fn take(home: &StoreDir) -> CliResult<Lock> {
        let (mut file, mut made_in);
        loop {
            (file, made_in) = (open_file(home, false)?, None);
            if file.is_none() && may_become_ours(home)? {
                file = open_file(home, true)?;
                made_in = file.as_ref().map(|_| home.clone());
            }
            let Some(opened) = &file else {
                break;
            };
            if !is_locked(opened, home)? {
                return Err(in_use(home, holder(home)));
            }
            if is_there(opened, home) {
                break;
            }
        }
        let dir = open_dir(home)?;
        let dir = match (is_locked(&dir, home)?, &file) {
            (true, _) => Some(dir),
            (false, None) => return Err(in_use(home, holder(home))),
            (false, Some(_)) => {
                if let Some(pid) = former_program(home) {
                    return Err(in_use(home, Some(pid)));
                }
                tracing::warn!(
                    dir = %home.root().display(),
                    "somebody who does not serve this directory holds a lock on it (flock); served nevertheless"
                );
                None
            }
        };
        Ok(Lock {
            _file: file,
            _dir: dir,
            made_in,
        })
    }

    /// The directory is served from here on, and its lock file stays.
    pub(super) fn kept(mut self) -> Lock {
        self.made_in = None;
        self
    }

    /// Whether another process serves the directory now.
    pub fn is_taken(home: &StoreDir) -> CliResult<bool> {
        match open_file(home, false)? {
            Some(file) => Ok(!is_locked(&file, home)? || former_program(home).is_some()),
            None => Ok(!is_locked(&open_dir(home)?, home)? && former_program(home).is_some()),
        }
    }
}

/// None if there is none, and none is to be made or can be.
fn open_file(home: &StoreDir, make: bool) -> CliResult<Option<OwnedFd>> {
    let path = home.root().join(LOCK);
    let mut flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    flags.set(OFlags::CREATE, make);
    let mode = Mode::RUSR | Mode::WUSR;
    let opened = match rustix::fs::open(&path, flags, mode) {
        // A store that can be read only, to be checked: nobody can serve it.
        Err(Errno::ROFS) => rustix::fs::open(&path, flags - OFlags::RDWR, mode),
        other => other,
    };
    let file = match opened {
        Ok(file) => file,
        Err(Errno::NOENT | Errno::ROFS) => return Ok(None),
        Err(errno) => return Err(cannot("open the lock", &path, &errno.into())),
    };
    let found =
        rustix::fs::fstat(&file).map_err(|errno| cannot("look at", &path, &errno.into()))?;
    let owners = [
        rustix::process::geteuid().as_raw(),
        std::fs::metadata(home.root()).map_or(u32::MAX, |root| root.uid()),
    ];
    let is_file = rustix::fs::FileType::from_raw_mode(found.st_mode).is_file();
    if !is_file || found.st_mode & 0o077 != 0 || !owners.contains(&found.st_uid) {
        return Err(CliError::new(format!(
            "the lock '{}' could be opened by others than the owner of the store",
            path.display()
        ))
        .todo("see who made it, and remove it while nothing serves the store; others than its owner should not be able to write to that directory"));
    }
    Ok(Some(file))
}

fn open_dir(home: &StoreDir) -> CliResult<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(home.root(), flags, Mode::empty())
        .map_err(|errno| cannot("lock", home.root(), &errno.into()))
}

/// Locks it, and whether that could be done.
fn is_locked(fd: &OwnedFd, home: &StoreDir) -> CliResult<bool> {
    match rustix::fs::flock(fd, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(errno) => Err(cannot("lock", home.root(), &errno.into())),
    }
}

/// Whether the file is the one that others find: who made it takes it away if nothing is served.
fn is_there(file: &OwnedFd, home: &StoreDir) -> bool {
    let found = std::fs::symlink_metadata(home.root().join(LOCK));
    match (rustix::fs::fstat(file), found) {
        (Ok(open), Ok(found)) => (open.st_dev, open.st_ino) == (found.dev(), found.ino()),
        _ => false,
    }
}

/// A store, an initialisation that broke off, or what one may be made of: nothing is written into any other directory.
fn may_become_ours(home: &StoreDir) -> CliResult<bool> {
    match (marker::read(home), marker::read_begun(home)) {
        // Newer than we are, or damaged: it is refused, and untouched.
        (Err(_), _) | (_, Err(_)) => return Ok(false),
        (Ok(Some(_)), _) | (_, Ok(Some(_))) => return Ok(true),
        (Ok(None), Ok(None)) => {}
    }
    let names = names(home.root())?;
    Ok(names.iter().all(|name| {
        name == "lost+found"
            || name == LOCK
            || name == &format!("{BEGUN}.new")
            || ost_of_name(name).is_some()
    }))
}

fn in_use(home: &StoreDir, by: Option<u32>) -> CliError {
    let who = match by {
        Some(pid) => format!("process {pid}"),
        None => "another process".into(),
    };
    CliError::new(format!("'{}' is in use by {who}", home.root().display())).todo(format!(
        "look at it with `gupfs status {0}`, or stop it with `gupfs stop {0}`",
        home.root().display()
    ))
}

/// The process that has the directory open and left its pid there: one that locked it before there was a file for that.
fn former_program(home: &StoreDir) -> Option<u32> {
    let pid = holder(home)?;
    if pid == std::process::id() {
        return None;
    }
    let descriptors = match std::fs::read_dir(format!("/proc/{pid}/fd")) {
        Ok(descriptors) => descriptors,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        // It is alive, and another's: nobody else could have left its pid.
        Err(_) => return Some(pid),
    };
    let root = std::fs::metadata(home.root()).ok()?;
    let has_it = descriptors
        .filter_map(Result::ok)
        .filter_map(|fd| std::fs::metadata(fd.path()).ok())
        .any(|open| (open.dev(), open.ino()) == (root.dev(), root.ino()));
    has_it.then_some(pid)
}

/// The pid that the holder left for people; None if it left none.
pub fn holder(home: &StoreDir) -> Option<u32> {
    std::fs::read_to_string(home.pid())
        .ok()?
        .trim()
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::home::{MARKER, Marker};
    use gupfs_proto::{ClusterId, Incarnation, VirtualShards};
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    fn store() -> (tempfile::TempDir, StoreDir) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("run")).unwrap();
        let home = StoreDir::at(dir.path()).unwrap();
        let marker = Marker::new(ClusterId(1), Incarnation(2), VirtualShards(64), Vec::new());
        marker::write(&home, &marker).unwrap();
        (dir, home)
    }

    /// What a program before `gupfs.lock` held, and what every user can take who may read the directory.
    fn flock(path: &Path) -> OwnedFd {
        let fd = rustix::fs::open(path, OFlags::RDONLY, Mode::empty()).unwrap();
        rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive).unwrap();
        fd
    }

    #[test]
    fn the_second_is_refused_until_the_first_is_gone() {
        let (_dir, home) = store();
        assert!(!Lock::is_taken(&home).unwrap());
        let first = Lock::take(&home).unwrap().kept();
        assert!(Lock::take(&home).is_err());
        assert!(Lock::is_taken(&home).unwrap());
        drop(first);
        assert!(home.root().join(LOCK).exists());
        assert!(!Lock::is_taken(&home).unwrap());
        Lock::take(&home).unwrap();
    }

    #[test]
    fn the_lock_of_the_directory_alone_stops_nobody() {
        let (_dir, home) = store();
        let _neighbour = flock(home.root());
        let first = Lock::take(&home).unwrap();
        assert!(Lock::take(&home).is_err());
        drop(first);
        assert!(!Lock::is_taken(&home).unwrap());
    }

    #[test]
    fn a_program_that_locked_the_directory_alone_is_not_pushed_out() {
        let (_dir, home) = store();
        let mut former = std::process::Command::new("flock")
            .arg(home.root())
            .args(["sh", "-c", "echo; read line"])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        std::io::BufRead::read_line(
            &mut std::io::BufReader::new(former.stdout.take().unwrap()),
            &mut line,
        )
        .unwrap();
        std::fs::write(home.pid(), format!("{}\n", former.id())).unwrap();
        let refused = Lock::take(&home).unwrap_err().to_string();
        assert!(
            refused.contains(&format!("process {}", former.id())),
            "{refused}"
        );
        assert!(Lock::is_taken(&home).unwrap());
        drop(former.stdin.take());
        former.wait().unwrap();
        Lock::take(&home).unwrap();
    }

    #[test]
    fn only_the_owner_can_open_it_whatever_the_umask() {
        let (_dir, home) = store();
        drop(Lock::take(&home).unwrap().kept());
        let path = home.root().join(LOCK);
        let mode = std::fs::metadata(&path).unwrap().mode() & 0o777;
        assert_eq!(mode & 0o077, 0, "{mode:o}");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
        let refused = Lock::take(&home).unwrap_err().to_string();
        assert!(refused.contains("could be opened by others"), "{refused}");
    }

    #[test]
    fn nothing_is_written_into_a_directory_that_is_no_store() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("thesis.tex"), "").unwrap();
        let home = StoreDir::at(dir.path()).unwrap();
        let _lock = Lock::take(&home).unwrap();
        assert!(Lock::take(&home).is_err());
        assert_eq!(names(home.root()).unwrap(), ["thesis.tex"]);
        // Nor into a store of a later version; and an empty directory is empty again when nothing became of it.
        let (_dir, newer) = store();
        std::fs::write(newer.marker(), "format = \"gupfs store\"\nversion = 99\n").unwrap();
        drop(Lock::take(&newer).unwrap());
        assert_eq!(names(newer.root()).unwrap(), [MARKER, "run"]);
        let empty = tempfile::tempdir().unwrap();
        let home = StoreDir::at(empty.path()).unwrap();
        let lock = Lock::take(&home).unwrap();
        assert_eq!(names(home.root()).unwrap(), [LOCK]);
        assert!(Lock::take(&home).is_err());
        drop(lock);
        assert_eq!(names(home.root()).unwrap(), [""; 0]);
    }
}
