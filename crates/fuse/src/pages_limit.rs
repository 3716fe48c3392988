//! How large a request may be, for all FUSE mounts of the host.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

use rustix::param::page_size;

const KNOB: &str = "/proc/sys/fs/fuse/max_pages_limit";

/// What kernels before 6.13 have built in.
const BUILT_IN: u16 = 256;

/// What 1 MiB of a buffer needs that does not begin on a page (257 of 4 KiB); with fewer the kernel makes two requests of it.
pub fn wanted() -> u16 {
    let pages = (1 << 20) / page_size() + 1;
    u16::try_from(pages).unwrap_or(BUILT_IN)
}

/// In pages.
pub fn get() -> u16 {
    std::fs::read_to_string(KNOB)
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(BUILT_IN)
}

/// Whether this kernel lets it be set at all: those before 6.13 do not.
pub fn can_be_set() -> bool {
    Path::new(KNOB).exists()
}

/// Whether it lets this process: not in a container that has no say in it, for example.
pub fn may_be_set() -> bool {
    OpenOptions::new().write(true).open(KNOB).is_ok()
}

/// Counts for mounts made after it, of every program; needs root.
pub fn set(pages: u16) -> io::Result<()> {
    std::fs::write(KNOB, pages.to_string())
}

/// Sets it where it is less: what it was, if so.
pub fn raise(pages: u16) -> io::Result<Option<u16>> {
    if !can_be_set() {
        // It comes with the kernel's FUSE, which opening the device loads where it is a module.
        drop(File::open("/dev/fuse"));
    }
    let before = get();
    if before >= pages {
        return Ok(None);
    }
    set(pages)?;
    Ok(Some(before))
}
