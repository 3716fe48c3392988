//! A part of a history: one piece of state and the acts on it.

use super::search::{Bound, SearchResult, Spec, Timed, search};
use super::{Finding, shrink};

/// Why a part does not agree.
#[derive(Clone, Debug, PartialEq)]
pub enum PartError {
    Found(Finding),
    Undecided {
        /// How many records it is made of.
        records: usize,
    },
}

/// Anything that can be judged alone.
pub trait HistoryPart {
    /// # Errors
    /// `Found` with the records that no order explains; `Undecided` if the search exceeded the bound.
    fn judge(&self, bound: Bound) -> Result<(), PartError>;
}

/// Acts on one piece of state.
pub struct StatePart<S: Spec> {
    pub about: String,
    pub spec: S,
    pub initial: S::State,
    pub acts: Vec<Timed<S::Act>>,
}

impl<S: Spec> HistoryPart for StatePart<S>
where
    S::Act: Clone,
    S::State: std::fmt::Debug,
{
    fn judge(&self, bound: Bound) -> Result<(), PartError> {
        match search(&self.spec, self.initial.clone(), &self.acts, bound) {
            SearchResult::Agrees => Ok(()),
            SearchResult::Undecided { .. } => Err(PartError::Undecided {
                records: self.acts.len(),
            }),
            SearchResult::Disagrees { act } => {
                let small = shrink::shrink(&self.spec, &self.initial, &self.acts, act);
                let mut records: Vec<usize> = small.acts.iter().map(|act| act.record).collect();
                records.sort_unstable();
                records.dedup();
                Err(PartError::Found(Finding {
                    about: self.about.clone(),
                    fails: self.acts[act].record,
                    records,
                    before: match small.begins_later {
                        true => format!("{:?}", small.initial),
                        false => String::new(),
                    },
                }))
            }
        }
    }
}

/// An answer that nothing can explain, whatever else happened.
pub struct ImpossibleAnswer {
    pub about: String,
    pub record: usize,
}

impl HistoryPart for ImpossibleAnswer {
    fn judge(&self, _: Bound) -> Result<(), PartError> {
        Err(PartError::Found(Finding {
            about: self.about.clone(),
            fails: self.record,
            records: vec![self.record],
            before: String::new(),
        }))
    }
}
