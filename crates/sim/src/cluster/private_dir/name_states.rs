//! The names of one program: the current state, and every state that a power loss may leave.

use gupfs_proto::InodeId;
use std::collections::BTreeMap;

/// Number of an inode whose create got no reply: the program does not know the real one.
pub const UNKNOWN_INODE: InodeId = InodeId(u64::MAX);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    pub ino: InodeId,
    pub is_dir: bool,
}

/// Entries by (directory, name).
pub type NameTree = BTreeMap<(InodeId, u8), Entry>;

/// What a change does to the tree: entries that it makes or replaces, and names that it removes.
pub type NameChange = Vec<((InodeId, u8), Option<Entry>)>;

/// The states in the order of the log, each with the millisecond of its reply; the last is current.
pub struct NameStates {
    states: Vec<(u64, NameTree)>,
    /// So many of the newest states are those after changes that got no reply: they were made or not.
    unanswered: usize,
}

impl NameStates {
    pub fn new() -> NameStates {
        NameStates {
            states: vec![(0, NameTree::new())],
            unanswered: 0,
        }
    }

    pub fn now(&self) -> &NameTree {
        &self.states.last().expect("there is a state").1
    }

    pub fn is_unanswered(&self) -> bool {
        self.unanswered > 0
    }

    /// What the change that got no reply does, if `found` is a state without it.
    pub fn unanswered_change_not_in(&self, found: &NameTree) -> Option<NameChange> {
        let [.., (_, before), (_, after)] = &self.states[..] else {
            return None;
        };
        if !self.is_unanswered() || matches(after, found) {
            return None;
        }
        let removed = before.keys().filter(|key| !after.contains_key(key));
        let removed = removed.map(|key| (*key, None));
        let made = after
            .iter()
            .filter(|(key, entry)| before.get(key) != Some(entry));
        let made = made.map(|(key, entry)| (*key, Some(*entry)));
        Some(removed.chain(made).collect())
    }

    pub fn push(&mut self, now: u64, tree: NameTree) {
        self.states.push((now, tree));
        self.unanswered = 0;
    }

    /// Replaces the newest state by one with an inode number from a reply.
    pub fn replace_newest(&mut self, tree: NameTree) {
        if let Some(last) = self.states.last_mut() {
            last.1 = tree;
        }
    }

    pub fn mark_unanswered(&mut self, now: u64, tree: NameTree) {
        self.states.push((now, tree));
        self.unanswered = 1;
    }

    /// A change of a former instance was made or not, beside the newest change if that got no reply.
    pub fn mark_late(&mut self, now: u64, change: &NameChange) {
        let answered = self.states.len() - 1 - self.unanswered;
        let with_change = self.states[answered..].iter();
        let with_change: Vec<_> = with_change
            .map(|(_, tree)| (now, with(tree, change)))
            .collect();
        self.unanswered += with_change.len();
        self.states.extend(with_change);
    }

    /// All answered changes survive a power loss.
    pub fn synced(&mut self) {
        assert!(
            !self.is_unanswered(),
            "a sync succeeds only after all earlier changes have replies"
        );
        self.states.drain(..self.states.len() - 1);
    }

    /// Number of states that a power loss may leave.
    pub fn depth(&self) -> usize {
        self.states.len()
    }

    /// Compares the names found. They become the newest state. `undone`: a power loss may have undone changes that were
    /// answered at this time or later.
    ///
    /// # Errors
    /// The names found and the possible states, if none of them matches.
    pub fn match_found(&mut self, found: NameTree, undone: Option<u64>) -> Result<(), String> {
        let answered = self.states.len() - 1 - self.unanswered;
        let oldest_possible = match undone {
            Some(since) => {
                let states = self.states[..=answered].iter();
                let synced = states.filter(|(at, _)| *at < since).count();
                synced.saturating_sub(1)
            }
            None => answered,
        };
        let last = self.states.len() - 1;
        let possible = &self.states[oldest_possible..];
        let mut newest_first = possible.iter().rev();
        let Some(age) = newest_first.position(|(_, state)| matches(state, &found)) else {
            return Err(format!(
                "{found:?}\nis none of the possible states\n{possible:?}"
            ));
        };
        let (at, _) = self.states[last - age];
        if undone.is_some() {
            self.states.clear(); // the state that survived is durable
        } else {
            self.states.truncate(last - age);
        }
        self.push(at, found);
        Ok(())
    }
}

/// The names after a change.
pub fn with(tree: &NameTree, change: &NameChange) -> NameTree {
    let mut after = tree.clone();
    for (key, entry) in change {
        match entry {
            Some(entry) => after.insert(*key, *entry),
            None => after.remove(key),
        };
    }
    after
}

fn matches(state: &NameTree, found: &NameTree) -> bool {
    let same = |((position, one), (there, other)): ((_, &Entry), (_, &Entry))| {
        position == there
            && one.is_dir == other.is_dir
            && (one.ino == UNKNOWN_INODE || one.ino == other.ino)
    };
    state.len() == found.len() && state.iter().zip(found).all(same)
}
