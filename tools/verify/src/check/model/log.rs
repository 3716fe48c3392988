//! A file of whole records that is only appended to, and emptied.
//!
//! The place of a record is known from the workers that read it: with that an append fits one state alone, and the search need not try all
//! orders.

use crate::check::Map;
use crate::check::search::Spec;

/// Positions of records, from the reads of the whole history.
pub struct Log {
    pub position: Map<u64, usize>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    Append(u64),
    Empty,
    Is(Vec<u64>),
    Records(usize),
}

impl Log {
    /// As these acts tell it.
    pub fn of<'a>(acts: impl Iterator<Item = &'a Act>) -> Log {
        let mut position: Map<u64, usize> = Map::default();
        for act in acts {
            if let Act::Is(tags) = act {
                for (at, tag) in tags.iter().enumerate() {
                    position.entry(*tag).or_insert(at);
                }
            }
        }
        Log { position }
    }
}

impl Spec for Log {
    type State = Vec<u64>;
    type Act = Act;

    fn step(&self, records: &Vec<u64>, act: &Act) -> Option<Vec<u64>> {
        match act {
            Act::Append(tag) => match self.position.get(tag) {
                Some(position) if *position != records.len() => None,
                Some(_) => Some(records.iter().chain([tag]).copied().collect()),
                // No worker ever read it: such records are all alike.
                None => Some(records.iter().chain([&0]).copied().collect()),
            },
            Act::Empty => Some(Vec::new()),
            Act::Is(seen) => (seen == records).then(Vec::new),
            Act::Records(count) => (*count == records.len()).then(Vec::new),
        }
    }

    fn reads(&self, act: &Act) -> bool {
        matches!(act, Act::Is(_) | Act::Records(_))
    }

    fn mask(&self, _: &Act) -> u32 {
        1
    }

    fn known_by<'a>(&self, acts: impl Iterator<Item = &'a Act>) -> Option<Log> {
        Some(Log::of(acts))
    }
}
