//! A part of a history: one piece of state and the acts on it.

use super::search::{Bound, Found, Spec, Timed, search};
use super::{Finding, shrink};

/// Why a part does not agree.
#[derive(Clone, Debug, PartialEq)]
pub enum Trouble {
    Found(Finding),
    Undecided {
        /// How many records it is made of.
        records: usize,
    },
}

/// Anything that can be judged alone.
pub trait Part {
    fn judge(&self, bound: Bound) -> Result<(), Trouble>;
}

/// Acts on one piece of state.
pub struct Piece<S: Spec> {
    pub about: String,
    pub spec: S,
    pub initial: S::State,
    pub acts: Vec<Timed<S::Act>>,
}

impl<S: Spec> Part for Piece<S>
where
    S::Act: Clone,
    S::State: std::fmt::Debug,
{
    fn judge(&self, bound: Bound) -> Result<(), Trouble> {
        match search(&self.spec, self.initial.clone(), &self.acts, bound) {
            Found::Agrees => Ok(()),
            Found::Undecided { .. } => Err(Trouble::Undecided {
                records: self.acts.len(),
            }),
            Found::Disagrees { act } => {
                let small = shrink::shrink(&self.spec, &self.initial, &self.acts, act);
                let mut records: Vec<usize> = small.acts.iter().map(|act| act.record).collect();
                records.sort_unstable();
                records.dedup();
                Err(Trouble::Found(Finding {
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
pub struct Wrong {
    pub about: String,
    pub record: usize,
}

impl Part for Wrong {
    fn judge(&self, _: Bound) -> Result<(), Trouble> {
        Err(Trouble::Found(Finding {
            about: self.about.clone(),
            fails: self.record,
            records: vec![self.record],
            before: String::new(),
        }))
    }
}
