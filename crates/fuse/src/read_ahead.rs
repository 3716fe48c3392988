//! How far the kernel reads ahead in a mount.

use std::io;
use std::path::PathBuf;

use crate::mountinfo::DeviceNumber;

fn knob(device: DeviceNumber) -> PathBuf {
    PathBuf::from(format!(
        "/sys/class/bdi/{}:{}/read_ahead_kb",
        device.major, device.minor
    ))
}

/// In KiB. INIT can only lower it from the default of 128; this raises it too, and needs root.
pub fn set(device: DeviceNumber, kib: u32) -> io::Result<()> {
    std::fs::write(knob(device), kib.to_string())
}

/// In KiB.
pub fn get(device: DeviceNumber) -> io::Result<u32> {
    std::fs::read_to_string(knob(device))?
        .trim()
        .parse()
        .map_err(io::Error::other)
}
