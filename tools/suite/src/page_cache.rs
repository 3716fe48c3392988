//! The pages that this host's kernel has of a file: reads of them do not reach the file system.

use std::fs::File;
use std::io;

use rustix::fs::{Advice, fadvise};

/// Makes the kernel drop all clean pages of a file. Dirty pages stay.
pub fn forget(file: &File) -> io::Result<()> {
    Ok(fadvise(file, 0, None, Advice::DontNeed)?)
}
