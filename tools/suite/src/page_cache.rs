//! What this host's kernel remembers of a file: it would answer without the file system.

use std::fs::File;
use std::io;

use rustix::fs::{Advice, fadvise};

/// Makes the kernel forget all of a file that was written. What is still to be written stays.
pub fn forget(file: &File) -> io::Result<()> {
    Ok(fadvise(file, 0, None, Advice::DontNeed)?)
}
