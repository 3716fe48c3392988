//! The names of one program: as they are, and every state of them that a power loss may leave.

use gupfs_proto::InodeId;
use std::collections::BTreeMap;

/// An inode whose creation was not answered: the program does not know its number.
pub const UNTOLD: InodeId = InodeId(u64::MAX);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    pub ino: InodeId,
    pub is_dir: bool,
}

/// (directory, name) of each.
pub type Tree = BTreeMap<(InodeId, u8), Entry>;

/// In the order of the log, each with the millisecond of its answer; the last is the visible one.
pub struct Names {
    states: Vec<(u64, Tree)>,
    /// The last change was not answered: it was made or not.
    is_unanswered: bool,
}

impl Names {
    pub fn new() -> Names {
        Names {
            states: vec![(0, Tree::new())],
            is_unanswered: false,
        }
    }

    pub fn now(&self) -> &Tree {
        &self.states.last().expect("there is a state").1
    }

    pub fn is_unanswered(&self) -> bool {
        self.is_unanswered
    }

    pub fn push(&mut self, now: u64, tree: Tree) {
        self.states.push((now, tree));
        self.is_unanswered = false;
    }

    /// The newest state, with a number that was told.
    pub fn tell(&mut self, tree: Tree) {
        if let Some(last) = self.states.last_mut() {
            last.1 = tree;
        }
    }

    pub fn mark_unanswered(&mut self, now: u64, tree: Tree) {
        self.states.push((now, tree));
        self.is_unanswered = true;
    }

    /// All that was answered survives a power loss.
    pub fn synced(&mut self) {
        assert!(
            !self.is_unanswered,
            "a sync is answered after all before it"
        );
        self.states.drain(..self.states.len() - 1);
    }

    /// How many states a power loss may leave.
    pub fn depth(&self) -> usize {
        self.states.len()
    }

    /// What is there now. It becomes the newest state. `undone`: a power loss may have undone what was answered since then.
    ///
    /// # Errors
    /// What keeps it from being any state that is possible.
    pub fn found(&mut self, found: Tree, undone: Option<u64>) -> Result<(), String> {
        let answered = self.states.len() - 1 - usize::from(self.is_unanswered);
        let certain = match undone {
            Some(since) => {
                let states = self.states[..=answered].iter();
                let synced = states.filter(|(at, _)| *at < since).count();
                synced.saturating_sub(1)
            }
            None => answered,
        };
        let last = self.states.len() - 1;
        let possible = &self.states[certain..];
        let mut newest_first = possible.iter().rev();
        let Some(age) = newest_first.position(|(_, state)| is(state, &found)) else {
            return Err(format!("{found:?}\nis none of\n{possible:?}"));
        };
        let (at, _) = self.states[last - age];
        if undone.is_some() {
            self.states.clear(); // what survived it is durable
        } else {
            self.states.truncate(last - age);
        }
        self.push(at, found);
        Ok(())
    }
}

fn is(state: &Tree, found: &Tree) -> bool {
    let same = |((place, one), (there, other)): ((_, &Entry), (_, &Entry))| {
        place == there && one.is_dir == other.is_dir && (one.ino == UNTOLD || one.ino == other.ino)
    };
    state.len() == found.len() && state.iter().zip(found).all(same)
}
