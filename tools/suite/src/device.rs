//! Block devices: size, block size, and whether they are in use.

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::ioctl_blksszget;
use rustix::io::Errno;

use crate::error::{ErrorContext, SuiteError, SuiteResult};

/// Bytes of a device, and of its blocks, of which whole ones are moved.
pub fn size_and_block(path: &Path) -> SuiteResult<(u64, u64)> {
    let found = std::fs::metadata(path).doing("use the device", path)?;
    if !found.file_type().is_block_device() {
        return Err(SuiteError::usage(format!(
            "{} is not a block device; for files give their directory with -d",
            path.display()
        )));
    }
    let mut device = File::open(path).doing("open", path)?;
    let block = ioctl_blksszget(&device).doing("ask for the block size of", path)?;
    let size = device.seek(SeekFrom::End(0));
    let size = size.doing("ask for the size of", path)?;
    Ok((size, u64::from(block)))
}

/// The kernel refuses to open a device exclusively that is mounted, swapped to, or part of another device.
pub fn check_free(path: &Path) -> SuiteResult<()> {
    let opened = File::options()
        .read(true)
        .write(true)
        .custom_flags(libc::O_EXCL)
        .open(path);
    match opened {
        Err(error) if Errno::from_io_error(&error) == Some(Errno::BUSY) => {
            Err(SuiteError::usage(format!(
                "{} is mounted or held by another device, and this run would destroy what is on it; \
                 unmount it, or say --i-know",
                path.display()
            )))
        }
        opened => opened.doing("open", path).map(drop),
    }
}
