//! Names: what is under each slot of a subject. An operation that Linux does in two steps is two acts here (`project`).

use super::name_effects::{effect, refused_by_kinds};
use super::name_state::{NameAction, Node, SLOTS, State};
use crate::check::search::Spec;
use crate::subject;

/// An act and how it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Act {
    pub what: NameAction,
    pub ended: Ended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    Done,
    Refused(i32),
}

pub struct Names;

impl Spec for Names {
    type State = State;
    type Act = Act;

    fn step(&self, state: &State, act: &Act) -> Option<State> {
        let result = effect(state, &act.what);
        // Beside what is not known nothing is contradicted.
        if state.contains(&Node::Any) && self.touches_any(state, act) {
            return match result {
                Some(Ok(after)) if act.ended == Ended::Done && !self.reads(act) => Some(after),
                _ => Some(*state),
            };
        }
        match (result, act.ended) {
            (_, Ended::Refused(errno)) if refused_by_kinds(state, &act.what, errno) => Some(*state),
            (Some(Ok(after)), Ended::Done) => Some(after),
            (Some(Err(why)), Ended::Refused(errno)) => why.contains(errno).then_some(*state),
            _ => None,
        }
    }

    fn or(&self, state: &State, act: &Act) -> Option<State> {
        let nothing = matches!(act.what, NameAction::Rename { racing: true, .. });
        (nothing && act.ended == Ended::Done).then_some(*state)
    }

    fn reads(&self, act: &Act) -> bool {
        use NameAction::*;
        let looks = matches!(
            act.what,
            Get { .. } | Look { .. } | ReadLink { .. } | Listed { .. } | Links { .. }
        );
        looks || matches!(act.ended, Ended::Refused(_))
    }

    fn mask(&self, act: &Act) -> u32 {
        use NameAction::*;
        match act.what {
            Create { at, .. }
            | Get { at, .. }
            | Look { at, .. }
            | ReadLink { at, .. }
            | Listed { at, .. }
            | Unlink { at }
            | Symlink { at, .. }
            | MakeDir { at }
            | RemoveDir { at }
            | Publish { at, .. }
            | PutAny { at } => around(at),
            Rename { from, to, .. } => around(from) | around(to),
            LinkFile { .. } | LinkSymlink { .. } | LinkDir { .. } | Links { .. } => u32::MAX,
        }
    }

    fn needless<'a>(&self, change: &Act, mut others: impl Iterator<Item = &'a Act>) -> bool {
        !others.any(|other| self.mask(other) & self.mask(change) != 0)
    }
}

impl Names {
    fn touches_any(&self, state: &State, act: &Act) -> bool {
        let mask = self.mask(act);
        let any = |slot: usize| mask & (1 << slot) != 0 && state[slot] == Node::Any;
        (0..SLOTS).any(any)
    }
}

/// A slot, the folder it is in, the slots in it.
fn around(slot: u8) -> u32 {
    let mut mask = 1 << slot;
    if let Some(folder) = subject::folder(slot) {
        mask |= 1 << folder;
    }
    if (subject::PLAIN..subject::FOLDERS).contains(&slot) {
        mask |= subject::inside(slot).fold(0, |mask, inside| mask | 1 << inside);
    }
    mask
}
