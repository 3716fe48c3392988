//! Write-behind: which bytes of an object go to the device before a sync asks for it. No I/O.
//!
//! The kernel starts write-back when a tenth of all memory is dirty, or after half a minute. A file that is written
//! sequentially and synced at its end would then occupy first the network and only afterwards the disk.

use super::limits::WRITE_BEHIND_STEP;
use std::ops::Range;

/// The last sequentially written range whose write-back has not begun.
#[derive(Clone, Default)]
pub struct WriteBehind {
    run: Range<u64>,
}

impl WriteBehind {
    /// The range whose write-back should begin now that `range` was written. Random writes are left to the kernel.
    pub fn note_write(&mut self, range: &Range<u64>) -> Option<Range<u64>> {
        match range.start == self.run.end {
            true => self.run.end = range.end,
            false => self.run = range.clone(),
        }
        if self.run.end - self.run.start < WRITE_BEHIND_STEP {
            return None;
        }
        let stretch = self.run.clone();
        self.run.start = stretch.end;
        Some(stretch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequential_writes_begin_write_back_once_in_large_ranges() {
        const PART: u64 = WRITE_BEHIND_STEP / 8;
        let mut behind = WriteBehind::default();
        let mut begun = Vec::new();
        for part in 0..20 {
            begun.extend(behind.note_write(&(part * PART..(part + 1) * PART)));
        }
        assert_eq!(
            begun,
            [
                0..WRITE_BEHIND_STEP,
                WRITE_BEHIND_STEP..2 * WRITE_BEHIND_STEP
            ]
        );
        for part in [90, 40, 50, 10, 91, 41] {
            assert_eq!(behind.note_write(&(part * PART..(part + 1) * PART)), None);
        }
    }
}
