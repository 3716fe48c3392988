//! stat(2) of a file.

use std::ffi::CStr;

use rustix::fs::{AtFlags, CWD, statat};

pub fn stat(name: &CStr) -> rustix::io::Result<()> {
    statat(CWD, name, AtFlags::empty()).map(drop)
}
