//! The size of a file.

use crate::check::search::Spec;

pub struct Lengths;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// A write that ends here.
    Extend(u64),
    Set(u64),
    Is(u64),
    /// A read got bytes up to here.
    AtLeast(u64),
    /// A read found the end here, or before.
    AtMost(u64),
}

impl Spec for Lengths {
    type State = u64;
    type Act = Act;

    fn step(&self, size: &u64, act: &Act) -> Option<u64> {
        let fits = |fits: bool| fits.then_some(*size);
        match act {
            Act::Extend(to) => Some(*size.max(to)),
            Act::Set(to) => Some(*to),
            Act::Is(seen) => fits(size == seen),
            Act::AtLeast(seen) => fits(size >= seen),
            Act::AtMost(seen) => fits(size <= seen),
        }
    }

    fn reads(&self, act: &Act) -> bool {
        !matches!(act, Act::Extend(_) | Act::Set(_))
    }

    fn mask(&self, _: &Act) -> u32 {
        1
    }
}
