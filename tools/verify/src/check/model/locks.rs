//! Locks that are tried for, never waited for.

use crate::check::search::Spec;

/// Parts of a file that are locked separately.
pub const UNITS: usize = 4;

pub struct Locks;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Act {
    pub who: u16,
    pub first: u8,
    pub last: u8,
    pub what: LockAction,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockAction {
    Shared,
    Exclusive,
    /// Refused, as another holds it.
    RefusedShared,
    RefusedExclusive,
    Unlock,
}

/// The holders of a unit.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    Free,
    /// In order.
    Shared(Vec<u16>),
    Exclusive(u16),
}

impl Spec for Locks {
    type State = [Unit; UNITS];
    type Act = Act;

    fn step(&self, units: &Self::State, act: &Act) -> Option<Self::State> {
        let range = usize::from(act.first)..usize::from(act.last);
        let in_the_way = |exclusive| {
            units[range.clone()]
                .iter()
                .any(|unit| excludes(unit, act.who, exclusive))
        };
        match act.what {
            LockAction::RefusedShared => return in_the_way(false).then(|| units.clone()),
            LockAction::RefusedExclusive => return in_the_way(true).then(|| units.clone()),
            LockAction::Shared if in_the_way(false) => return None,
            LockAction::Exclusive if in_the_way(true) => return None,
            LockAction::Shared | LockAction::Exclusive | LockAction::Unlock => {}
        }
        let mut after = units.clone();
        for unit in &mut after[range] {
            let_go(unit, act.who);
            match (act.what, &mut *unit) {
                (LockAction::Exclusive, _) => *unit = Unit::Exclusive(act.who),
                (LockAction::Shared, Unit::Shared(holders)) => {
                    holders.push(act.who);
                    holders.sort_unstable();
                }
                (LockAction::Shared, _) => *unit = Unit::Shared(vec![act.who]),
                _ => {}
            }
        }
        Some(after)
    }

    fn reads(&self, act: &Act) -> bool {
        matches!(
            act.what,
            LockAction::RefusedShared | LockAction::RefusedExclusive
        )
    }

    fn mask(&self, act: &Act) -> u32 {
        (act.first..act.last).fold(0, |mask, unit| mask | 1 << unit)
    }
}

/// Whether a holder other than `who` excludes it.
fn excludes(unit: &Unit, who: u16, exclusive: bool) -> bool {
    match unit {
        Unit::Free => false,
        Unit::Exclusive(holder) => *holder != who,
        Unit::Shared(holders) => exclusive && holders.iter().any(|holder| *holder != who),
    }
}

fn let_go(unit: &mut Unit, who: u16) {
    let free = match unit {
        Unit::Free => true,
        Unit::Exclusive(holder) => *holder == who,
        Unit::Shared(holders) => {
            holders.retain(|holder| *holder != who);
            holders.is_empty()
        }
    };
    if free {
        *unit = Unit::Free;
    }
}
