//! # attach: mounts a new connection
//!
//! Owns   the options of mount(2), and the same options for fusermount3.
//! Never  serves requests.
//! Enter  at `attach`.

mod fusermount_options;
mod system;

use std::os::fd::OwnedFd;
use std::path::Path;

use crate::Errno;
use crate::config::MountConfig;
use crate::error::MountError;
use crate::fusermount;
use fusermount_options::fusermount_options;

/// Mounts at `path`, which contains no symbolic links; returns the device descriptor of the connection.
pub(crate) fn attach(path: &Path, config: &MountConfig) -> Result<OwnedFd, MountError> {
    match system::mount(path, config) {
        // Not root, or root without CAP_SYS_ADMIN.
        Err(MountError::Mount {
            errno: Errno::EPERM,
            ..
        }) => fusermount::mount(path, &fusermount_options(config)),
        other => other,
    }
}
