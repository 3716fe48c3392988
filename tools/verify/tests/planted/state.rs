//! Files in memory: what both mounts share.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fuser::{Errno, FileAttr, FileType, INodeNo};

pub const ROOT: u64 = 1;

/// How long what is old is shown by faults that show it.
const OLD_FOR: Duration = Duration::from_millis(20);

/// When a file is old: later than any round of these tests.
const OLD_AT: Duration = Duration::from_secs(3);

pub enum Body {
    Dir(BTreeMap<OsString, u64>),
    File(Vec<u8>),
    Symlink(OsString),
}

pub struct Node {
    pub body: Body,
    pub mode: u16,
    pub links: u32,
    pub mtime: SystemTime,
    pub made: Instant,
    pub xattrs: BTreeMap<OsString, Vec<u8>>,
}

/// Something as it was before a mount changed it.
pub struct Old<T> {
    when: Instant,
    by: usize,
    was: T,
}

impl<T: Clone> Old<T> {
    pub fn new(by: usize, was: T) -> Old<T> {
        Old {
            when: Instant::now(),
            by,
            was,
        }
    }

    /// What another mount sees for a while.
    pub fn seen_by(&self, mount: usize) -> Option<T> {
        (self.by != mount && self.when.elapsed() < OLD_FOR).then(|| self.was.clone())
    }
}

pub struct Lock {
    pub owner: (usize, u64),
    pub start: u64,
    pub end: u64,
    pub exclusive: bool,
}

pub struct State {
    pub nodes: BTreeMap<u64, Node>,
    next: u64,
    pub locks: BTreeMap<u64, Vec<Lock>>,
    pub old_names: BTreeMap<(u64, OsString), Old<u64>>,
    pub old_attrs: BTreeMap<u64, Old<FileAttr>>,
    pub old_data: BTreeMap<u64, Old<Vec<u8>>>,
    /// Removed names, and when they come back.
    pub ghosts: Vec<(Instant, u64, OsString, u64)>,
    /// Blocks that a mount has in its cache, for the fault that needs one: mount, inode, block.
    pub cached: BTreeMap<(usize, u64, u64), Vec<u8>>,
    /// Files of which a kernel may have pages: the number of the last READ that filled one.
    pub pages: BTreeMap<u64, u64>,
    /// How many pages were read: the next number.
    pub page_reads: u64,
    /// Bytes that truncations cut off.
    pub cut: BTreeMap<u64, Vec<u8>>,
}

pub type Outcome<T> = Result<T, Errno>;

impl State {
    pub fn new() -> State {
        let mut state = State {
            nodes: BTreeMap::new(),
            next: ROOT,
            locks: BTreeMap::new(),
            old_names: BTreeMap::new(),
            old_attrs: BTreeMap::new(),
            old_data: BTreeMap::new(),
            ghosts: Vec::new(),
            cached: BTreeMap::new(),
            pages: BTreeMap::new(),
            page_reads: 0,
            cut: BTreeMap::new(),
        };
        state.add(Body::Dir(BTreeMap::new()), 0o755);
        state
    }

    pub fn add(&mut self, body: Body, mode: u32) -> u64 {
        let inode = self.next;
        self.next += 1;
        self.nodes.insert(
            inode,
            Node {
                body,
                mode: (mode & 0o7777) as u16,
                links: 0,
                mtime: SystemTime::now(),
                made: Instant::now(),
                xattrs: BTreeMap::new(),
            },
        );
        inode
    }

    pub fn node(&mut self, inode: u64) -> Outcome<&mut Node> {
        self.nodes.get_mut(&inode).ok_or(Errno::ESTALE)
    }

    pub fn is_old(&self, inode: u64) -> bool {
        let node = self.nodes.get(&inode);
        node.is_some_and(|node| node.made.elapsed() > OLD_AT)
    }

    pub fn entries(&mut self, parent: u64) -> Outcome<&mut BTreeMap<OsString, u64>> {
        let node = self.nodes.get_mut(&parent).ok_or(Errno::ENOENT)?;
        match &mut node.body {
            Body::Dir(entries) => Ok(entries),
            _ => Err(Errno::ENOTDIR),
        }
    }

    pub fn find(&mut self, parent: u64, name: &OsStr) -> Outcome<u64> {
        self.entries(parent)?
            .get(name)
            .copied()
            .ok_or(Errno::ENOENT)
    }

    pub fn bytes(&mut self, inode: u64) -> Outcome<&mut Vec<u8>> {
        match &mut self.node(inode)?.body {
            Body::File(bytes) => Ok(bytes),
            _ => Err(Errno::EISDIR),
        }
    }

    /// Takes a link from a node; directories without one are gone, files stay for those who have them open.
    pub fn unlinked(&mut self, inode: u64) {
        let Some(node) = self.nodes.get_mut(&inode) else {
            return;
        };
        node.links = node.links.saturating_sub(1);
        if matches!(node.body, Body::Dir(_)) {
            self.nodes.remove(&inode);
        }
    }

    pub fn is_dir(&self, inode: u64) -> bool {
        matches!(
            self.nodes.get(&inode),
            Some(Node {
                body: Body::Dir(_),
                ..
            })
        )
    }

    pub fn has_entries(&self, inode: u64) -> bool {
        match self.nodes.get(&inode) {
            Some(Node {
                body: Body::Dir(entries),
                ..
            }) => !entries.is_empty(),
            _ => false,
        }
    }

    pub fn attr(&mut self, inode: u64) -> Outcome<FileAttr> {
        let node = self.node(inode)?;
        let (kind, size) = match &node.body {
            Body::Dir(_) => (FileType::Directory, 0),
            Body::File(bytes) => (FileType::RegularFile, bytes.len() as u64),
            Body::Symlink(target) => (FileType::Symlink, target.len() as u64),
        };
        Ok(FileAttr {
            ino: INodeNo(inode),
            size,
            blocks: 0,
            atime: UNIX_EPOCH,
            mtime: node.mtime,
            ctime: node.mtime,
            crtime: UNIX_EPOCH,
            kind,
            perm: node.mode,
            nlink: node.links,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }

    /// Names whose time has come are there again.
    pub fn raise_ghosts(&mut self) {
        let now = Instant::now();
        let due: Vec<_> = self.ghosts.extract_if(.., |ghost| ghost.0 <= now).collect();
        for (_, parent, name, inode) in due {
            if let Ok(entries) = self.entries(parent) {
                entries.entry(name).or_insert(inode);
            }
        }
    }
}
