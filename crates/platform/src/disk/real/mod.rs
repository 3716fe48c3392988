//! Linux: paths are resolved from the root's descriptor, so that the tree can be renamed while it is in use.

mod dirs;
mod file;
mod lock;
mod read;
mod write_back;

pub(crate) use file::RealFile;
pub(crate) use lock::RealLock;

use super::path::check_path;
use super::{DiskError, DiskErrorKind, Result};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

pub(crate) struct RealDisk {
    root: OwnedFd,
    path: PathBuf,
}

impl RealDisk {
    pub fn new(root: &Path) -> Result<RealDisk> {
        let shown = root.display().to_string();
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(root, flags, Mode::empty())
            .map_err(|errno| failed("open the directory", &shown, errno))?;
        let path = std::path::absolute(root)
            .map_err(|error| DiskError::new("name the directory", shown, error))?;
        Ok(RealDisk { root: fd, path })
    }

    pub fn subdirectory(&self, dir: &str) -> Result<RealDisk> {
        check_path(dir);
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let root = rustix::fs::openat(&self.root, dir, flags, Mode::empty())
            .map_err(|errno| failed("open the directory", dir, errno))?;
        Ok(RealDisk {
            root,
            path: self.path.join(dir),
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn failed(op: &'static str, path: &str, errno: Errno) -> DiskError {
    DiskError::new(op, path, errno.into())
}

fn is_missing(error: &DiskError) -> bool {
    error.kind == DiskErrorKind::NotFound
}
