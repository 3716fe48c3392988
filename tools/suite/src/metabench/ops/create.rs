//! Creating empty files: open with O_CREAT and O_EXCL, and close.

use std::ops::Range;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, openat};

use crate::error::{ErrorContext, SuiteResult};
use crate::latency::Laps;
use crate::metabench::files::Name;

/// Creates a process's files `range` in the current directory, which lies below the top.
pub fn create(process: usize, range: Range<u64>, top: &Path, laps: &mut Laps) -> SuiteResult<()> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    for index in range {
        let name = Name::new(process, index);
        let made = openat(CWD, name.as_c_str(), flags, Mode::from(0o644));
        drop(made.doing("create a file in", top)?);
        laps.lap()?;
    }
    Ok(())
}
