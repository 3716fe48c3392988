//! In-flight changes of one object, without I/O. Overlapping changes wait for each other, so that bytes and checksums
//! change in the same order. A reader learns which of the blocks that it read were changing.

use super::limits::CHANGES_REMEMBERED;
use gupfs_proto::limits::CHECKSUM_BLOCK;
use std::collections::VecDeque;
use std::ops::Range;

#[derive(Default)]
pub(super) struct InFlightChanges {
    active: Vec<InFlightChange>,
    /// Ranges in which no change may begin, although their bytes do not change for readers.
    closed: Vec<Range<u64>>,
    last_begun: u64,
    recent: VecDeque<(u64, Range<u64>)>,
}

/// One in-flight change of `range`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct InFlightChange {
    number: u64,
    pub range: Range<u64>,
    /// Another change of a part of the same first (last) block was in flight at the same time.
    pub shared_first: bool,
    pub shared_last: bool,
}

impl InFlightChange {
    /// Whether another change was in flight in this block, which is at an end of the range.
    pub fn shares(&self, block: u64) -> bool {
        (self.shared_first && block == first_block(&self.range))
            || (self.shared_last && block == last_block(&self.range))
    }
}

fn overlap(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start < b.end && b.start < a.end
}

fn first_block(range: &Range<u64>) -> u64 {
    range.start / CHECKSUM_BLOCK
}

fn last_block(range: &Range<u64>) -> u64 {
    range.end.saturating_sub(1) / CHECKSUM_BLOCK
}

impl InFlightChanges {
    /// Begins a change of `range` and returns its number; None while an overlapping change is in flight.
    pub fn begin(&mut self, range: Range<u64>) -> Option<u64> {
        if self.is_busy(&range) {
            return None;
        }
        self.last_begun += 1;
        let mut span = InFlightChange {
            number: self.last_begun,
            shared_first: false,
            shared_last: false,
            range: range.clone(),
        };
        // The two change different bytes of the same block: both proceed, and neither knows the block's checksum
        // afterwards.
        for other in &mut self.active {
            if last_block(&other.range) == first_block(&span.range) {
                other.shared_last = true;
                span.shared_first = true;
            }
            if first_block(&other.range) == last_block(&span.range) {
                other.shared_first = true;
                span.shared_last = true;
            }
        }
        self.active.push(span);
        if self.recent.len() == CHANGES_REMEMBERED {
            self.recent.pop_front();
        }
        self.recent.push_back((self.last_begun, range));
        Some(self.last_begun)
    }

    /// The change as it is now. Whether other changes share its edge blocks is final only at its end.
    pub fn span(&self, number: u64) -> &InFlightChange {
        self.active
            .iter()
            .find(|span| span.number == number)
            .expect("the change is in flight")
    }

    pub fn end(&mut self, number: u64) -> InFlightChange {
        let index = self
            .active
            .iter()
            .position(|span| span.number == number)
            .expect("a change ends once");
        self.active.swap_remove(index)
    }

    /// Keeps changes from beginning in `range` until `open`; false while one is in flight there.
    pub fn close(&mut self, range: &Range<u64>) -> bool {
        let is_free = !self.is_busy(range);
        if is_free {
            self.closed.push(range.clone());
        }
        is_free
    }

    pub fn open(&mut self, range: &Range<u64>) {
        let index = self.closed.iter().position(|closed| closed == range);
        self.closed.swap_remove(index.expect("the range is closed"));
    }

    pub fn is_idle(&self) -> bool {
        self.active.is_empty() && self.closed.is_empty()
    }

    /// Whether a change of a part of `range` is in flight, or a part of it is closed.
    pub fn is_busy(&self, range: &Range<u64>) -> bool {
        let active = self.active.iter().map(|span| &span.range);
        active.chain(&self.closed).any(|busy| overlap(busy, range))
    }

    /// The number of the last change that began, for `changed_since`.
    pub fn last_begun(&self) -> u64 {
        self.last_begun
    }

    pub fn active_ranges(&self) -> impl Iterator<Item = &Range<u64>> {
        self.active.iter().map(|span| &span.range)
    }

    /// The ranges whose change began after change `last_change`; None if some of them are no longer remembered, so that
    /// any range may have changed.
    pub fn changed_since(&self, last_change: u64) -> Option<impl Iterator<Item = &Range<u64>>> {
        let remembered = self
            .recent
            .front()
            .map_or(self.last_begun + 1, |(number, _)| *number);
        (remembered <= last_change + 1).then(|| {
            self.recent
                .iter()
                .filter(move |(number, _)| *number > last_change)
                .map(|(_, range)| range)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_overlapping_changes_wait() {
        let mut flight = InFlightChanges::default();
        let first = flight.begin(0..100).unwrap();
        assert_eq!(flight.begin(99..200), None);
        assert!(flight.begin(8192..9000).is_some());
        flight.end(first);
        assert!(flight.begin(99..200).is_some());
    }

    #[test]
    fn no_change_begins_in_a_closed_range_and_readers_do_not_notice_it() {
        let mut flight = InFlightChanges::default();
        let first = flight.begin(0..100).unwrap();
        assert!(!flight.close(&(0..4096)));
        flight.end(first);
        assert!(flight.close(&(0..4096)) && !flight.close(&(0..1)));
        assert!(flight.begin(4000..5000).is_none() && !flight.is_idle());
        assert_eq!(flight.active_ranges().count(), 0);
        flight.open(&(0..4096));
        assert!(flight.is_idle() && flight.begin(4000..5000).is_some());
    }

    #[test]
    fn two_changes_of_one_block_are_both_marked_as_sharing_it() {
        let mut flight = InFlightChanges::default();
        let first = flight.begin(0..6000).unwrap();
        let second = flight.begin(6000..20_000).unwrap();
        let first = flight.end(first);
        let second = flight.end(second);
        assert_eq!((first.shared_first, first.shared_last), (false, true));
        assert_eq!((second.shared_first, second.shared_last), (true, false));
    }

    #[test]
    fn a_reader_learns_which_ranges_changed_while_it_read() {
        let mut flight = InFlightChanges::default();
        flight.begin(0..10).unwrap();
        let last_change = flight.last_begun();
        assert_eq!(flight.changed_since(last_change).unwrap().count(), 0);
        flight.begin(20..30).unwrap();
        let changed: Vec<_> = flight
            .changed_since(last_change)
            .unwrap()
            .cloned()
            .collect();
        assert_eq!(changed, [20..30]);
        for _ in 0..CHANGES_REMEMBERED {
            let number = flight.begin(40..50).unwrap();
            flight.end(number);
        }
        assert!(flight.changed_since(last_change).is_none());
    }
}
