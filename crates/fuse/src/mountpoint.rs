//! # mountpoint: the state of a path before and after a mount
//!
//! Owns   inspecting a mount point, unmounting it, detaching a dead mount.
//! Never  decides whether it may be used.
//! Enter  at `inspect`.

use std::io;
use std::path::{Path, PathBuf};

use rustix::mount::{MountPropagationFlags, UnmountFlags, mount_change, unmount};

use crate::fusermount;
use crate::mountinfo::{self, MountEntry};

/// The state of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspection {
    /// The path without symbolic links.
    pub path: PathBuf,
    pub state: MountpointState,
    /// The mount at exactly this path.
    pub mounted: Option<MountEntry>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MountpointState {
    Missing,
    NotADirectory,
    Directory {
        empty: bool,
    },
    /// A FUSE mount whose server is gone: every use fails with "Transport endpoint is not connected".
    Dead,
}

/// Inspects a path without changing anything.
///
/// # Errors
/// The error of stat(2), opendir(2) or realpath(3), such as EACCES, unless it says that the path is absent or a dead mount; the
/// error of reading the mount table.
pub fn inspect(path: &Path) -> io::Result<Inspection> {
    let path = resolve(path)?;
    let mounted = mountinfo::mount_at(&path)?;
    let found = match std::fs::metadata(&path) {
        Ok(metadata) if metadata.is_dir() => match std::fs::read_dir(&path) {
            Ok(mut entries) => MountpointState::Directory {
                empty: entries.next().is_none(),
            },
            Err(error) if is_dead(&error) => MountpointState::Dead,
            Err(error) => return Err(error),
        },
        Ok(_) => MountpointState::NotADirectory,
        Err(error) if error.kind() == io::ErrorKind::NotFound => MountpointState::Missing,
        Err(error) if is_dead(&error) => MountpointState::Dead,
        Err(error) => return Err(error),
    };
    Ok(Inspection {
        path,
        state: found,
        mounted,
    })
}

/// Resolves symbolic links, also if the path does not exist or is a dead mount.
pub(crate) fn resolve(path: &Path) -> io::Result<PathBuf> {
    match path.canonicalize() {
        Ok(path) => Ok(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound || is_dead(&error) => {
            let absolute = std::path::absolute(path)?;
            match (absolute.parent(), absolute.file_name()) {
                (Some(parent), Some(name)) => Ok(parent.canonicalize()?.join(name)),
                _ => Err(error),
            }
        }
        Err(error) => Err(error),
    }
}

/// ENOTCONN: the server is gone. ECONNABORTED: the connection was aborted.
fn is_dead(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ENOTCONN | libc::ECONNABORTED)
    )
}

/// Unmounts the topmost mount at `path`. EBUSY while a process uses it.
pub(crate) fn release(path: &Path) -> io::Result<()> {
    match unmount(path, UnmountFlags::NOFOLLOW) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::PERM) => fusermount::unmount(path, false),
        Err(error) => Err(error.into()),
    }
}

/// Detaches the topmost mount at this path from the directory tree; programs that use it keep it until they close it.
///
/// # Errors
/// EINVAL if nothing is mounted there; without root the error that fusermount3 reports.
pub fn detach(path: &Path) -> io::Result<()> {
    match unmount(path, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
        Ok(()) => Ok(()),
        // A user who mounted through fusermount3 may unmount through it.
        Err(rustix::io::Errno::PERM) => fusermount::unmount(path, true),
        Err(error) => Err(error.into()),
    }
}

/// Gives the calling thread a working directory of its own: chdir(2) of other threads does not change it.
///
/// # Errors
/// The errno of unshare(2).
pub fn unshare_working_directory() -> io::Result<()> {
    Ok(crate::sys::unshare_working_directory()?)
}

/// Enters a private mount namespace: processes outside it do not see mounts that this thread, or threads that it starts, make
/// from here on, and those mounts end with the last of these threads. Call it before other threads are started. Needs root.
///
/// The new namespace begins with a copy of every mount, and a copy keeps a FUSE connection alive after its server has unmounted
/// it: such copies are detached, except those that contain `mount_directory`.
///
/// # Errors
/// EPERM without CAP_SYS_ADMIN, or the error of reading the mount table.
pub fn enter_private_mount_namespace(mount_directory: &Path) -> io::Result<()> {
    crate::sys::unshare_mount_namespace()?;
    // Otherwise new mounts would propagate to the original namespace.
    let flags = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", flags)?;
    for mount in mountinfo::mounts()?.into_iter().rev() {
        let is_served = mount.kind == "fuse" || mount.kind.starts_with("fuse.");
        if is_served && !mount_directory.starts_with(&mount.path) {
            // A mount that another mount covers cannot be reached by path, and stays.
            let _ = unmount(&mount.path, UnmountFlags::DETACH);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_point_is_an_empty_or_filled_directory_or_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let found = |path: &Path| inspect(path).unwrap().state;
        assert_eq!(
            found(dir.path()),
            MountpointState::Directory { empty: true }
        );
        assert_eq!(found(&dir.path().join("absent")), MountpointState::Missing);
        let file = dir.path().join("file");
        std::fs::write(&file, "x").unwrap();
        assert_eq!(found(&file), MountpointState::NotADirectory);
        assert_eq!(
            found(dir.path()),
            MountpointState::Directory { empty: false }
        );
    }

    #[test]
    fn links_are_followed_and_the_mount_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("/proc", &link).unwrap();
        let inspection = inspect(&link).unwrap();
        assert_eq!(inspection.path, Path::new("/proc"));
        assert_eq!(inspection.mounted.unwrap().kind, "proc");
    }
}
