//! # mountpoint: what is at a path before and after we are
//!
//! Owns   looking at a mount point, taking a dead mount away.
//! Never  decides if it may be used.
//! Enter  at `inspect`.

use std::io;
use std::path::{Path, PathBuf};

use rustix::mount::{MountPropagationFlags, UnmountFlags, mount_change, unmount};

use crate::mountinfo::{self, MountEntry};

/// What is at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspection {
    /// The path without symbolic links.
    pub path: PathBuf,
    pub found: Found,
    /// What is mounted at exactly this path.
    pub mounted: Option<MountEntry>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    Missing,
    NotADirectory,
    Directory {
        empty: bool,
    },
    /// A FUSE mount whose server is gone: every use says "Transport endpoint is not connected".
    Dead,
}

/// Looks at a path, without changing anything.
pub fn inspect(path: &Path) -> io::Result<Inspection> {
    let path = resolve(path)?;
    let mounted = mountinfo::at(&path)?;
    let found = match std::fs::metadata(&path) {
        Ok(metadata) if metadata.is_dir() => match std::fs::read_dir(&path) {
            Ok(mut entries) => Found::Directory {
                empty: entries.next().is_none(),
            },
            Err(error) if is_dead(&error) => Found::Dead,
            Err(error) => return Err(error),
        },
        Ok(_) => Found::NotADirectory,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Found::Missing,
        Err(error) if is_dead(&error) => Found::Dead,
        Err(error) => return Err(error),
    };
    Ok(Inspection {
        path,
        found,
        mounted,
    })
}

/// The path without symbolic links, also if nothing is there or if what is there is dead.
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

/// Takes the topmost mount at this path out of the tree; programs that use it keep it until they are done.
pub fn detach(path: &Path) -> io::Result<()> {
    match unmount(path, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
        Ok(()) => Ok(()),
        // Whoever mounted through the helper may unmount through it.
        Err(rustix::io::Errno::PERM) => crate::mount::helper_unmount(path, true),
        Err(error) => Err(error.into()),
    }
}

/// Mounts made from here on, by this thread and by those it starts, are seen by nobody else, and go with the last of them.
/// To be called before other threads are started. Needs root.
///
/// The namespace begins with a copy of every mount, and a copy keeps a FUSE connection alive after its server has
/// unmounted it: such copies are let go, but for those that `place` lies on.
pub fn keep_mounts_private(place: &Path) -> io::Result<()> {
    crate::sys::leave_mount_namespace()?;
    // Without this they would spread to where we came from.
    let flags = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", flags)?;
    for mount in mountinfo::mounts()?.into_iter().rev() {
        let is_served = mount.kind == "fuse" || mount.kind.starts_with("fuse.");
        if is_served && !place.starts_with(&mount.path) {
            // One that is covered by another mount cannot be named, and stays.
            let _ = unmount(&mount.path, UnmountFlags::DETACH);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_empty_or_not_and_a_file_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let found = |path: &Path| inspect(path).unwrap().found;
        assert_eq!(found(dir.path()), Found::Directory { empty: true });
        assert_eq!(found(&dir.path().join("absent")), Found::Missing);
        let file = dir.path().join("file");
        std::fs::write(&file, "x").unwrap();
        assert_eq!(found(&file), Found::NotADirectory);
        assert_eq!(found(dir.path()), Found::Directory { empty: false });
    }

    #[test]
    fn links_are_followed_and_a_mount_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("/proc", &link).unwrap();
        let inspection = inspect(&link).unwrap();
        assert_eq!(inspection.path, Path::new("/proc"));
        assert_eq!(inspection.mounted.unwrap().kind, "proc");
    }
}
