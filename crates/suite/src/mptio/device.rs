//! Block devices: what they want, and whether they are in use.

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::ioctl_blksszget;
use rustix::io::Errno;

use super::regions::{Layout, Place};
use crate::trouble::{Doing, Outcome, Trouble};

/// The largest block of the devices: what records and offsets must be multiples of.
pub fn block(devices: &[PathBuf]) -> Outcome<u64> {
    let mut largest = 1;
    for path in devices {
        let found = std::fs::metadata(path).doing("use the device", path)?;
        if !found.file_type().is_block_device() {
            return Err(Trouble::asked(format!(
                "{} is not a block device; for files give their directory with -d",
                path.display()
            )));
        }
        let device = File::open(path).doing("open", path)?;
        let block = ioctl_blksszget(&device).doing("ask for the block size of", path)?;
        largest = largest.max(u64::from(block));
    }
    Ok(largest)
}

/// Whether nobody else uses the devices, and all regions lie on them.
pub fn check(devices: &[PathBuf], layout: &Layout, i_know: bool) -> Outcome<()> {
    for (index, path) in devices.iter().enumerate() {
        if !i_know {
            check_free(path)?;
        }
        let end = File::open(path).and_then(|mut device| device.seek(SeekFrom::End(0)));
        let size = end.doing("ask for the size of", path)?;
        let wanted = layout.end_of(Place::Device(index));
        if wanted > size {
            return Err(Trouble::asked(format!(
                "{} has {} MB, and this run reaches up to {} MB; choose a smaller -f or -s",
                path.display(),
                size >> 20,
                wanted.div_ceil(1 << 20)
            )));
        }
    }
    Ok(())
}

/// The kernel refuses to open a device exclusively that is mounted, swapped to, or part of another device.
fn check_free(path: &Path) -> Outcome<()> {
    let opened = File::options()
        .read(true)
        .write(true)
        .custom_flags(libc::O_EXCL)
        .open(path);
    match opened {
        Err(error) if Errno::from_io_error(&error) == Some(Errno::BUSY) => {
            Err(Trouble::asked(format!(
                "{} is mounted or held by another device, and this run would destroy what is on it; \
                 unmount it, or say --i-know",
                path.display()
            )))
        }
        opened => opened.doing("open", path).map(drop),
    }
}
