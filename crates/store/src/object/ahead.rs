//! Reading ahead: which bytes of an object will be asked for soon. Pure.
//!
//! The kernel reads ahead by itself, as far as the device's `read_ahead_kb` says (128 KiB mostly): too little where one
//! reader waits for disk and network in turn.

use super::limits::{AHEAD_FIRST, AHEAD_MOST, AHEAD_NEAR};
use std::ops::Range;

/// What one reader, or several that go the same way, have read last.
#[derive(Clone, Copy, Default)]
pub struct Ahead {
    /// Where the furthest read of the run ended.
    end: u64,
    /// Up to where is being read already.
    until: u64,
    window: u64,
}

impl Ahead {
    /// What to read now beside `range`, which is read anyway. Reads of a run may come in any order, as parts of one do.
    pub fn next(&mut self, range: &Range<u64>) -> Option<Range<u64>> {
        let is_near = range.start <= self.end + AHEAD_NEAR && range.end + AHEAD_NEAR >= self.end;
        if !is_near {
            *self = Ahead {
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
        // A new stretch when half of the last is used up: there is always some on its way.
        if self.until - self.end > self.window / 2 {
            return None;
        }
        self.window = (self.window * 2).clamp(AHEAD_FIRST, AHEAD_MOST);
        let from = self.until;
        self.until = self.end + self.window;
        Some(from..self.until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PART: u64 = 256 << 10;

    /// Every stretch that is read ahead while `reads` are done.
    fn stretches(reads: impl IntoIterator<Item = u64>) -> Vec<Range<u64>> {
        let mut ahead = Ahead::default();
        let next = |at: u64| ahead.next(&(at * PART..(at + 1) * PART));
        reads.into_iter().filter_map(next).collect()
    }

    #[test]
    fn what_is_read_in_order_is_read_ahead_without_gaps_and_once() {
        for reads in [
            (0..64).collect::<Vec<_>>(),
            (0..64).map(|at| at ^ 3).collect(), // the parts of each request from behind
        ] {
            let found = stretches(reads);
            for pair in found.windows(2) {
                assert_eq!(pair[0].end, pair[1].start);
            }
            let last = found.last().unwrap();
            assert!(last.end > 64 * PART && last.end <= 64 * PART + AHEAD_MOST);
        }
    }

    #[test]
    fn what_is_read_here_and_there_is_not_read_ahead() {
        let far = AHEAD_NEAR / PART + 2;
        assert_eq!(stretches((1..50).map(|n| n * 37 % 50 * far)), []);
        assert_eq!(stretches((0..50).map(|n| 500 - n * far)), []);
    }
}
