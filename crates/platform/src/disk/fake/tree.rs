//! Directories: the current entries, the durable entries, and the changes in between.

use super::content::{Stamp, Survival};
use crate::random::fake::FakeRandom;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Node {
    Dir(u64),
    File(u64),
}

type EntryKey = (u64, String);
type Directories = BTreeMap<u64, BTreeMap<String, Node>>;

pub const ROOT: u64 = 0;

#[derive(Clone)]
enum Change {
    Set(EntryKey, Node),
    Unset(EntryKey),
    Move(EntryKey, EntryKey, Node),
    /// Each name gets the node beside it.
    Exchange([(EntryKey, Node); 2]),
}

#[derive(Clone)]
pub struct Tree {
    live: Directories,
    durable: Directories,
    pending: Vec<(Stamp, Change)>,
    next: u64,
}

impl Tree {
    pub fn new() -> Tree {
        let root = Directories::from([(ROOT, BTreeMap::new())]);
        Tree {
            live: root.clone(),
            durable: root,
            pending: Vec::new(),
            next: ROOT + 1,
        }
    }

    pub fn get(&self, dir: u64, name: &str) -> Option<Node> {
        self.live.get(&dir)?.get(name).copied()
    }

    pub fn list(&self, dir: u64) -> &BTreeMap<String, Node> {
        &self.live[&dir]
    }

    pub fn add_file(&mut self, place: EntryKey, stamp: Stamp) -> u64 {
        let id = self.take_id();
        self.log(Change::Set(place, Node::File(id)), stamp);
        id
    }

    pub fn add_dir(&mut self, place: EntryKey, stamp: Stamp) {
        let id = self.take_id();
        self.live.insert(id, BTreeMap::new());
        self.log(Change::Set(place, Node::Dir(id)), stamp);
    }

    pub fn remove(&mut self, place: EntryKey, stamp: Stamp) {
        self.log(Change::Unset(place), stamp);
    }

    pub fn rename(&mut self, from: EntryKey, to: EntryKey, node: Node, stamp: Stamp) {
        self.log(Change::Move(from, to, node), stamp);
    }

    pub fn exchange(&mut self, a: (EntryKey, Node), b: (EntryKey, Node), stamp: Stamp) {
        self.log(Change::Exchange([(a.0, b.1), (b.0, a.1)]), stamp);
    }

    /// Makes the changes in `dir` up to `stamp` durable.
    pub fn make_durable(&mut self, dir: u64, stamp: Stamp) {
        self.apply_chosen(|at, change| at <= stamp && change.is_in(dir));
    }

    /// Makes the changes in all directories up to `stamp` durable.
    pub fn make_all_durable(&mut self, stamp: Stamp) {
        self.apply_chosen(|at, _| at <= stamp);
    }

    /// Power loss: a random subset of the changes survives.
    pub fn crash(&mut self, survival: Survival, random: &FakeRandom) {
        self.apply_chosen(|_, _| survival.survives(random));
        self.pending.clear();
        let mut reached = Directories::new();
        collect_reachable(&self.durable, ROOT, &mut reached);
        self.live = reached.clone();
        self.durable = reached;
    }

    /// Makes the chosen changes durable, in their order, each with the earlier changes of the same names: a journal never
    /// contains a later change of a name without the earlier ones.
    fn apply_chosen(&mut self, chosen: impl Fn(Stamp, &Change) -> bool) {
        let mut chosen_keys: BTreeSet<EntryKey> = BTreeSet::new();
        let mut rest = Vec::new();
        let mut durable = Vec::new();
        for (at, change) in std::mem::take(&mut self.pending).into_iter().rev() {
            let keys = change.keys();
            if chosen(at, &change) || keys.iter().any(|key| chosen_keys.contains(*key)) {
                chosen_keys.extend(keys.into_iter().cloned());
                durable.push(change);
            } else {
                rest.push((at, change));
            }
        }
        rest.reverse();
        self.pending = rest;
        for change in durable.into_iter().rev() {
            change.apply(&mut self.durable);
        }
    }

    /// Files that have a name now, or may have one after a crash.
    pub fn files(&self) -> BTreeSet<u64> {
        let named = |names: &Directories| -> Vec<Node> {
            names
                .values()
                .flat_map(|dir| dir.values().copied())
                .collect()
        };
        let pending = self.pending.iter().filter_map(|(_, change)| match change {
            Change::Set(_, node) | Change::Move(_, _, node) => Some(*node),
            // Both have names before and after it.
            Change::Unset(_) | Change::Exchange(_) => None,
        });
        named(&self.live)
            .into_iter()
            .chain(named(&self.durable))
            .chain(pending)
            .filter_map(|node| match node {
                Node::File(id) => Some(id),
                Node::Dir(_) => None,
            })
            .collect()
    }

    /// Applies a change now; it is durable once it is chosen.
    fn log(&mut self, change: Change, stamp: Stamp) {
        change.apply(&mut self.live);
        self.pending.push((stamp, change));
    }

    fn take_id(&mut self) -> u64 {
        let id = self.next;
        self.next += 1;
        id
    }
}

impl Change {
    fn keys(&self) -> Vec<&EntryKey> {
        match self {
            Change::Set(place, _) | Change::Unset(place) => vec![place],
            Change::Move(from, to, _) => vec![from, to],
            Change::Exchange([(a, _), (b, _)]) => vec![a, b],
        }
    }

    /// Whether it changes an entry of this directory.
    fn is_in(&self, dir: u64) -> bool {
        self.keys().iter().any(|(of, _)| *of == dir)
    }

    fn apply(&self, names: &mut Directories) {
        match self {
            Change::Set((dir, name), node) => {
                names.entry(*dir).or_default().insert(name.clone(), *node);
            }
            Change::Unset((dir, name)) => {
                names.entry(*dir).or_default().remove(name);
            }
            Change::Move((from_dir, from), (to_dir, to), node) => {
                let source = names.entry(*from_dir).or_default();
                if source.get(from) == Some(node) {
                    source.remove(from);
                }
                names.entry(*to_dir).or_default().insert(to.clone(), *node);
            }
            Change::Exchange(both) => {
                for ((dir, name), node) in both {
                    names.entry(*dir).or_default().insert(name.clone(), *node);
                }
            }
        }
    }
}

/// Collects the directories that can be reached: the entries of a directory that did not survive are lost with it.
fn collect_reachable(names: &Directories, dir: u64, into: &mut Directories) {
    let entries = names.get(&dir).cloned().unwrap_or_default();
    for node in entries.values() {
        if let Node::Dir(id) = node {
            collect_reachable(names, *id, into);
        }
    }
    into.insert(dir, entries);
}
