//! Early write-back: which bytes of an object go to the device before a sync asks for it. No I/O.
//!
//! The kernel starts write-back when a tenth of all memory is dirty, or after half a minute. A file that is written
//! sequentially and synced at its end would then occupy first the network and only afterwards the disk.

use super::limits::EARLY_WRITE_BACK_STEP;
use std::ops::Range;

/// The last sequentially written range whose write-back has not begun.
#[derive(Clone, Default)]
pub struct EarlyWriteBack {
    run: Range<u64>,
}

impl EarlyWriteBack {
    /// The range whose write-back should begin now that `range` was written. Random writes are left to the kernel.
    pub fn note_write(&mut self, range: &Range<u64>) -> Option<Range<u64>> {
        match range.start == self.run.end {
            true => self.run.end = range.end,
            false => self.run = range.clone(),
        }
        if self.run.end - self.run.start < EARLY_WRITE_BACK_STEP {
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
        const PART: u64 = EARLY_WRITE_BACK_STEP / 8;
        let mut behind = EarlyWriteBack::default();
        let mut begun = Vec::new();
        for part in 0..20 {
            begun.extend(behind.note_write(&(part * PART..(part + 1) * PART)));
        }
        assert_eq!(
            begun,
            [
                0..EARLY_WRITE_BACK_STEP,
                EARLY_WRITE_BACK_STEP..2 * EARLY_WRITE_BACK_STEP
            ]
        );
        for part in [90, 40, 50, 10, 91, 41] {
            assert_eq!(behind.note_write(&(part * PART..(part + 1) * PART)), None);
        }
    }
}
