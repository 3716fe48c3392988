//! The counts of one job, with those of the last seconds.

use gupfs_proto::jobs::{CountedUse, JobCounts};

/// A period in which counts are recent: three to six seconds are, the current period and the one before.
pub const PERIOD_NANOS: u64 = 3_000_000_000;

#[derive(Clone, Copy, Default)]
pub struct UseRow {
    total: JobCounts,
    /// The period of the last change.
    period: u64,
    /// `total` when that period began, and when the one before it began.
    at_begin: JobCounts,
    before: JobCounts,
    /// What the metadata server has from this server's reports.
    reported: JobCounts,
}

impl UseRow {
    pub fn add(&mut self, counts: JobCounts, period: u64) {
        self.advance(period);
        self.total += counts;
    }

    fn advance(&mut self, period: u64) {
        match period.saturating_sub(self.period) {
            0 => return,
            1 => self.before = self.at_begin,
            _ => self.before = self.total,
        }
        self.at_begin = self.total;
        self.period = period;
    }

    pub fn counted(&mut self, period: u64) -> CountedUse {
        self.advance(period);
        CountedUse {
            total: self.total,
            recent: self.total.since(&self.before),
        }
    }

    /// Adds all that this row has to another one, which has it reported as far as this one has.
    pub fn merge_into(&mut self, others: &mut UseRow, period: u64) {
        self.advance(period);
        others.advance(period);
        others.total += self.total;
        others.at_begin += self.at_begin;
        others.before += self.before;
        others.reported += self.reported;
    }

    /// What has not been reported; it counts as reported from now on.
    pub fn take_unreported(&mut self) -> JobCounts {
        let counts = self.total.since(&self.reported);
        self.reported = self.total;
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(bytes_read: u64) -> JobCounts {
        JobCounts {
            bytes_read,
            ..JobCounts::default()
        }
    }

    #[test]
    fn recent_is_the_current_period_and_the_one_before() {
        let mut row = UseRow::default();
        row.add(bytes(1), 5);
        row.add(bytes(10), 6);
        row.add(bytes(100), 7);
        let counted = row.counted(7);
        assert_eq!(counted.total.bytes_read, 111);
        assert_eq!(counted.recent.bytes_read, 110);
        assert_eq!(row.counted(8).recent.bytes_read, 100);
        assert_eq!(row.counted(9).recent.bytes_read, 0);
        row.add(bytes(1000), 20);
        assert_eq!(row.counted(20).recent.bytes_read, 1000);
    }

    #[test]
    fn what_was_merged_is_reported_once() {
        let (mut row, mut others) = (UseRow::default(), UseRow::default());
        row.add(bytes(5), 1);
        assert_eq!(row.take_unreported(), bytes(5));
        row.add(bytes(7), 1);
        row.merge_into(&mut others, 2);
        assert_eq!(others.take_unreported(), bytes(7));
        assert_eq!(others.counted(2).total, bytes(12));
        assert_eq!(others.counted(2).recent, bytes(12));
    }
}
