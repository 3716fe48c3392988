//! The clock of a worker's host against ours.

use crate::history::{Nanos, Record};

/// How far a worker's clock is ahead of ours, and how sure that is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ClockOffset {
    pub ahead: i64,
    pub uncertain: u64,
}

/// A question: when it left, what their clock said, when the answer came.
pub type ClockSample = (Nanos, Nanos, Nanos);

/// Of several questions the quickest tells most: their clock was read somewhere between leaving and coming back.
pub fn offset(asked: &[ClockSample]) -> ClockOffset {
    let quickest = asked.iter().min_by_key(|(left, _, came)| came - left);
    let Some((left, theirs, came)) = quickest else {
        return ClockOffset::default();
    };
    let middle = left + (came - left) / 2;
    ClockOffset {
        ahead: *theirs as i64 - middle as i64,
        uncertain: (came - left).div_ceil(2),
    }
}

/// The offset for a round that began with one offset and ended with the other. The drift between them counts as
/// uncertain.
pub fn during(before: ClockOffset, after: ClockOffset) -> ClockOffset {
    ClockOffset {
        ahead: before.ahead,
        uncertain: before.uncertain.max(after.uncertain) + before.ahead.abs_diff(after.ahead),
    }
}

impl ClockOffset {
    /// A record on our clock: its interval as wide as is not sure.
    pub fn ours(self, record: &mut Record) {
        let ours = |theirs: Nanos| theirs.saturating_add_signed(-self.ahead);
        record.start = ours(record.start).saturating_sub(self.uncertain);
        record.end = record
            .end
            .map(|end| ours(end).saturating_add(self.uncertain));
    }

    pub fn theirs(self, ours: Nanos) -> Nanos {
        ours.saturating_add_signed(self.ahead)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quickest_answer_bounds_the_offset() {
        let ahead = 5_000;
        let asked = [
            (100, 100 + ahead + 900, 2_100),
            (3_000, 3_000 + ahead + 30, 3_040),
        ];
        let found = offset(&asked);
        assert_eq!(found.uncertain, 20);
        assert!(found.ahead.abs_diff(ahead as i64) <= found.uncertain);
    }

    #[test]
    fn a_drift_within_a_round_makes_intervals_wider() {
        let at = |ahead| ClockOffset {
            ahead,
            uncertain: 10,
        };
        assert_eq!(during(at(100), at(70)).uncertain, 40);
    }
}
