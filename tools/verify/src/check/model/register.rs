//! A value that is put and seen: a word of a file, a mode, a time, an extended attribute.

use crate::check::search::Spec;

pub struct Register;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    Put(u64),
    See(u64),
}

impl Act {
    /// The act of a look that defines the value.
    pub fn defining(self) -> Act {
        match self {
            Act::See(value) | Act::Put(value) => Act::Put(value),
        }
    }
}

impl Spec for Register {
    type State = u64;
    type Act = Act;

    fn step(&self, state: &u64, act: &Act) -> Option<u64> {
        match act {
            Act::Put(value) => Some(*value),
            Act::See(value) => (value == state).then_some(*state),
        }
    }

    fn reads(&self, act: &Act) -> bool {
        matches!(act, Act::See(_))
    }

    fn mask(&self, _: &Act) -> u32 {
        1
    }

    fn worth_showing(&self) -> usize {
        500
    }

    fn needless<'a>(&self, change: &Act, mut others: impl Iterator<Item = &'a Act>) -> bool {
        match change {
            Act::Put(value) => !others.any(|other| *other == Act::See(*value)),
            Act::See(_) => true,
        }
    }
}
