//! The lock of a store directory: flock(2) on a file that only its owner can open.
//!
//! Every user who can read a directory can lock it with flock(2). Therefore the lock is that of the file `gupfs.lock` (0600). Older
//! versions of gupfs locked the directory itself. A process locks the directory, too, so that these versions do not start; if another
//! process holds that lock, this one stops only if the holder is such a version (docs/decisions, "A lock that only its owner can
//! take").

use super::files::names;
use super::marker::{self, UNFINISHED};
use super::{StoreDir, parse_ost_name, path_error};
use crate::exit::{CliError, CliResult};
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;

pub(super) const LOCK: &str = "gupfs.lock";

/// The kernel releases the lock when this is dropped, and when the process ends.
#[derive(Debug)]
pub struct Lock {
    /// None if the file does not exist and must not or cannot be created: then only the directory is locked.
    _file: Option<OwnedFd>,
    /// None while another process, which does not serve the store, holds it.
    _dir: Option<OwnedFd>,
    /// The directory, if this process created the lock file and does not serve the directory yet.
    created_in: Option<StoreDir>,
}

impl Drop for Lock {
    /// Removes a lock file that this process created for a directory which it did not serve in the end. The lock is still held: another
    /// process that has the file open and locks it afterwards notices that the file has no name (`is_linked`).
    fn drop(&mut self) {
        if let Some(store_dir) = &self.created_in {
            let _ = std::fs::remove_file(store_dir.root().join(LOCK));
        }
    }
}

impl Lock {
    /// # Errors
    /// If another process serves the directory, or the lock file could be opened by others than the owner.
    pub fn take(store_dir: &StoreDir) -> CliResult<Lock> {
        let (mut file, mut created_in);
        loop {
            (file, created_in) = (open_file(store_dir, false)?, None);
            if file.is_none() && can_be_store(store_dir)? {
                file = open_file(store_dir, true)?;
                created_in = file.as_ref().map(|_| store_dir.clone());
            }
            let Some(opened) = &file else {
                break;
            };
            if !try_lock(opened, store_dir)? {
                return Err(in_use(store_dir, holder(store_dir)));
            }
            if is_linked(opened, store_dir) {
                break;
            }
        }
        let dir = open_dir(store_dir)?;
        let dir = match (try_lock(&dir, store_dir)?, &file) {
            (true, _) => Some(dir),
            (false, None) => return Err(in_use(store_dir, holder(store_dir))),
            (false, Some(_)) => {
                if let Some(pid) = older_version_holder(store_dir) {
                    return Err(in_use(store_dir, Some(pid)));
                }
                tracing::warn!(
                    dir = %store_dir.root().display(),
                    "a process that does not serve this directory holds a lock on it (flock); serving it nevertheless"
                );
                None
            }
        };
        Ok(Lock {
            _file: file,
            _dir: dir,
            created_in,
        })
    }

    /// Keeps the lock file after a drop: from now on this process serves the directory.
    pub(super) fn keep_file(mut self) -> Lock {
        self.created_in = None;
        self
    }

    /// Whether another process serves the directory.
    pub fn is_taken(store_dir: &StoreDir) -> CliResult<bool> {
        match open_file(store_dir, false)? {
            Some(file) => {
                Ok(!try_lock(&file, store_dir)? || older_version_holder(store_dir).is_some())
            }
            None => Ok(!try_lock(&open_dir(store_dir)?, store_dir)?
                && older_version_holder(store_dir).is_some()),
        }
    }
}

/// Opens the lock file; None if it does not exist and `make` is false, or it cannot be created on a read-only file system.
fn open_file(store_dir: &StoreDir, make: bool) -> CliResult<Option<OwnedFd>> {
    let path = store_dir.root().join(LOCK);
    let mut flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    flags.set(OFlags::CREATE, make);
    let mode = Mode::RUSR | Mode::WUSR;
    let opened = match rustix::fs::open(&path, flags, mode) {
        // No process can serve a store on a read-only file system; `gupfs check` reads it.
        Err(Errno::ROFS) => rustix::fs::open(&path, flags - OFlags::RDWR, mode),
        other => other,
    };
    let file = match opened {
        Ok(file) => file,
        Err(Errno::NOENT | Errno::ROFS) => return Ok(None),
        Err(errno) => return Err(path_error("open the lock", &path, &errno.into())),
    };
    let found = rustix::fs::fstat(&file)
        .map_err(|errno| path_error("get the attributes of", &path, &errno.into()))?;
    let owners = [
        rustix::process::geteuid().as_raw(),
        std::fs::metadata(store_dir.root()).map_or(u32::MAX, |root| root.uid()),
    ];
    let is_file = rustix::fs::FileType::from_raw_mode(found.st_mode).is_file();
    if !is_file || found.st_mode & 0o077 != 0 || !owners.contains(&found.st_uid) {
        return Err(CliError::new(format!(
            "the lock file '{}' could be opened by others than the owner of the store",
            path.display()
        ))
        .todo("find out which user created it, and remove it while no process serves the store; only its owner should be able to write to that directory"));
    }
    Ok(Some(file))
}

fn open_dir(store_dir: &StoreDir) -> CliResult<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(store_dir.root(), flags, Mode::empty())
        .map_err(|errno| path_error("lock", store_dir.root(), &errno.into()))
}

/// Returns whether the lock was free; this process holds it now.
fn try_lock(fd: &OwnedFd, store_dir: &StoreDir) -> CliResult<bool> {
    match rustix::fs::flock(fd, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(errno) => Err(path_error("lock", store_dir.root(), &errno.into())),
    }
}

/// Whether the open file is the one in the directory: the process that created it may have removed it.
fn is_linked(file: &OwnedFd, store_dir: &StoreDir) -> bool {
    let found = std::fs::symlink_metadata(store_dir.root().join(LOCK));
    match (rustix::fs::fstat(file), found) {
        (Ok(open), Ok(found)) => (open.st_dev, open.st_ino) == (found.dev(), found.ino()),
        _ => false,
    }
}

/// Whether the directory is a store, an interrupted initialisation, or may be initialised: gupfs writes into no other directory.
fn can_be_store(store_dir: &StoreDir) -> CliResult<bool> {
    match (marker::read(store_dir), marker::read_unfinished(store_dir)) {
        // Of a newer version, or damaged: gupfs refuses it, and changes nothing in it.
        (Err(_), _) | (_, Err(_)) => return Ok(false),
        (Ok(Some(_)), _) | (_, Ok(Some(_))) => return Ok(true),
        (Ok(None), Ok(None)) => {}
    }
    let names = names(store_dir.root())?;
    Ok(names.iter().all(|name| {
        name == "lost+found"
            || name == LOCK
            || name == &format!("{UNFINISHED}.new")
            || parse_ost_name(name).is_some()
    }))
}

fn in_use(store_dir: &StoreDir, pid: Option<u32>) -> CliError {
    let holder = match pid {
        Some(pid) => format!("process {pid}"),
        None => "another process".into(),
    };
    CliError::new(format!(
        "'{}' is in use by {holder}",
        store_dir.root().display()
    ))
    .todo(format!(
        "see its state with `gupfs status {0}`, or stop it with `gupfs stop {0}`",
        store_dir.root().display()
    ))
}

/// The process of an older version that serves the directory: it wrote its pid and has the directory open.
fn older_version_holder(store_dir: &StoreDir) -> Option<u32> {
    let pid = holder(store_dir)?;
    if pid == std::process::id() {
        return None;
    }
    let descriptors = match std::fs::read_dir(format!("/proc/{pid}/fd")) {
        Ok(descriptors) => descriptors,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        // The process is alive and belongs to another user; only the serving process can have written its pid.
        Err(_) => return Some(pid),
    };
    let root = std::fs::metadata(store_dir.root()).ok()?;
    let has_it = descriptors
        .filter_map(Result::ok)
        .filter_map(|fd| std::fs::metadata(fd.path()).ok())
        .any(|open| (open.dev(), open.ino()) == (root.dev(), root.ino()));
    has_it.then_some(pid)
}

/// The pid that the serving process wrote; None if there is none.
pub fn holder(store_dir: &StoreDir) -> Option<u32> {
    std::fs::read_to_string(store_dir.pid())
        .ok()?
        .trim()
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store_dir::{MARKER, Marker};
    use gupfs_proto::{ClusterId, Incarnation, VirtualShards};
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    fn store() -> (tempfile::TempDir, StoreDir) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("run")).unwrap();
        let store_dir = StoreDir::at(dir.path()).unwrap();
        let marker = Marker::new(ClusterId(1), Incarnation(2), VirtualShards(64), Vec::new());
        marker::write(&store_dir, &marker).unwrap();
        (dir, store_dir)
    }

    /// The lock of versions without `gupfs.lock`, which every user can take that may read the directory.
    fn flock(path: &Path) -> OwnedFd {
        let fd = rustix::fs::open(path, OFlags::RDONLY, Mode::empty()).unwrap();
        rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive).unwrap();
        fd
    }

    #[test]
    fn a_second_lock_is_refused_until_the_first_is_released() {
        let (_dir, store_dir) = store();
        assert!(!Lock::is_taken(&store_dir).unwrap());
        let first = Lock::take(&store_dir).unwrap().keep_file();
        assert!(Lock::take(&store_dir).is_err());
        assert!(Lock::is_taken(&store_dir).unwrap());
        drop(first);
        assert!(store_dir.root().join(LOCK).exists());
        assert!(!Lock::is_taken(&store_dir).unwrap());
        Lock::take(&store_dir).unwrap();
    }

    #[test]
    fn a_lock_of_only_the_directory_is_no_obstacle() {
        let (_dir, store_dir) = store();
        let _neighbour = flock(store_dir.root());
        let first = Lock::take(&store_dir).unwrap();
        assert!(Lock::take(&store_dir).is_err());
        drop(first);
        assert!(!Lock::is_taken(&store_dir).unwrap());
    }

    #[test]
    fn an_older_version_that_locked_only_the_directory_keeps_it() {
        let (_dir, store_dir) = store();
        let mut former = std::process::Command::new("flock")
            .arg(store_dir.root())
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
        std::fs::write(store_dir.pid(), format!("{}\n", former.id())).unwrap();
        let refused = Lock::take(&store_dir).unwrap_err().to_string();
        assert!(
            refused.contains(&format!("process {}", former.id())),
            "{refused}"
        );
        assert!(Lock::is_taken(&store_dir).unwrap());
        drop(former.stdin.take());
        former.wait().unwrap();
        Lock::take(&store_dir).unwrap();
    }

    #[test]
    fn only_the_owner_can_open_the_lock_file_whatever_the_umask() {
        let (_dir, store_dir) = store();
        drop(Lock::take(&store_dir).unwrap().keep_file());
        let path = store_dir.root().join(LOCK);
        let mode = std::fs::metadata(&path).unwrap().mode() & 0o777;
        assert_eq!(mode & 0o077, 0, "{mode:o}");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
        let refused = Lock::take(&store_dir).unwrap_err().to_string();
        assert!(refused.contains("could be opened by others"), "{refused}");
    }

    #[test]
    fn nothing_is_written_into_a_directory_that_is_no_store() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("thesis.tex"), "").unwrap();
        let store_dir = StoreDir::at(dir.path()).unwrap();
        let _lock = Lock::take(&store_dir).unwrap();
        assert!(Lock::take(&store_dir).is_err());
        assert_eq!(names(store_dir.root()).unwrap(), ["thesis.tex"]);
        // Also not in a store of a later version. An empty directory that was not initialised is empty again.
        let (_dir, newer) = store();
        std::fs::write(newer.marker(), "format = \"gupfs store\"\nversion = 99\n").unwrap();
        drop(Lock::take(&newer).unwrap());
        assert_eq!(names(newer.root()).unwrap(), [MARKER, "run"]);
        let empty = tempfile::tempdir().unwrap();
        let store_dir = StoreDir::at(empty.path()).unwrap();
        let lock = Lock::take(&store_dir).unwrap();
        assert_eq!(names(store_dir.root()).unwrap(), [LOCK]);
        assert!(Lock::take(&store_dir).is_err());
        drop(lock);
        assert_eq!(names(store_dir.root()).unwrap(), [""; 0]);
    }
}
