//! The sysctl that limits the size of requests for all FUSE mounts of the host.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

use rustix::param::page_size;

const SYSCTL: &str = "/proc/sys/fs/fuse/max_pages_limit";

/// The fixed limit of kernels before 6.13.
const BUILT_IN: u16 = 256;

/// Pages of a 1 MiB buffer that does not begin on a page boundary (257 of 4 KiB); with a smaller limit the kernel splits it
/// into two requests.
pub fn wanted() -> u16 {
    let pages = (1 << 20) / page_size() + 1;
    u16::try_from(pages).unwrap_or(BUILT_IN)
}

/// The current limit in pages.
pub fn get() -> u16 {
    std::fs::read_to_string(SYSCTL)
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(BUILT_IN)
}

/// Whether this kernel has the sysctl; kernels before 6.13 do not.
pub fn exists() -> bool {
    Path::new(SYSCTL).exists()
}

/// Whether this process may write it: a container may be forbidden to, for example.
pub fn is_writable() -> bool {
    OpenOptions::new().write(true).open(SYSCTL).is_ok()
}

/// Sets the limit for mounts that any program makes afterwards; needs root.
///
/// # Errors
/// NotFound if this kernel has no such sysctl, PermissionDenied without root, InvalidInput if the kernel refuses the number.
pub fn set(pages: u16) -> io::Result<()> {
    std::fs::write(SYSCTL, pages.to_string())
}

/// Raises the limit to `pages` if it is lower; returns the previous value in that case.
///
/// # Errors
/// As `set`, if the limit is lower.
pub fn raise(pages: u16) -> io::Result<Option<u16>> {
    if !exists() {
        // The sysctl comes with the kernel's FUSE module, which opening the device loads.
        drop(File::open("/dev/fuse"));
    }
    let before = get();
    if before >= pages {
        return Ok(None);
    }
    set(pages)?;
    Ok(Some(before))
}
