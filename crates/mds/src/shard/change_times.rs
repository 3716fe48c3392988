//! When the changes that a power loss may still undo were made.
//!
//! A request that arrives again gets the time of its change with the reply: its client would replay the change with that time.

use gupfs_proto::{Seq, Timestamp};
use std::collections::BTreeMap;

#[derive(Default)]
pub struct ChangeTimes(BTreeMap<Seq, Timestamp>);

impl ChangeTimes {
    /// The batch `seq` is staged; everything up to `durable` survives a power loss, so no client replays it.
    pub fn note(&mut self, seq: Seq, at: Timestamp, durable: Seq) {
        self.0 = self.0.split_off(&Seq(durable.0 + 1));
        self.0.insert(seq, at);
    }

    /// None for a change that is durable, or that an earlier start of the server made.
    pub fn of(&self, seq: Seq) -> Option<Timestamp> {
        self.0.get(&seq).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_times_of_durable_changes_are_forgotten() {
        let mut times = ChangeTimes::default();
        let at = |seconds| Timestamp::new(seconds, 0);
        times.note(Seq(3), at(30), Seq(1));
        times.note(Seq(4), at(40), Seq(2));
        assert_eq!(
            (times.of(Seq(3)), times.of(Seq(4))),
            (Some(at(30)), Some(at(40)))
        );
        times.note(Seq(6), at(60), Seq(3));
        assert_eq!((times.of(Seq(3)), times.of(Seq(4))), (None, Some(at(40))));
    }
}
