//! Random changes of a small tree beside a model of it: every answer and the tree at the end must agree.

use std::collections::BTreeMap;

use crate::prelude::*;

pub fn checks() -> Vec<Check> {
    (1..=6u32)
        .map(|seed| {
            check(
                format!("model/random-changes-of-a-tree-{seed}"),
                "Making, linking, renaming, exchanging and removing answer as the tree says and leave it so.",
                move |_| Model::new(seed).play(400),
            )
        })
        .collect()
}

#[derive(Clone)]
enum Node {
    Dir(BTreeMap<&'static str, usize>),
    File,
    /// Leads nowhere.
    Link,
}

const ROOT: usize = 0;
const NAMES: [&str; 3] = ["a", "b", "c"];

/// The tree as it must be. Nodes are never forgotten; names are.
struct Model {
    nodes: Vec<Node>,
    dice: u32,
}

/// One to three components.
type Path = Vec<&'static str>;

impl Model {
    fn new(seed: u32) -> Model {
        Model {
            nodes: vec![Node::Dir(BTreeMap::new())],
            dice: seed.wrapping_mul(2_654_435_761),
        }
    }

    fn roll(&mut self, sides: u32) -> u32 {
        self.dice = self
            .dice
            .wrapping_mul(1_664_525)
            .wrapping_add(1_013_904_223);
        (self.dice >> 16) % sides
    }

    fn path(&mut self) -> Path {
        (0..=self.roll(3))
            .map(|_| NAMES[self.roll(3) as usize])
            .collect()
    }

    fn play(mut self, steps: usize) -> Outcome {
        for step in 0..steps {
            let (from, to) = (self.path(), self.path());
            let (one, two) = (from.join("/"), to.join("/"));
            let (word, expected, answer) = match self.roll(9) {
                0 => (
                    "create",
                    self.make(&from, Node::File),
                    open(&one, O_CREAT | O_EXCL, 0o644).map(drop),
                ),
                1 | 2 => (
                    "mkdir",
                    self.make(&from, Node::Dir(BTreeMap::new())),
                    mkdir(&one, 0o755),
                ),
                3 => (
                    "symlink",
                    self.make(&from, Node::Link),
                    symlink("no-such-target", &one),
                ),
                4 => ("link", self.link(&from, &to), link(&one, &two)),
                5 => ("unlink", self.remove(&from, false), unlink(&one)),
                6 => ("rmdir", self.remove(&from, true), rmdir(&one)),
                7 => ("rename", self.rename(&from, &to), rename(&one, &two)),
                _ => (
                    "exchange",
                    self.exchange(&from, &to),
                    rename_flags(&one, &two, RENAME_EXCHANGE),
                ),
            };
            if word == "exchange"
                && matches!(answer, Err(refused) if refused.errno == EINVAL && expected == Ok(()))
            {
                return skipped("RENAME_EXCHANGE is optional");
            }
            let found = answer.map_err(|refused| refused.errno);
            same(
                &format!("step {step}, {word} {one} {two}:"),
                found,
                expected,
            )?;
        }
        self.compare(ROOT, ".")
    }

    fn entries(&self, node: usize) -> Option<&BTreeMap<&'static str, usize>> {
        match &self.nodes[node] {
            Node::Dir(entries) => Some(entries),
            _ => None,
        }
    }

    fn entries_mut(&mut self, node: usize) -> &mut BTreeMap<&'static str, usize> {
        match &mut self.nodes[node] {
            Node::Dir(entries) => entries,
            _ => unreachable!("only directories are parents"),
        }
    }

    /// The directory that holds the last component.
    fn parent(&self, path: &Path) -> Result<usize, Errno> {
        path[..path.len() - 1].iter().try_fold(ROOT, |at, name| {
            let next = *self
                .entries(at)
                .and_then(|entries| entries.get(name))
                .ok_or(ENOENT)?;
            match self.nodes[next] {
                Node::Dir(_) => Ok(next),
                Node::File => Err(ENOTDIR),
                Node::Link => Err(ENOENT),
            }
        })
    }

    fn child(&self, parent: usize, path: &Path) -> Option<usize> {
        self.entries(parent)
            .and_then(|entries| entries.get(path[path.len() - 1]).copied())
    }

    fn make(&mut self, path: &Path, node: Node) -> Result<(), Errno> {
        let parent = self.parent(path)?;
        if self.child(parent, path).is_some() {
            return Err(EEXIST);
        }
        self.nodes.push(node);
        let number = self.nodes.len() - 1;
        self.entries_mut(parent)
            .insert(path[path.len() - 1], number);
        Ok(())
    }

    fn link(&mut self, from: &Path, to: &Path) -> Result<(), Errno> {
        let file = self.child(self.parent(from)?, from).ok_or(ENOENT)?;
        let parent = self.parent(to)?;
        if self.child(parent, to).is_some() {
            return Err(EEXIST);
        }
        if self.entries(file).is_some() {
            return Err(EPERM);
        }
        self.entries_mut(parent).insert(to[to.len() - 1], file);
        Ok(())
    }

    fn remove(&mut self, path: &Path, directory: bool) -> Result<(), Errno> {
        let parent = self.parent(path)?;
        let node = self.child(parent, path).ok_or(ENOENT)?;
        match (self.entries(node), directory) {
            (Some(_), false) => return Err(EISDIR),
            (None, true) => return Err(ENOTDIR),
            (Some(entries), true) if !entries.is_empty() => return Err(ENOTEMPTY),
            _ => {}
        }
        self.entries_mut(parent).remove(path[path.len() - 1]);
        Ok(())
    }

    /// Whether `node` is `below` or one of its ancestors.
    fn contains(&self, node: usize, below: usize) -> bool {
        node == below
            || self
                .entries(node)
                .is_some_and(|entries| entries.values().any(|child| self.contains(*child, below)))
    }

    fn rename(&mut self, from: &Path, to: &Path) -> Result<(), Errno> {
        let (source, target) = (self.parent(from)?, self.parent(to)?);
        let node = self.child(source, from).ok_or(ENOENT)?;
        if self.contains(node, target) {
            return Err(EINVAL);
        }
        if let Some(old) = self.child(target, to) {
            if self.contains(old, source) {
                return Err(ENOTEMPTY);
            }
            if old == node {
                return Ok(());
            }
            match (self.entries(node), self.entries(old)) {
                (Some(_), None) => return Err(ENOTDIR),
                (None, Some(_)) => return Err(EISDIR),
                (Some(_), Some(entries)) if !entries.is_empty() => return Err(ENOTEMPTY),
                _ => {}
            }
        }
        self.entries_mut(source).remove(from[from.len() - 1]);
        self.entries_mut(target).insert(to[to.len() - 1], node);
        Ok(())
    }

    fn exchange(&mut self, from: &Path, to: &Path) -> Result<(), Errno> {
        let (source, target) = (self.parent(from)?, self.parent(to)?);
        let one = self.child(source, from).ok_or(ENOENT)?;
        let two = self.child(target, to).ok_or(ENOENT)?;
        if self.contains(one, target) || self.contains(two, source) {
            return Err(EINVAL);
        }
        self.entries_mut(source).insert(from[from.len() - 1], two);
        self.entries_mut(target).insert(to[to.len() - 1], one);
        Ok(())
    }

    /// How many names lead to a node.
    fn names_of(&self, node: usize) -> u64 {
        let entries = self.reachable();
        entries.iter().filter(|child| **child == node).count() as u64
    }

    /// Every entry of the tree, by the node that it leads to.
    fn reachable(&self) -> Vec<usize> {
        let mut found = Vec::new();
        let mut left = vec![ROOT];
        while let Some(node) = left.pop() {
            for child in self
                .entries(node)
                .into_iter()
                .flat_map(|entries| entries.values())
            {
                found.push(*child);
                left.push(*child);
            }
        }
        found
    }

    fn compare(&self, node: usize, path: &str) -> Outcome {
        let facts = lstat(path)?;
        match &self.nodes[node] {
            Node::Dir(entries) => {
                same(path, facts.kind(), S_IFDIR)?;
                same(
                    path,
                    names(path)?,
                    entries.keys().map(ToString::to_string).collect(),
                )?;
                entries
                    .iter()
                    .try_for_each(|(name, child)| self.compare(*child, &format!("{path}/{name}")))
            }
            leaf => {
                same(
                    path,
                    facts.kind(),
                    if matches!(leaf, Node::File) {
                        S_IFREG
                    } else {
                        S_IFLNK
                    },
                )?;
                same(
                    &format!("links of {path}"),
                    facts.nlink,
                    self.names_of(node),
                )
            }
        }
    }
}
