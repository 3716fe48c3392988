//! Creating empty files: open with O_CREAT and O_EXCL, and close.

use rustix::fs::{CWD, Mode, OFlags, openat};

use crate::latency::Laps;
use crate::metabench::files::Name;

/// Creates a process's files `from..to` in the current directory.
pub fn create(process: usize, from: u64, to: u64, laps: &mut Laps) -> rustix::io::Result<()> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    for index in from..to {
        let name = Name::new(process, index);
        drop(openat(CWD, name.as_c_str(), flags, Mode::from(0o644))?);
        laps.lap();
    }
    Ok(())
}
