//! The empty directory that a check works in, made before it and swept after it.

use crate::outcome::{Answer, Outcome, skipped};
use crate::sys::{self, DT_DIR, Fd, O_DIRECTORY, O_NOFOLLOW, O_RDONLY, geteuid};

/// The empty directory that a check works in: its working directory.
pub struct TestDirectory {
    // Only a run makes test directories: a check outside of one would work in a user's directory.
    _private: (),
}

impl TestDirectory {
    pub(crate) fn new() -> TestDirectory {
        TestDirectory { _private: () }
    }

    /// Go on only as root.
    ///
    /// # Errors
    ///
    /// The user is not root: the check is skipped.
    pub fn needs_root(&self) -> Outcome {
        match geteuid() {
            0 => Ok(()),
            _ => skipped("needs root"),
        }
    }
}

/// Make the directory `name` below `base` and enter it with the calling thread, which must have its own working
/// directory.
pub(crate) fn enter(base: &Fd, name: &str) -> Answer {
    sys::mkdirat(base, name, 0o777)?;
    let room = sys::openat(base, name, O_RDONLY | O_DIRECTORY, 0)?;
    sys::fchdir(&room)
}

/// Leave for `base` and remove `name` with all that is in it.
pub(crate) fn sweep(base: &Fd, name: &str) -> Answer {
    sys::fchdir(base)?;
    sweep_below(name.as_bytes())?;
    sys::rmdir(name)
}

/// Empties a directory by walking with the working directory, so that a deep tree needs neither descriptors nor long
/// paths.
fn sweep_below(name: &[u8]) -> Answer {
    sys::chdir(name).or_else(|_| {
        // A check of permissions may have left it closed to its owner.
        sys::chmod(name, 0o700)?;
        sys::chdir(name)
    })?;
    for entry in names_here()? {
        if entry.kind != DT_DIR && sys::unlink(&entry.name).is_ok() {
            continue;
        }
        // A name that would not go may be a directory whose type the file system did not tell.
        sweep_below(&entry.name)?;
        sys::rmdir(&entry.name)?;
    }
    sys::chdir("..")
}

/// All names of the working directory except "." and "..".
fn names_here() -> Answer<Vec<sys::Entry>> {
    const ROOM: usize = 256 * 1024;
    if sys::lstat(".")?.mode & 0o700 != 0o700 {
        sys::chmod(".", 0o700)?;
    }
    let here = sys::open(".", O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0)?;
    let mut all = Vec::new();
    loop {
        let some = sys::getdents(&here, ROOM)?;
        if some.is_empty() {
            return Ok(all);
        }
        all.extend(
            some.into_iter()
                .filter(|entry| entry.name != b"." && entry.name != b".."),
        );
    }
}
