//! # mountpoint: the directory on which the file system appears
//!
//! Owns   the decision whether a directory can be mounted on, the removal of a dead mount, who keeps a mount busy.
//! Never  mounts.
//! Enter  at `prepare`.

mod holders;

pub use holders::holders;

use crate::exit::{CliError, CliResult, Exit, OrCliError};
use crate::store_dir::{Lock, StoreDir};
use gupfs_fuse::mountinfo::{self, MountEntry};
use gupfs_fuse::mountpoint::detach;
use std::path::{Path, PathBuf};

/// What the kernel calls our mounts; `findmnt -t fuse.gupfs` lists them. Their source is the store's directory.
pub const FSTYPE: &str = "fuse.gupfs";

/// The mount that a path lies on: the longest mount point that it begins with. The mount itself is not asked.
pub fn mount_containing(path: &Path) -> CliResult<Option<MountEntry>> {
    let mounts = mountinfo::mounts().or_cli_error(|| "cannot read the table of mounts".into())?;
    Ok(mounts
        .into_iter()
        .enumerate()
        .filter(|(_, mount)| path.starts_with(&mount.path))
        .max_by_key(|(index, mount)| (mount.path.as_os_str().len(), *index))
        .map(|(_, mount)| mount))
}

/// Sees to it that `point` is an empty directory that nothing is mounted on, and gives its absolute path. A mount of
/// ours whose process is dead is taken away first. `store_dir` is the store to be served, locked by the caller; None if
/// it does not exist yet.
pub fn prepare(point: &Path, store_dir: Option<&StoreDir>) -> CliResult<PathBuf> {
    let unusable = |what: String| CliError::new(what).exit(Exit::Unusable);
    // Not canonicalize on the point itself: on a dead mount that fails. Its parent and name are what counts.
    let point = absolute(point)?;
    let mounted =
        mountinfo::mount_at(&point).or_cli_error(|| "cannot read the table of mounts".into())?;
    if let Some(mount) = mounted {
        remove_if_dead(&mount, store_dir)?;
    }
    let found = std::fs::metadata(&point).map_err(|error| {
        unusable(format!("cannot find the mount point '{}'", point.display()))
            .because(&error)
            .todo(format!("make it: mkdir -p '{}'", point.display()))
    })?;
    if !found.is_dir() {
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
            "the mount point '{}' is not empty: '{}' is in it, and a mount would hide it",
            point.display(),
            first.file_name().to_string_lossy()
        ))
        .todo("give an empty directory"));
    }
    Ok(point)
}

fn absolute(point: &Path) -> CliResult<PathBuf> {
    let found = || -> std::io::Result<PathBuf> {
        let whole = std::path::absolute(point)?;
        match (whole.parent(), whole.file_name()) {
            (Some(parent), Some(name)) => Ok(parent.canonicalize()?.join(name)),
            _ => Ok(whole),
        }
    };
    let place = found().map_err(|error| {
        CliError::new(format!("cannot find the mount point '{}'", point.display()))
            .because(&error)
            .exit(Exit::Unusable)
    })?;
    // A symbolic link as mount point: what it points to counts. A dead mount cannot be asked, and is no link.
    match std::fs::symlink_metadata(&place) {
        Ok(found) if found.is_symlink() => Ok(place.canonicalize().unwrap_or(place)),
        _ => Ok(place),
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
    // Whether a mount of ours is alive shows in its store's lock. Asking the mount itself could wait for ever.
    let served = match StoreDir::at(Path::new(&mount.source)) {
        Ok(its) if store_dir.is_some_and(|store_dir| store_dir.root() == its.root()) => false,
        Ok(its) => Lock::is_taken(&its)?,
        Err(_) => false,
    };
    if served {
        return Err(
            in_use(format!("gupfs serves '{}' there", mount.source)).todo(format!(
                "stop it with `gupfs stop '{}'`, or give another directory",
                mount.source
            )),
        );
    }
    tracing::warn!(point = %point, store = %mount.source, "a mount whose process is dead was left here; taking it away");
    detach(&mount.path).map_err(|error| {
        CliError::new(format!("cannot take away the dead mount on '{point}'"))
            .because(&error)
            .todo(format!("as root: umount -l '{point}'"))
    })
}

fn refuse_nested(point: &Path, store_dir: &StoreDir) -> CliResult<()> {
    let root = store_dir.root();
    let how = if point == root {
        "are the same directory"
    } else if point.starts_with(root) {
        "lie in one another: the mount point is inside the store"
    } else if root.starts_with(point) {
        "lie in one another: the store is inside the mount point"
    } else {
        return Ok(());
    };
    Err(CliError::new(format!(
        "the store '{}' and the mount point '{}' {how}",
        root.display(),
        point.display()
    ))
    .todo("give two directories beside each other")
    .exit(Exit::Unusable))
}
