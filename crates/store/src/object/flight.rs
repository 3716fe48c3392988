//! Writes under way in one object, pure: overlapping ones wait for each other, so that bytes and checksums end in the
//! same order; readers learn which of the blocks they read were in motion.

use super::limits::WRITES_REMEMBERED;
use gupfs_proto::limits::CHECKSUM_BLOCK;
use std::collections::VecDeque;
use std::ops::Range;

#[derive(Default)]
pub(super) struct Flight {
    under_way: Vec<Span>,
    begun: u64,
    recent: VecDeque<(u64, Range<u64>)>,
}

/// One change of `range` under way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Span {
    number: u64,
    pub range: Range<u64>,
    /// Another change that covers a part of the same first (last) block was under way beside it.
    pub shared_first: bool,
    pub shared_last: bool,
}

impl Span {
    /// Whether another change was under way in this block, at an end of the range.
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

impl Flight {
    /// Number of a change of `range` that may begin now; None while an overlapping one is under way.
    pub fn begin(&mut self, range: Range<u64>) -> Option<u64> {
        if self
            .under_way
            .iter()
            .any(|span| overlap(&span.range, &range))
        {
            return None;
        }
        self.begun += 1;
        let mut span = Span {
            number: self.begun,
            shared_first: false,
            shared_last: false,
            range: range.clone(),
        };
        // Different bytes of the same block: both go on, neither knows the block's sum afterwards.
        for other in &mut self.under_way {
            if last_block(&other.range) == first_block(&span.range) {
                other.shared_last = true;
                span.shared_first = true;
            }
            if first_block(&other.range) == last_block(&span.range) {
                other.shared_first = true;
                span.shared_last = true;
            }
        }
        self.under_way.push(span);
        if self.recent.len() == WRITES_REMEMBERED {
            self.recent.pop_front();
        }
        self.recent.push_back((self.begun, range));
        Some(self.begun)
    }

    /// As it stands: whether others came to share its edge blocks is known only at its end.
    pub fn span(&self, number: u64) -> &Span {
        self.under_way
            .iter()
            .find(|span| span.number == number)
            .expect("the change is under way")
    }

    pub fn end(&mut self, number: u64) -> Span {
        let index = self
            .under_way
            .iter()
            .position(|span| span.number == number)
            .expect("a change ends once");
        self.under_way.swap_remove(index)
    }

    pub fn is_idle(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Whether one is under way in `range`.
    pub fn is_busy(&self, range: &Range<u64>) -> bool {
        self.under_way
            .iter()
            .any(|span| overlap(&span.range, range))
    }

    /// For `moved_since`: changes from here on are later.
    pub fn now(&self) -> u64 {
        self.begun
    }

    pub fn under_way(&self) -> impl Iterator<Item = &Range<u64>> {
        self.under_way.iter().map(|span| &span.range)
    }

    /// The ranges whose change began after `then`; None if it cannot be told any more, and any may have.
    pub fn moved_since(&self, then: u64) -> Option<impl Iterator<Item = &Range<u64>>> {
        let remembered = self
            .recent
            .front()
            .map_or(self.begun + 1, |(number, _)| *number);
        (remembered <= then + 1).then(|| {
            self.recent
                .iter()
                .filter(move |(number, _)| *number > then)
                .map(|(_, range)| range)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_changes_wait_and_others_do_not() {
        let mut flight = Flight::default();
        let first = flight.begin(0..100).unwrap();
        assert_eq!(flight.begin(99..200), None);
        assert!(flight.begin(8192..9000).is_some());
        flight.end(first);
        assert!(flight.begin(99..200).is_some());
    }

    #[test]
    fn two_changes_in_one_block_both_learn_of_it() {
        let mut flight = Flight::default();
        let first = flight.begin(0..6000).unwrap();
        let second = flight.begin(6000..20_000).unwrap();
        let first = flight.end(first);
        let second = flight.end(second);
        assert_eq!((first.shared_first, first.shared_last), (false, true));
        assert_eq!((second.shared_first, second.shared_last), (true, false));
    }

    #[test]
    fn a_reader_learns_what_moved_while_it_read() {
        let mut flight = Flight::default();
        flight.begin(0..10).unwrap();
        let then = flight.now();
        assert_eq!(flight.moved_since(then).unwrap().count(), 0);
        flight.begin(20..30).unwrap();
        let moved: Vec<_> = flight.moved_since(then).unwrap().cloned().collect();
        assert_eq!(moved, [20..30]);
        for _ in 0..WRITES_REMEMBERED {
            let number = flight.begin(40..50).unwrap();
            flight.end(number);
        }
        assert!(flight.moved_since(then).is_none());
    }
}
