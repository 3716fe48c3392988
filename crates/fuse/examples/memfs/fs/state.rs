//! Nodes, and the reference counts that keep them.

use std::collections::BTreeMap;

use gupfs_fuse::op::EntryName;
use gupfs_fuse::{Call, Errno, FuseTimestamp, InodeAttr, NodeId, Result};
use rustix::time::{ClockId, clock_gettime};

use super::locks::Locks;

pub struct FileTree {
    pub nodes: BTreeMap<u64, Node>,
    next: u64,
}

pub struct Node {
    /// `attr()` fills in size and blocks.
    pub attr: InodeAttr,
    pub born: FuseTimestamp,
    pub kind: NodeKind,
    pub xattrs: BTreeMap<Box<[u8]>, Vec<u8>>,
    pub locks: Locks,
    /// Lookup references of the kernel.
    pub lookups: u64,
    /// Open files and directories.
    pub opens: u64,
}

pub enum NodeKind {
    File(Vec<u8>),
    Directory(Directory),
    Symlink(Box<[u8]>),
}

/// Entries in two orders: by name, and by age. Listings use the age as offset, which stays valid while entries are added and
/// removed.
pub struct Directory {
    pub parent: NodeId,
    pub by_name: BTreeMap<Box<[u8]>, (u64, NodeId)>,
    pub by_age: BTreeMap<u64, Box<[u8]>>,
    pub next: u64,
}

impl NodeKind {
    pub fn directory(parent: NodeId) -> NodeKind {
        // Offsets 1 and 2 belong to "." and "..".
        NodeKind::Directory(Directory {
            parent,
            by_name: BTreeMap::new(),
            by_age: BTreeMap::new(),
            next: 3,
        })
    }
}

pub fn now() -> FuseTimestamp {
    let time = clock_gettime(ClockId::Realtime);
    FuseTimestamp {
        seconds: time.tv_sec,
        nanos: time.tv_nsec as u32,
    }
}

impl Node {
    pub fn attr(&self) -> InodeAttr {
        let size = match &self.kind {
            NodeKind::File(bytes) => bytes.len(),
            NodeKind::Symlink(target) => target.len(),
            NodeKind::Directory(_) => 0,
        } as u64;
        InodeAttr {
            size,
            blocks: size.div_ceil(512),
            ..self.attr
        }
    }

    pub fn directory(&self) -> Result<&Directory> {
        match &self.kind {
            NodeKind::Directory(directory) => Ok(directory),
            _ => Err(Errno::ENOTDIR),
        }
    }

    pub fn directory_mut(&mut self) -> Result<&mut Directory> {
        match &mut self.kind {
            NodeKind::Directory(directory) => Ok(directory),
            _ => Err(Errno::ENOTDIR),
        }
    }

    pub fn is_directory(&self) -> bool {
        matches!(self.kind, NodeKind::Directory(_))
    }

    pub fn touch(&mut self) {
        self.attr.mtime = now();
        self.attr.ctime = self.attr.mtime;
    }
}

impl FileTree {
    pub fn new() -> FileTree {
        let mut state = FileTree {
            nodes: BTreeMap::new(),
            next: 1,
        };
        let root = state.node_with(
            libc::S_IFDIR | 0o755,
            0,
            (0, 0),
            NodeKind::directory(NodeId::ROOT),
        );
        root.attr.nlink = 2;
        root.lookups = 1;
        state
    }

    pub fn node(&self, node: NodeId) -> Result<&Node> {
        self.nodes.get(&node.0).ok_or(Errno::ESTALE)
    }

    pub fn node_mut(&mut self, node: NodeId) -> Result<&mut Node> {
        self.nodes.get_mut(&node.0).ok_or(Errno::ESTALE)
    }

    /// Adds a node without a name, owned by the caller.
    pub fn add_node(&mut self, call: &Call, mode: u32, rdev: u32, kind: NodeKind) -> &mut Node {
        self.node_with(mode, rdev, (call.uid, call.gid), kind)
    }

    fn node_with(&mut self, mode: u32, rdev: u32, owner: (u32, u32), kind: NodeKind) -> &mut Node {
        let ino = self.next;
        self.next += 1;
        let born = now();
        let attr = InodeAttr {
            ino,
            atime: born,
            mtime: born,
            ctime: born,
            mode,
            uid: owner.0,
            gid: owner.1,
            rdev,
            blksize: 4096,
            ..InodeAttr::default()
        };
        let node = Node {
            attr,
            born,
            kind,
            xattrs: BTreeMap::new(),
            locks: Locks::default(),
            lookups: 0,
            opens: 0,
        };
        self.nodes.entry(ino).or_insert(node)
    }

    /// Adds an empty file to the root.
    pub fn fill(&mut self, name: &str) {
        let node = self.node_with(libc::S_IFREG | 0o644, 0, (0, 0), NodeKind::File(Vec::new()));
        node.attr.nlink = 1;
        let node = NodeId(node.attr.ino);
        let added = self.add_name(NodeId::ROOT, &EntryName::new(name.as_bytes()), node);
        assert_eq!(added, Ok(()), "each name is filled in once");
    }

    /// Adds a node with a name.
    pub fn create(
        &mut self,
        call: &Call,
        name: &EntryName,
        mode: u32,
        rdev: u32,
        kind: NodeKind,
    ) -> Result<&mut Node> {
        if self
            .node(call.node)?
            .directory()?
            .by_name
            .contains_key(name.as_bytes())
        {
            return Err(Errno::EEXIST);
        }
        let links = if matches!(kind, NodeKind::Directory(_)) {
            2
        } else {
            1
        };
        let node = self.add_node(call, mode, rdev, kind);
        node.attr.nlink = links;
        let id = NodeId(node.attr.ino);
        self.add_name(call.node, name, id)?;
        self.node_mut(id)
    }

    /// Removes a node that has no name and to which neither the kernel nor an open file refers.
    pub fn drop_if_unused(&mut self, node: NodeId) {
        let unused = |node: &Node| node.attr.nlink == 0 && node.lookups == 0 && node.opens == 0;
        if self.nodes.get(&node.0).is_some_and(unused) {
            self.nodes.remove(&node.0);
        }
    }
}
