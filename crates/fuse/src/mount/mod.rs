//! # mount: mounting a device and unmounting it
//!
//! Owns   mount(2) with its options, fusermount3 for users other than root.
//! Never  serves requests.
//! Enter  at `attach`.

mod helper;
mod system;

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::mount::{UnmountFlags, unmount};

use crate::config::MountConfig;
use crate::error::MountError;

pub(crate) use helper::unmount as helper_unmount;

/// Mounts at `path`, which contains no symbolic links; returns the device descriptor of the connection.
pub(crate) fn attach(path: &Path, config: &MountConfig) -> Result<OwnedFd, MountError> {
    match system::mount(path, config) {
        // Not root, or root without CAP_SYS_ADMIN.
        Err(MountError::Mount {
            errno: crate::Errno::EPERM,
            ..
        }) => helper::mount(path, config),
        other => other,
    }
}

/// Unmounts the topmost mount at `path`. EBUSY while a process uses it.
pub(crate) fn release(path: &Path) -> io::Result<()> {
    match unmount(path, UnmountFlags::NOFOLLOW) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::PERM) => helper::unmount(path, false),
        Err(error) => Err(error.into()),
    }
}
