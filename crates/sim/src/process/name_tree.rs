//! The expected names and attributes, and every state of them since the last durable one. A power loss leaves exactly one of
//! these states.

use gupfs_proto::{FileKind, InodeId, Timestamp};
use std::collections::BTreeMap;

/// Number of an inode whose create got no reply: the program does not know the real one.
pub const UNKNOWN_INODE: InodeId = InodeId(u64::MAX);

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    pub kind: FileKind,
    pub mode: u32,
    /// Known after a sync or utimes, until the next change.
    pub mtime: Option<Timestamp>,
}

#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct NameTree {
    pub names: BTreeMap<(InodeId, String), InodeId>,
    pub nodes: BTreeMap<InodeId, Node>,
}

impl NameTree {
    pub fn nlink(&self, ino: InodeId) -> u32 {
        self.names.values().filter(|other| **other == ino).count() as u32
    }

    pub fn is_empty_dir(&self, dir: InodeId) -> bool {
        !self.names.keys().any(|(of, _)| *of == dir)
    }

    /// Drops inodes without a name. (The program keeps the contents of open ones.)
    pub fn prune(&mut self) {
        let named: Vec<InodeId> = self.names.values().copied().collect();
        self.nodes.retain(|ino, _| named.contains(ino));
    }

    fn matches(&self, found: &NameTree) -> bool {
        self.difference(found).is_none()
    }

    /// Returns a difference between `found` and this state.
    fn difference(&self, found: &NameTree) -> Option<String> {
        let mut positions: Vec<_> = self.names.keys().chain(found.names.keys()).collect();
        positions.sort();
        for position in positions {
            match (self.names.get(position), found.names.get(position)) {
                (Some(&UNKNOWN_INODE), Some(_)) => {}
                (expected, actual) if expected == actual => {}
                (expected, actual) => {
                    return Some(format!("{position:?} is {actual:?}, not {expected:?}"));
                }
            }
        }
        for (ino, node) in self.nodes.iter().filter(|(ino, _)| **ino != UNKNOWN_INODE) {
            let actual = found.nodes.get(ino);
            let same = actual.is_some_and(|actual| {
                (node.kind, node.mode) == (actual.kind, actual.mode)
                    && (node.mtime.is_none() || node.mtime == actual.mtime)
            });
            if !same {
                return Some(format!("{ino} is {actual:?}, not {node:?}"));
            }
        }
        None
    }
}

/// The possible state that was found.
pub enum MatchedState {
    /// The newest answered state, or that of a change without a reply (`unanswered`).
    Newest { unanswered: bool },
    /// An older state: the later ones were not durable.
    Older,
}

/// The states in the order of the log.
pub struct NameHistory {
    states: Vec<NameTree>,
    /// The last change got no reply.
    is_unanswered: bool,
}

impl NameHistory {
    pub fn new() -> NameHistory {
        NameHistory {
            states: vec![NameTree::default()],
            is_unanswered: false,
        }
    }

    pub fn now(&self) -> &NameTree {
        self.states.last().expect("there is a state")
    }

    pub fn push(&mut self, mut name_tree: NameTree) {
        name_tree.prune();
        self.states.push(name_tree);
        self.is_unanswered = false;
    }

    /// The program writes the file: after a crash its mtime may be that of its objects, which is later than that of any state.
    pub fn forget_mtime(&mut self, ino: InodeId) {
        for state in &mut self.states {
            if let Some(node) = state.nodes.get_mut(&ino) {
                node.mtime = None;
            }
        }
    }

    pub fn mark_unanswered(&mut self) {
        self.is_unanswered = true;
    }

    /// All changes so far are durable.
    pub fn synced(&mut self) {
        self.states.drain(..self.states.len() - 1);
    }

    /// Compares the state found after a power loss or a kill. It becomes the only state.
    pub fn match_found(
        &mut self,
        found: NameTree,
        power_loss: bool,
    ) -> Result<MatchedState, String> {
        let oldest_possible = match power_loss {
            true => 0,
            false => self.states.len() - 1 - usize::from(self.is_unanswered),
        };
        let possible = &self.states[oldest_possible..];
        let Some(age) = possible
            .iter()
            .rev()
            .position(|state| state.matches(&found))
        else {
            let each = possible.iter().filter_map(|state| state.difference(&found));
            return Err(each.collect::<Vec<_>>().join("\n"));
        };
        let outcome = match age {
            0 => MatchedState::Newest {
                unanswered: self.is_unanswered && !self.second_newest().matches(&found),
            },
            _ if self.is_unanswered && self.second_newest().matches(&found) => {
                MatchedState::Newest { unanswered: false }
            }
            _ => MatchedState::Older,
        };
        *self = NameHistory {
            states: vec![found],
            is_unanswered: false,
        };
        Ok(outcome)
    }

    fn second_newest(&self) -> &NameTree {
        &self.states[self.states.len() - 2]
    }
}
