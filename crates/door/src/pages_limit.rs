//! How large a request may be, for all FUSE mounts of the host.

use std::io;

const KNOB: &str = "/proc/sys/fs/fuse/max_pages_limit";

/// What kernels before 6.13 have built in.
const BUILT_IN: u16 = 256;

/// In pages. A write of 1 MiB from a buffer that does not begin on a page needs 257; with fewer the kernel makes two
/// requests of it.
pub fn get() -> u16 {
    std::fs::read_to_string(KNOB)
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(BUILT_IN)
}

/// Counts for mounts made after it, of every program; needs root.
pub fn set(pages: u16) -> io::Result<()> {
    std::fs::write(KNOB, pages.to_string())
}
