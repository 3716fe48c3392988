//! Checks the free space before the first file is written.

use std::path::Path;

use rustix::fs::statvfs;

use crate::error::{ErrorContext, SuiteError, SuiteResult};

/// A directory whose file system has room for so many bytes.
pub fn check(dir: &Path, bytes: u64) -> SuiteResult<()> {
    let found = std::fs::metadata(dir).doing("use the directory", dir)?;
    if !found.is_dir() {
        return Err(SuiteError::usage(format!(
            "{} is not a directory",
            dir.display()
        )));
    }
    let free = free(dir)?;
    if bytes > free {
        return Err(SuiteError::failed(format!(
            "{} has {} MB free, and this run writes {} MB; choose a smaller size or another directory",
            dir.display(),
            free >> 20,
            bytes.div_ceil(1 << 20),
        )));
    }
    Ok(())
}

/// Bytes that a directory's file system has for us.
pub fn free(dir: &Path) -> SuiteResult<u64> {
    let room = statvfs(dir).doing("ask for the free space of", dir)?;
    Ok(room.f_bavail.saturating_mul(room.f_frsize))
}
