//! Names: what directories hold now, what survives, and the changes in between.

use super::content::{Mercy, Stamp};
use crate::fake::FakeDice;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Node {
    Dir(u64),
    File(u64),
}

type Place = (u64, String);
type Names = BTreeMap<u64, BTreeMap<String, Node>>;

pub const ROOT: u64 = 0;

#[derive(Clone)]
enum Change {
    Set(Place, Node),
    Unset(Place),
    Move(Place, Place, Node),
}

#[derive(Clone)]
pub struct Tree {
    live: Names,
    durable: Names,
    pending: Vec<(Stamp, Change)>,
    next: u64,
}

impl Tree {
    pub fn new() -> Tree {
        let root = Names::from([(ROOT, BTreeMap::new())]);
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

    pub fn add_file(&mut self, place: Place, stamp: Stamp) -> u64 {
        let id = self.take_id();
        self.change(Change::Set(place, Node::File(id)), stamp);
        id
    }

    pub fn add_dir(&mut self, place: Place, stamp: Stamp) {
        let id = self.take_id();
        self.live.insert(id, BTreeMap::new());
        self.change(Change::Set(place, Node::Dir(id)), stamp);
    }

    pub fn remove(&mut self, place: Place, stamp: Stamp) {
        self.change(Change::Unset(place), stamp);
    }

    pub fn rename(&mut self, from: Place, to: Place, node: Node, stamp: Stamp) {
        self.change(Change::Move(from, to, node), stamp);
    }

    /// What was done in `dir` up to `stamp` survives from now on.
    pub fn settle(&mut self, dir: u64, stamp: Stamp) {
        self.keep(|at, change| at <= stamp && change.touches(dir));
    }

    /// What was done anywhere up to `stamp` survives from now on.
    pub fn settle_all(&mut self, stamp: Stamp) {
        self.keep(|at, _| at <= stamp);
    }

    /// The power goes: an arbitrary subset of the changes survives.
    pub fn crash(&mut self, mercy: Mercy, dice: &FakeDice) {
        self.keep(|_, _| mercy.spares(dice));
        self.pending.clear();
        let mut reached = Names::new();
        reach(&self.durable, ROOT, &mut reached);
        self.live = reached.clone();
        self.durable = reached;
    }

    /// Makes the chosen changes durable, in their order, and with each what came before it at the same places: a
    /// journal never has a later change of a name without the earlier ones.
    fn keep(&mut self, chosen: impl Fn(Stamp, &Change) -> bool) {
        let mut kept_places: BTreeSet<Place> = BTreeSet::new();
        let mut rest = Vec::new();
        let mut kept = Vec::new();
        for (at, change) in std::mem::take(&mut self.pending).into_iter().rev() {
            let places = change.places();
            if chosen(at, &change) || places.iter().any(|place| kept_places.contains(*place)) {
                kept_places.extend(places.into_iter().cloned());
                kept.push(change);
            } else {
                rest.push((at, change));
            }
        }
        rest.reverse();
        self.pending = rest;
        for change in kept.into_iter().rev() {
            change.apply(&mut self.durable);
        }
    }

    /// Files that have a name, now or after a crash.
    pub fn files(&self) -> BTreeSet<u64> {
        let named = |names: &Names| -> Vec<Node> {
            names
                .values()
                .flat_map(|dir| dir.values().copied())
                .collect()
        };
        let pending = self.pending.iter().filter_map(|(_, change)| match change {
            Change::Set(_, node) | Change::Move(_, _, node) => Some(*node),
            Change::Unset(_) => None,
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

    fn change(&mut self, change: Change, stamp: Stamp) {
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
    fn places(&self) -> Vec<&Place> {
        match self {
            Change::Set(place, _) | Change::Unset(place) => vec![place],
            Change::Move(from, to, _) => vec![from, to],
        }
    }

    fn touches(&self, dir: u64) -> bool {
        self.places().iter().any(|(of, _)| *of == dir)
    }

    fn apply(&self, names: &mut Names) {
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
        }
    }
}

/// The directories that can still be reached: a name in a directory that did not survive is gone with it.
fn reach(names: &Names, dir: u64, into: &mut Names) {
    let entries = names.get(&dir).cloned().unwrap_or_default();
    for node in entries.values() {
        if let Node::Dir(id) = node {
            reach(names, *id, into);
        }
    }
    into.insert(dir, entries);
}
