//! Read-ahead: predicts which bytes of an object a client will read soon. No I/O.
//!
//! The kernel reads ahead by itself, up to the device's `read_ahead_kb` (usually 128 KiB). That is too little for a
//! single reader that waits for disk and network in turn.

use super::limits::{READ_AHEAD_FIRST, READ_AHEAD_MAX, READ_AHEAD_NEAR};
use std::ops::Range;

/// State of one sequential reader, or of several that read the same range.
#[derive(Clone, Copy, Default)]
pub struct ReadAhead {
    /// End of the furthest read of the sequential run.
    end: u64,
    /// End of the range that is already being read ahead.
    until: u64,
    window: u64,
}

impl ReadAhead {
    /// The range to read ahead beside `range`, which the caller reads itself. Reads of a run may come in any order, as
    /// the parts of one request do.
    pub fn next(&mut self, range: &Range<u64>) -> Option<Range<u64>> {
        let is_near =
            range.start <= self.end + READ_AHEAD_NEAR && range.end + READ_AHEAD_NEAR >= self.end;
        if !is_near {
            *self = ReadAhead {
                end: range.end,
                until: range.end,
                window: 0,
            };
            return None;
        }
        if range.end <= self.end {
            return None;
        }
        self.end = range.end;
        self.until = self.until.max(self.end);
        // Starts another read-ahead when half of the last one is consumed, so that some is always in flight.
        if self.until - self.end > self.window / 2 {
            return None;
        }
        self.window = (self.window * 2).clamp(READ_AHEAD_FIRST, READ_AHEAD_MAX);
        let from = self.until;
        self.until = self.end + self.window;
        Some(from..self.until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PART: u64 = 256 << 10;

    /// Every range that is read ahead during `reads`.
    fn stretches(reads: impl IntoIterator<Item = u64>) -> Vec<Range<u64>> {
        let mut ahead = ReadAhead::default();
        let next = |at: u64| ahead.next(&(at * PART..(at + 1) * PART));
        reads.into_iter().filter_map(next).collect()
    }

    #[test]
    fn sequential_reads_are_read_ahead_once_and_without_gaps() {
        for reads in [
            (0..64).collect::<Vec<_>>(),
            (0..64).map(|at| at ^ 3).collect(), // the parts of each request in reverse order
        ] {
            let found = stretches(reads);
            for pair in found.windows(2) {
                assert_eq!(pair[0].end, pair[1].start);
            }
            let last = found.last().unwrap();
            assert!(last.end > 64 * PART && last.end <= 64 * PART + READ_AHEAD_MAX);
        }
    }

    #[test]
    fn random_reads_are_not_read_ahead() {
        let far = READ_AHEAD_NEAR / PART + 2;
        assert_eq!(stretches((1..50).map(|n| n * 37 % 50 * far)), []);
        assert_eq!(stretches((0..50).map(|n| 500 - n * far)), []);
    }
}
