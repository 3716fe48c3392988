//! The kernel's read-ahead of a mount.

use std::io;
use std::path::PathBuf;

use crate::mountinfo::DeviceNumber;

fn sysfs_path(device: DeviceNumber) -> PathBuf {
    PathBuf::from(format!(
        "/sys/class/bdi/{}:{}/read_ahead_kb",
        device.major, device.minor
    ))
}

/// Sets it, in KiB. INIT can only lower it from the default of 128; this can also raise it, and needs root.
///
/// # Errors
/// NotFound if no such device is mounted, PermissionDenied without root.
pub fn set(device: DeviceNumber, kib: u32) -> io::Result<()> {
    std::fs::write(sysfs_path(device), kib.to_string())
}

/// The current read-ahead in KiB.
///
/// # Errors
/// NotFound if no such device is mounted.
pub fn get(device: DeviceNumber) -> io::Result<u32> {
    std::fs::read_to_string(sysfs_path(device))?
        .trim()
        .parse()
        .map_err(io::Error::other)
}
