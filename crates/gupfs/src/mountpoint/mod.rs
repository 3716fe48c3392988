//! # mountpoint: the directory where the file system is mounted
//!
//! Owns   the check whether a directory can be a mount point, the removal of a dead mount, the search for the processes that use a mount.
//! Never  mounts.
//! Enter  at `prepare`.

mod users;

pub use users::mount_users;

use crate::exit::{CliError, CliResult, Exit, OrCliError};
use crate::store_dir::{Lock, StoreDir};
use gupfs_fuse::mountinfo::{self, MountEntry};
use gupfs_fuse::mountpoint::detach;
use gupfs_platform::Platform;
use rustix::io::Errno;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a look at a mount waits for the process that serves it.
const LOOK_TIMEOUT: Duration = Duration::from_secs(2);

/// The file system type of gupfs mounts; `findmnt -t fuse.gupfs` lists them. Their source is the store's directory or the metadata
/// server's address.
pub const FSTYPE: &str = "fuse.gupfs";

/// The mount that contains a path: that with the longest mount point which the path begins with. Never waits for the mount itself.
///
/// # Errors
/// If the list of mounts cannot be read.
pub fn mount_containing(path: &Path) -> CliResult<Option<MountEntry>> {
    let mounts = mountinfo::mounts().or_cli_error(|| "cannot read the list of mounts".into())?;
    Ok(mounts
        .into_iter()
        .enumerate()
        .filter(|(_, mount)| path.starts_with(&mount.path))
        .max_by_key(|(index, mount)| (mount.path.as_os_str().len(), *index))
        .map(|(_, mount)| mount))
}

/// Removes a dead gupfs mount from `point`, checks that it is an empty directory without a mount, and returns its absolute path.
/// `store_dir` is the store to be served, which the caller has locked; None if it does not exist yet.
///
/// # Errors
/// If the directory cannot be a mount point, or the dead mount cannot be removed.
pub fn prepare(point: &Path, store_dir: Option<&StoreDir>) -> CliResult<PathBuf> {
    let unusable = |what: String| CliError::new(what).exit(Exit::Unusable);
    // `canonicalize` would fail on a dead mount; it is enough to resolve the parent directory.
    let point = absolute(point)?;
    let mounted =
        mountinfo::mount_at(&point).or_cli_error(|| "cannot read the list of mounts".into())?;
    if let Some(mount) = mounted {
        remove_if_dead(&mount, store_dir)?;
    }
    let metadata = std::fs::metadata(&point).map_err(|error| {
        unusable(format!("cannot find the mount point '{}'", point.display()))
            .because(&error)
            .todo(format!("create it: mkdir -p '{}'", point.display()))
    })?;
    if !metadata.is_dir() {
        return Err(unusable(format!(
            "the mount point '{}' is not a directory",
            point.display()
        )));
    }
    if let Some(store_dir) = store_dir {
        refuse_nested(&point, store_dir)?;
    }
    let mut entries = std::fs::read_dir(&point).map_err(|error| {
        unusable(format!("cannot list the mount point '{}'", point.display())).because(&error)
    })?;
    if let Some(Ok(first)) = entries.next() {
        return Err(unusable(format!(
            "the mount point '{}' is not empty: it contains '{}', which the mount would hide",
            point.display(),
            first.file_name().to_string_lossy()
        ))
        .todo("give an empty directory"));
    }
    Ok(point)
}

fn absolute(point: &Path) -> CliResult<PathBuf> {
    let resolved = || -> std::io::Result<PathBuf> {
        let whole = std::path::absolute(point)?;
        match (whole.parent(), whole.file_name()) {
            (Some(parent), Some(name)) => Ok(parent.canonicalize()?.join(name)),
            _ => Ok(whole),
        }
    };
    let path = resolved().map_err(|error| {
        CliError::new(format!("cannot find the mount point '{}'", point.display()))
            .because(&error)
            .exit(Exit::Unusable)
    })?;
    // A symbolic link stands for its target. The attributes of a dead mount cannot be read, and it is no symbolic link.
    match std::fs::symlink_metadata(&path) {
        Ok(metadata) if metadata.is_symlink() => Ok(path.canonicalize().unwrap_or(path)),
        _ => Ok(path),
    }
}

fn remove_if_dead(mount: &MountEntry, store_dir: Option<&StoreDir>) -> CliResult<()> {
    let point = mount.path.display();
    let in_use = |by: String| {
        CliError::new(format!("the mount point '{point}' is in use: {by}")).exit(Exit::Unusable)
    };
    if mount.kind != FSTYPE {
        return Err(in_use(format!(
            "{} is mounted there (from '{}')",
            mount.kind, mount.source
        ))
        .todo(format!(
            "unmount it (umount '{point}'), or give another directory"
        )));
    }
    // The lock of its store shows whether the mount is served; a call on the mount itself could wait forever.
    let (served, what) = match StoreDir::at(Path::new(&mount.source)) {
        Ok(source) if store_dir.is_some_and(|dir| dir.root() == source.root()) => (false, ""),
        Ok(source) => (Lock::is_taken(&source)?, "store"),
        Err(_) => (!is_dead(&mount.path), "file system of"),
    };
    if served {
        return Err(in_use(format!(
            "it is the mount of the {what} '{}', which is being served",
            mount.source
        ))
        .todo(format!(
            "stop it with `gupfs stop '{point}'`, or give another directory"
        )));
    }
    tracing::warn!(point = %point, store = %mount.source, "found a mount whose process is dead; removing it");
    detach(&mount.path).map_err(|error| {
        CliError::new(format!("cannot remove the dead mount on '{point}'"))
            .because(&error)
            .todo(format!("as root: umount -l '{point}'"))
    })
}

/// Whether the process that served a mount has ended: the kernel knows it. It is asked on a thread, because it asks a process that lives, and
/// that one may not answer.
fn is_dead(point: &Path) -> bool {
    let (said, answer) = std::sync::mpsc::channel();
    let path = point.to_owned();
    let asked = Platform::real()
        .tasks
        .spawn_thread("look at a mount", move || {
            let _ = said.send(rustix::fs::statfs(&path));
        });
    match asked {
        Ok(_) => matches!(answer.recv_timeout(LOOK_TIMEOUT), Ok(Err(Errno::NOTCONN))),
        Err(_) => false,
    }
}

fn refuse_nested(point: &Path, store_dir: &StoreDir) -> CliResult<()> {
    let root = store_dir.root();
    let how = if point == root {
        "are the same directory"
    } else if point.starts_with(root) {
        "are nested: the mount point is inside the store"
    } else if root.starts_with(point) {
        "are nested: the store is inside the mount point"
    } else {
        return Ok(());
    };
    Err(CliError::new(format!(
        "the store '{}' and the mount point '{}' {how}",
        root.display(),
        point.display()
    ))
    .todo("give two directories of which none contains the other")
    .exit(Exit::Unusable))
}
