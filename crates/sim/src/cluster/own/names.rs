//! The names of one program: as they are, and every state of them that a power cut may leave.

use gupfs_proto::InodeId;
use std::collections::BTreeMap;

/// An inode whose creation was not answered: nobody knows its number.
pub const UNTOLD: InodeId = InodeId(u64::MAX);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    pub ino: InodeId,
    pub is_dir: bool,
}

/// (directory, name) of each.
pub type Tree = BTreeMap<(InodeId, u8), Entry>;

/// In the order of the log; the last is what everybody sees.
pub struct Names {
    states: Vec<Tree>,
    /// The last change was not answered: it was made or not.
    torn: bool,
}

impl Names {
    pub fn new() -> Names {
        Names {
            states: vec![Tree::new()],
            torn: false,
        }
    }

    pub fn now(&self) -> &Tree {
        self.states.last().expect("there is a state")
    }

    pub fn is_torn(&self) -> bool {
        self.torn
    }

    pub fn push(&mut self, tree: Tree) {
        self.states.push(tree);
        self.torn = false;
    }

    /// The newest state, with a number that was told.
    pub fn tell(&mut self, tree: Tree) {
        if let Some(last) = self.states.last_mut() {
            *last = tree;
        }
    }

    pub fn tear(&mut self, tree: Tree) {
        self.states.push(tree);
        self.torn = true;
    }

    /// All that was answered survives a power cut.
    pub fn synced(&mut self) {
        assert!(!self.torn, "a sync is answered after all before it");
        self.states.drain(..self.states.len() - 1);
    }

    /// How many states a power cut may leave.
    pub fn depth(&self) -> usize {
        self.states.len()
    }

    /// What is there now. It becomes the newest state.
    ///
    /// # Errors
    /// What keeps it from being any state that is possible.
    pub fn found(&mut self, found: Tree, power_cut: bool) -> Result<(), String> {
        let last = self.states.len() - 1;
        let certain = match power_cut {
            true => 0,
            false => last - usize::from(self.torn),
        };
        let possible = &self.states[certain..];
        let Some(age) = possible.iter().rev().position(|state| is(state, &found)) else {
            return Err(format!("{found:?}\nis none of\n{possible:?}"));
        };
        if power_cut {
            self.states.clear(); // what survived it is durable
        } else {
            self.states.truncate(last - age);
        }
        self.push(found);
        Ok(())
    }
}

fn is(state: &Tree, found: &Tree) -> bool {
    let same = |((place, one), (there, other)): ((_, &Entry), (_, &Entry))| {
        place == there && one.is_dir == other.is_dir && (one.ino == UNTOLD || one.ino == other.ino)
    };
    state.len() == found.len() && state.iter().zip(found).all(same)
}
