//! Opening a file to append, writing, and closing.

use std::ffi::CStr;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::write;

pub fn append(name: &CStr, mut bytes: &[u8]) -> rustix::io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CLOEXEC;
    let file = openat(CWD, name, flags, Mode::empty())?;
    while !bytes.is_empty() {
        let written = write(&file, bytes)?;
        bytes = &bytes[written..];
    }
    Ok(())
}
