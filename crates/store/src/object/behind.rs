//! Writing behind: which bytes of an object go to the device before anybody asks. Pure.
//!
//! The kernel begins when a tenth of all memory is dirty, or after half a minute: a file that is written in order and synced
//! at its end would keep first the network busy, and then the disk.

use super::limits::BEHIND_STEP;
use std::ops::Range;

/// What was written in order last, and not begun to be written to the device.
#[derive(Clone, Default)]
pub struct Behind {
    run: Range<u64>,
}

impl Behind {
    /// A stretch to begin with, after `range` was written. What is written here and there waits for the kernel.
    pub fn wrote(&mut self, range: &Range<u64>) -> Option<Range<u64>> {
        match range.start == self.run.end {
            true => self.run.end = range.end,
            false => self.run = range.clone(),
        }
        if self.run.end - self.run.start < BEHIND_STEP {
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
    fn what_is_written_in_order_is_begun_in_large_stretches_once() {
        const PART: u64 = BEHIND_STEP / 8;
        let mut behind = Behind::default();
        let mut begun = Vec::new();
        for part in 0..20 {
            begun.extend(behind.wrote(&(part * PART..(part + 1) * PART)));
        }
        assert_eq!(begun, [0..BEHIND_STEP, BEHIND_STEP..2 * BEHIND_STEP]);
        for part in [90, 40, 50, 10, 91, 41] {
            assert_eq!(behind.wrote(&(part * PART..(part + 1) * PART)), None);
        }
    }
}
