//! # mount: putting a device into the tree, and taking it out
//!
//! Owns   mount(2) with its options, fusermount3 for those who are not root.
//! Never  serves requests.
//! Enter  at `attach`.

mod helper;
mod system;

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::mount::{UnmountFlags, unmount};

use crate::config::Config;
use crate::error::MountError;

pub(crate) use helper::unmount as helper_unmount;

/// Mounts at `path`, which has no symbolic links in it; returns the device that serves it.
pub(crate) fn attach(path: &Path, config: &Config) -> Result<OwnedFd, MountError> {
    match system::mount(path, config) {
        // Not root, or root without CAP_SYS_ADMIN.
        Err(MountError::Mount {
            errno: crate::Errno::EPERM,
            ..
        }) => helper::mount(path, config),
        other => other,
    }
}

/// Takes the topmost mount at `path` out of the tree. EBUSY while somebody uses it.
pub(crate) fn release(path: &Path) -> io::Result<()> {
    match unmount(path, UnmountFlags::NOFOLLOW) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::PERM) => helper::unmount(path, false),
        Err(error) => Err(error.into()),
    }
}
