//! The devices of a run: their block size, and whether the run fits.

use std::path::PathBuf;

use super::regions::{Layout, TargetFile};
use crate::device::{check_free, size_and_block};
use crate::error::{SuiteError, SuiteResult};

/// The largest block of the devices: what records and offsets must be multiples of.
pub fn block(devices: &[PathBuf]) -> SuiteResult<u64> {
    let mut largest = 1;
    for path in devices {
        let (_, block) = size_and_block(path)?;
        largest = largest.max(block);
    }
    Ok(largest)
}

/// Whether no other program uses the devices, and all regions lie on them.
pub fn check(devices: &[PathBuf], layout: &Layout, i_know: bool) -> SuiteResult<()> {
    for (index, path) in devices.iter().enumerate() {
        if !i_know {
            check_free(path)?;
        }
        let (size, _) = size_and_block(path)?;
        let wanted = layout.end_of(TargetFile::Device(index));
        if wanted > size {
            return Err(SuiteError::usage(format!(
                "{} has {} MB, and this run reaches up to {} MB; choose a smaller -f or -s",
                path.display(),
                size >> 20,
                wanted.div_ceil(1 << 20)
            )));
        }
    }
    Ok(())
}
