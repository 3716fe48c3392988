//! An index of intervals: which of them overlap another one.

use super::{Ended, ended};
use crate::history::Record;

/// Things with the time they took, found by time.
pub struct IntervalIndex<T> {
    /// Begin, end, what; by begin.
    all: Vec<(u64, u64, T)>,
    /// The latest end up to here.
    latest: Vec<u64>,
}

impl<T> IntervalIndex<T> {
    /// Of each record that is a thing. One that may happen later lasts for ever.
    pub fn of<'a>(
        records: impl Iterator<Item = &'a Record>,
        thing: impl Fn(&Record) -> Option<T>,
    ) -> IntervalIndex<T> {
        let mut all: Vec<(u64, u64, T)> = records
            .filter_map(|record| {
                let end = match ended(record) {
                    Ended::Answered => record.end_or_never(),
                    Ended::Unknown => u64::MAX,
                    Ended::Refused(_) | Ended::Unsupported => return None,
                };
                Some((record.start, end, thing(record)?))
            })
            .collect();
        all.sort_by_key(|(start, end, _)| (*start, *end));
        let mut last = 0;
        let latest = all
            .iter()
            .map(|(_, end, _)| {
                last = last.max(*end);
                last
            })
            .collect();
        IntervalIndex { all, latest }
    }

    /// Those that went on at some moment of the record.
    pub fn beside(&self, record: &Record) -> impl Iterator<Item = &T> {
        let (start, end) = (record.start, record.end_or_never());
        let last = self.all.partition_point(|(begin, ..)| *begin <= end);
        (0..last)
            .rev()
            .take_while(move |at| self.latest[*at] >= start)
            .filter(move |at| self.all[*at].1 >= start)
            .map(|at| &self.all[at].2)
    }
}
