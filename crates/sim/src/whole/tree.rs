//! Names as they should be, and every state of them since the last that is durable: a power loss leaves one of those,
//! whole.

use gupfs_proto::{FileKind, InodeId, Timestamp};
use std::collections::BTreeMap;

/// An inode whose creation was not answered: the program does not know its number.
pub const UNTOLD: InodeId = InodeId(u64::MAX);

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    pub kind: FileKind,
    pub mode: u32,
    /// If it is known: after a sync or utimes, until the next change.
    pub mtime: Option<Timestamp>,
}

#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Tree {
    pub names: BTreeMap<(InodeId, String), InodeId>,
    pub nodes: BTreeMap<InodeId, Node>,
}

impl Tree {
    pub fn nlink(&self, ino: InodeId) -> u32 {
        self.names.values().filter(|other| **other == ino).count() as u32
    }

    pub fn is_empty_dir(&self, dir: InodeId) -> bool {
        !self.names.keys().any(|(of, _)| *of == dir)
    }

    /// Drops what has no name any more; what is open goes on elsewhere.
    pub fn prune(&mut self) {
        let named: Vec<InodeId> = self.names.values().copied().collect();
        self.nodes.retain(|ino, _| named.contains(ino));
    }

    fn is(&self, found: &Tree) -> bool {
        self.difference(found).is_none()
    }

    /// What keeps `found` from being this state.
    fn difference(&self, found: &Tree) -> Option<String> {
        let mut places: Vec<_> = self.names.keys().chain(found.names.keys()).collect();
        places.sort();
        for place in places {
            match (self.names.get(place), found.names.get(place)) {
                (Some(&UNTOLD), Some(_)) => {}
                (should, is) if should == is => {}
                (should, is) => return Some(format!("{place:?} is {is:?}, not {should:?}")),
            }
        }
        for (ino, node) in self.nodes.iter().filter(|(ino, _)| **ino != UNTOLD) {
            let is = found.nodes.get(ino);
            let same = is.is_some_and(|is| {
                (node.kind, node.mode) == (is.kind, is.mode)
                    && (node.mtime.is_none() || node.mtime == is.mtime)
            });
            if !same {
                return Some(format!("{ino} is {is:?}, not {node:?}"));
            }
        }
        None
    }
}

/// Which of the possible states was found.
pub enum Outcome {
    /// The newest that was answered, or what was under way when the process died.
    Newest { unanswered: bool },
    /// One from before: what followed was not durable.
    Older,
}

/// States in the order of the log.
pub struct History {
    states: Vec<Tree>,
    /// The last was not answered.
    torn: bool,
}

impl History {
    pub fn new() -> History {
        History {
            states: vec![Tree::default()],
            torn: false,
        }
    }

    pub fn now(&self) -> &Tree {
        self.states.last().expect("there is a state")
    }

    pub fn push(&mut self, mut tree: Tree) {
        tree.prune();
        self.states.push(tree);
        self.torn = false;
    }

    /// Somebody writes the file: its objects may tell a later time than any state of the names.
    pub fn forget_mtime(&mut self, ino: InodeId) {
        for state in &mut self.states {
            if let Some(node) = state.nodes.get_mut(&ino) {
                node.mtime = None;
            }
        }
    }

    pub fn tear(&mut self) {
        self.torn = true;
    }

    /// Everything up to here is durable.
    pub fn synced(&mut self) {
        self.states.drain(..self.states.len() - 1);
    }

    /// What a life found that began after a power loss, or a kill. From then on it is the only state.
    pub fn found(&mut self, found: Tree, power_cut: bool) -> Result<Outcome, String> {
        let certain = match power_cut {
            true => 0,
            false => self.states.len() - 1 - usize::from(self.torn),
        };
        let possible = &self.states[certain..];
        let Some(age) = possible.iter().rev().position(|state| state.is(&found)) else {
            let each = possible.iter().filter_map(|state| state.difference(&found));
            return Err(each.collect::<Vec<_>>().join("\n"));
        };
        let outcome = match age {
            0 => Outcome::Newest {
                unanswered: self.torn && !self.before_last().is(&found),
            },
            _ if self.torn && self.before_last().is(&found) => {
                Outcome::Newest { unanswered: false }
            }
            _ => Outcome::Older,
        };
        *self = History {
            states: vec![found],
            torn: false,
        };
        Ok(outcome)
    }

    fn before_last(&self) -> &Tree {
        &self.states[self.states.len() - 2]
    }
}
