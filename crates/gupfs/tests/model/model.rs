//! The model: the POSIX semantics for root, with maps and byte vectors.

use crate::op::{How, Op, Path, SLOTS};
use std::collections::BTreeMap;

/// The result of a call: an errno, or what a program can observe.
pub type Outcome = Result<Seen, i32>;

#[derive(Clone, PartialEq, Eq)]
pub enum Seen {
    Done,
    Bytes(Vec<u8>),
    Stat {
        kind: char,
        size: Option<u64>,
        nlink: Option<u64>,
        mode: u32,
    },
    Names(Vec<(String, char)>),
    Count(usize),
}

impl std::fmt::Debug for Seen {
    /// Bytes as runs, so that a difference can be read.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Seen::Done => write!(f, "done"),
            Seen::Bytes(bytes) => {
                let runs = bytes
                    .chunk_by(|a, b| a == b)
                    .take(12)
                    .map(|run| format!("{}×{}", run.len(), run[0]));
                write!(
                    f,
                    "{} bytes: {}",
                    bytes.len(),
                    runs.collect::<Vec<_>>().join(" ")
                )
            }
            Seen::Stat {
                kind,
                size,
                nlink,
                mode,
            } => write!(f, "{kind} size {size:?} nlink {nlink:?} mode {mode:o}"),
            Seen::Names(names) => write!(f, "{names:?}"),
            Seen::Count(count) => write!(f, "{count}"),
        }
    }
}

#[derive(Clone, Debug)]
enum Body {
    File(Vec<u8>),
    Dir(BTreeMap<&'static str, usize>),
    Link,
}

#[derive(Clone, Debug)]
struct Node {
    body: Body,
    mode: u32,
    nlink: u64,
    attribute: Option<u8>,
}

/// Where a symbolic link of this test leads: nowhere.
pub const NOWHERE: &str = "nowhere";

pub struct Model {
    /// Never reused; node 0 is the case's directory.
    nodes: Vec<Node>,
    open: [Option<usize>; SLOTS],
}

impl Default for Model {
    fn default() -> Model {
        Model {
            nodes: vec![Node {
                body: Body::Dir(BTreeMap::new()),
                mode: 0o755,
                nlink: 2,
                attribute: None,
            }],
            open: [None; SLOTS],
        }
    }
}

impl Model {
    pub fn close_all(&mut self) {
        self.open = [None; SLOTS];
    }

    pub fn apply(&mut self, op: &Op) -> Outcome {
        match op {
            Op::Create { path, exclusive } => self.create(path, *exclusive),
            Op::Mkdir(path) => self.add(path, Body::Dir(BTreeMap::new()), 0o755),
            Op::Symlink { to } => self.add(to, Body::Link, 0o777),
            Op::Rmdir(path) => self.rmdir(path),
            Op::Unlink(path) => self.unlink(path),
            Op::Rename { from, to, how } => self.rename(from, to, *how),
            Op::Link { of, to } => self.link(of, to),
            Op::Write {
                path,
                at,
                len,
                fill,
            } => {
                let node = self.file(path)?;
                Ok(self.write(node, *at as usize, *len, *fill))
            }
            Op::Append { path, len, fill } => {
                let node = self.file(path)?;
                let end = self.bytes(node).len();
                Ok(self.write(node, end, *len, *fill))
            }
            Op::Truncate { path, to } => {
                let node = self.file(path)?;
                self.bytes(node).resize(*to as usize, 0);
                Ok(Seen::Done)
            }
            Op::Punch { path, at, len } => {
                let node = self.file(path)?;
                let bytes = self.bytes(node);
                let end = ((at + len) as usize).min(bytes.len());
                let start = (*at as usize).min(end);
                bytes[start..end].fill(0);
                Ok(Seen::Done)
            }
            Op::Allocate { path, at, len } => {
                let node = self.file(path)?;
                let bytes = self.bytes(node);
                let end = ((at + len) as usize).max(bytes.len());
                bytes.resize(end, 0);
                Ok(Seen::Done)
            }
            Op::Copy { from, to, at, len } => {
                let (from, to) = (self.file(from)?, self.file(to)?);
                let source = self.bytes(from).clone();
                let part = source[..(*len).min(source.len())].to_vec();
                // Ranges of one file may not overlap, as far as there is something to copy.
                if from == to && (*at as usize) < part.len() {
                    return Err(libc::EINVAL);
                }
                let bytes = self.bytes(to);
                let at = *at as usize;
                if !part.is_empty() {
                    bytes.resize(bytes.len().max(at + part.len()), 0);
                    bytes[at..at + part.len()].copy_from_slice(&part);
                }
                Ok(Seen::Count(part.len()))
            }
            Op::Read { path, at, len } => {
                let node = self.file(path)?;
                Ok(self.read(node, *at, *len))
            }
            Op::Stat(path) => self.find(path).map(|node| self.stat(node)),
            Op::List(path) => self.list(path),
            Op::Chmod { path, mode } => {
                let node = self.follow(path)?;
                self.nodes[node].mode = *mode;
                Ok(Seen::Done)
            }
            Op::SetAttribute { path, value } => {
                let node = self.follow(path)?;
                self.nodes[node].attribute = Some(*value);
                Ok(Seen::Done)
            }
            Op::GetAttribute(path) => {
                let node = self.follow(path)?;
                self.nodes[node]
                    .attribute
                    .map(|value| Seen::Bytes(vec![value]))
                    .ok_or(libc::ENODATA)
            }
            Op::RemoveAttribute(path) => {
                let node = self.follow(path)?;
                self.nodes[node]
                    .attribute
                    .take()
                    .map(|_| Seen::Done)
                    .ok_or(libc::ENODATA)
            }
            Op::Open { slot, path } => {
                // The slot's former file is closed, whether this succeeds or not.
                self.open[*slot] = None;
                self.open[*slot] = Some(self.file(path)?);
                Ok(Seen::Done)
            }
            Op::WriteOpen {
                slot,
                at,
                len,
                fill,
            } => {
                let node = self.open[*slot].ok_or(libc::EBADF)?;
                Ok(self.write(node, *at as usize, *len, *fill))
            }
            Op::ReadOpen { slot, at, len } => {
                let node = self.open[*slot].ok_or(libc::EBADF)?;
                Ok(self.read(node, *at, *len))
            }
            Op::StatOpen { slot } => self.open[*slot]
                .map(|node| self.stat(node))
                .ok_or(libc::EBADF),
            Op::Close { slot } => self.open[*slot]
                .take()
                .map(|_| Seen::Done)
                .ok_or(libc::EBADF),
            Op::Sync(path) => self.follow(path).map(|_| Seen::Done),
            Op::Restart => Ok(Seen::Done),
        }
    }

    fn entries(&self, node: usize) -> Result<&BTreeMap<&'static str, usize>, i32> {
        match &self.nodes[node].body {
            Body::Dir(entries) => Ok(entries),
            Body::File(_) => Err(libc::ENOTDIR),
            // Followed, it leads to nothing.
            Body::Link => Err(libc::ENOENT),
        }
    }

    fn entries_mut(&mut self, node: usize) -> &mut BTreeMap<&'static str, usize> {
        match &mut self.nodes[node].body {
            Body::Dir(entries) => entries,
            _ => unreachable!("checked by entries"),
        }
    }

    /// The directory above the last name, and that name.
    fn parent(&self, path: &Path) -> Result<(usize, &'static str), i32> {
        let (last, above) = path.0.split_last().expect("a path has a name");
        let mut node = 0;
        for name in above {
            node = *self.entries(node)?.get(name).ok_or(libc::ENOENT)?;
        }
        self.entries(node)?;
        Ok((node, last))
    }

    fn find(&self, path: &Path) -> Result<usize, i32> {
        let (dir, name) = self.parent(path)?;
        self.entries(dir)?.get(name).copied().ok_or(libc::ENOENT)
    }

    fn follow(&self, path: &Path) -> Result<usize, i32> {
        let node = self.find(path)?;
        if matches!(self.nodes[node].body, Body::Link) {
            Err(libc::ENOENT)
        } else {
            Ok(node)
        }
    }

    /// As open(2) for reading and writing finds it.
    fn file(&self, path: &Path) -> Result<usize, i32> {
        let node = self.follow(path)?;
        if matches!(self.nodes[node].body, Body::Dir(_)) {
            Err(libc::EISDIR)
        } else {
            Ok(node)
        }
    }

    fn bytes(&mut self, node: usize) -> &mut Vec<u8> {
        match &mut self.nodes[node].body {
            Body::File(bytes) => bytes,
            _ => unreachable!("checked by file"),
        }
    }

    fn write(&mut self, node: usize, at: usize, len: usize, fill: u8) -> Seen {
        let bytes = self.bytes(node);
        bytes.resize(bytes.len().max(at + len), 0);
        bytes[at..at + len].fill(fill);
        Seen::Count(len)
    }

    fn read(&mut self, node: usize, at: u64, len: usize) -> Seen {
        let bytes = self.bytes(node);
        let start = (at as usize).min(bytes.len());
        Seen::Bytes(bytes[start..(start + len).min(bytes.len())].to_vec())
    }

    fn stat(&self, node: usize) -> Seen {
        let Node {
            body, mode, nlink, ..
        } = &self.nodes[node];
        let (kind, size) = match body {
            Body::File(bytes) => ('f', Some(bytes.len() as u64)),
            Body::Dir(_) => ('d', None),
            Body::Link => ('l', Some(NOWHERE.len() as u64)),
        };
        Seen::Stat {
            kind,
            size,
            nlink: Some(*nlink),
            mode: *mode,
        }
    }

    fn kind(&self, node: usize) -> char {
        match self.nodes[node].body {
            Body::File(_) => 'f',
            Body::Dir(_) => 'd',
            Body::Link => 'l',
        }
    }

    fn list(&self, path: &Path) -> Outcome {
        let node = self.follow(path)?;
        let entries = self.entries(node)?;
        Ok(Seen::Names(
            entries
                .iter()
                .map(|(name, node)| (name.to_string(), self.kind(*node)))
                .collect(),
        ))
    }

    fn create(&mut self, path: &Path, exclusive: bool) -> Outcome {
        let (dir, name) = self.parent(path)?;
        match self.entries(dir)?.get(name) {
            Some(_) if exclusive => Err(libc::EEXIST),
            Some(node) => match self.nodes[*node].body {
                Body::Dir(_) => Err(libc::EISDIR),
                // O_NOFOLLOW, so that the link is not made true.
                Body::Link => Err(libc::ELOOP),
                Body::File(_) => Ok(Seen::Done),
            },
            None => {
                self.insert(dir, name, Body::File(Vec::new()), 0o644);
                Ok(Seen::Done)
            }
        }
    }

    fn add(&mut self, path: &Path, body: Body, mode: u32) -> Outcome {
        let (dir, name) = self.parent(path)?;
        if self.entries(dir)?.contains_key(name) {
            return Err(libc::EEXIST);
        }
        self.insert(dir, name, body, mode);
        Ok(Seen::Done)
    }

    fn insert(&mut self, dir: usize, name: &'static str, body: Body, mode: u32) {
        let is_dir = matches!(body, Body::Dir(_));
        self.nodes.push(Node {
            body,
            mode,
            nlink: if is_dir { 2 } else { 1 },
            attribute: None,
        });
        let node = self.nodes.len() - 1;
        self.entries_mut(dir).insert(name, node);
        self.nodes[dir].nlink += u64::from(is_dir);
    }

    /// Removes a name from a directory, and decrements the link count of its inode.
    fn drop_name(&mut self, dir: usize, name: &'static str) {
        let node = self.entries_mut(dir).remove(name).expect("checked before");
        if self.kind(node) == 'd' {
            self.nodes[dir].nlink -= 1;
            self.nodes[node].nlink = 0;
        } else {
            self.nodes[node].nlink -= 1;
        }
    }

    fn rmdir(&mut self, path: &Path) -> Outcome {
        let (dir, name) = self.parent(path)?;
        let node = *self.entries(dir)?.get(name).ok_or(libc::ENOENT)?;
        match &self.nodes[node].body {
            Body::Dir(entries) if entries.is_empty() => {}
            Body::Dir(_) => return Err(libc::ENOTEMPTY),
            _ => return Err(libc::ENOTDIR),
        }
        self.drop_name(dir, name);
        Ok(Seen::Done)
    }

    fn unlink(&mut self, path: &Path) -> Outcome {
        let (dir, name) = self.parent(path)?;
        let node = *self.entries(dir)?.get(name).ok_or(libc::ENOENT)?;
        if self.kind(node) == 'd' {
            return Err(libc::EISDIR);
        }
        self.drop_name(dir, name);
        Ok(Seen::Done)
    }

    fn link(&mut self, of: &Path, to: &Path) -> Outcome {
        let node = self.find(of)?;
        let (dir, name) = self.parent(to)?;
        if self.entries(dir)?.contains_key(name) {
            return Err(libc::EEXIST);
        }
        if self.kind(node) == 'd' {
            return Err(libc::EPERM);
        }
        self.entries_mut(dir).insert(name, node);
        self.nodes[node].nlink += 1;
        Ok(Seen::Done)
    }

    /// Whether `node` is `below` or above it.
    fn holds(&self, node: usize, below: usize) -> bool {
        node == below
            || match &self.nodes[node].body {
                Body::Dir(entries) => entries.values().any(|child| self.holds(*child, below)),
                _ => false,
            }
    }

    fn rename(&mut self, from: &Path, to: &Path, how: How) -> Outcome {
        let (from_dir, from_name) = self.parent(from)?;
        let (to_dir, to_name) = self.parent(to)?;
        let moved = *self.entries(from_dir)?.get(from_name).ok_or(libc::ENOENT)?;
        let target = self.entries(to_dir)?.get(to_name).copied();
        match (how, target) {
            (How::NoReplace, Some(_)) => return Err(libc::EEXIST),
            (How::Exchange, None) => return Err(libc::ENOENT),
            _ => {}
        }
        // Linux checks the parent directories before the target.
        if self.holds(moved, to_dir) {
            return Err(libc::EINVAL);
        }
        if let Some(target) = target
            && self.holds(target, from_dir)
        {
            return Err(if how == How::Exchange {
                libc::EINVAL
            } else {
                libc::ENOTEMPTY
            });
        }
        let is_dir = |node: usize, model: &Model| model.kind(node) == 'd';
        if how == How::Exchange {
            let target = target.expect("checked above");
            let (a, b) = (
                u64::from(is_dir(moved, self)),
                u64::from(is_dir(target, self)),
            );
            self.entries_mut(from_dir).insert(from_name, target);
            self.entries_mut(to_dir).insert(to_name, moved);
            self.nodes[from_dir].nlink = self.nodes[from_dir].nlink - a + b;
            self.nodes[to_dir].nlink = self.nodes[to_dir].nlink - b + a;
            return Ok(Seen::Done);
        }
        if let Some(target) = target {
            if target == moved {
                return Ok(Seen::Done);
            }
            match (is_dir(moved, self), is_dir(target, self)) {
                (true, false) => return Err(libc::ENOTDIR),
                (false, true) => return Err(libc::EISDIR),
                (true, true) if !self.entries(target)?.is_empty() => return Err(libc::ENOTEMPTY),
                _ => self.drop_name(to_dir, to_name),
            }
        }
        self.entries_mut(from_dir).remove(from_name);
        self.entries_mut(to_dir).insert(to_name, moved);
        if is_dir(moved, self) {
            self.nodes[from_dir].nlink -= 1;
            self.nodes[to_dir].nlink += 1;
        }
        Ok(Seen::Done)
    }
}
