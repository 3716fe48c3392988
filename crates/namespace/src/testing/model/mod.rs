//! A model of POSIX: nodes in a vector, children in maps, no records. It shares no code with the state machine; its results and
//! errors follow the standard and the order of checks in Linux, so a difference is a mistake in one of the two.

mod attributes;
mod files;
mod names;

use gupfs_proto::{FileKind, FsError, Timestamp};
use std::collections::BTreeMap;

pub type NodeId = usize;
pub const ROOT: NodeId = 0;

#[derive(Clone, Debug, Default)]
pub struct ModelCaller {
    pub uid: u32,
    pub gid: u32,
    pub groups: Vec<u32>,
}

impl ModelCaller {
    fn is_root(&self) -> bool {
        self.uid == 0
    }

    fn has_group(&self, gid: u32) -> bool {
        self.is_root() || self.is_member(gid)
    }

    fn is_member(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.contains(&gid)
    }
}

#[derive(Clone, Debug)]
pub struct ModelNode {
    pub kind: FileKind,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub names: u32,
    pub size: u64,
    /// None once the bytes are in objects.
    pub data: Option<Vec<u8>>,
    pub atime: Timestamp,
    pub mtime: Timestamp,
    pub ctime: Timestamp,
    pub xattrs: BTreeMap<String, Vec<u8>>,
    pub children: BTreeMap<String, NodeId>,
    pub parent: NodeId,
    /// Without a name, and not forgotten by its session.
    pub orphan: bool,
    pub linkable: bool,
    pub gone: bool,
}

pub type ModelResult<T> = Result<T, FsError>;

#[derive(Clone, Debug)]
pub struct Model {
    pub nodes: Vec<ModelNode>,
    pub growth: bool,
    pub now: Timestamp,
}

const READ: u32 = 4;
const WRITE: u32 = 2;
const SEARCH: u32 = 1;

impl Model {
    pub fn new(now: Timestamp) -> Model {
        let mut model = Model {
            nodes: Vec::new(),
            growth: true,
            now,
        };
        model.add(FileKind::Directory, 0o755, 0, 0);
        model.nodes[ROOT].names = 1;
        model
    }

    fn add(&mut self, kind: FileKind, mode: u32, uid: u32, gid: u32) -> NodeId {
        let now = self.now;
        self.nodes.push(ModelNode {
            kind,
            mode,
            uid,
            gid,
            names: 0,
            size: 0,
            data: Some(Vec::new()),
            atime: now,
            mtime: now,
            ctime: now,
            xattrs: BTreeMap::new(),
            children: BTreeMap::new(),
            parent: ROOT,
            orphan: false,
            linkable: false,
            gone: false,
        });
        self.nodes.len() - 1
    }

    pub fn node(&self, id: NodeId) -> ModelResult<&ModelNode> {
        let node = &self.nodes[id];
        if node.gone {
            Err(FsError::Stale)
        } else {
            Ok(node)
        }
    }

    pub fn nlink(&self, id: NodeId) -> u32 {
        let node = &self.nodes[id];
        match node.kind {
            FileKind::Directory if node.names == 0 => 0,
            FileKind::Directory => {
                2 + node
                    .children
                    .values()
                    .filter(|child| self.is_dir(**child))
                    .count() as u32
            }
            _ => node.names,
        }
    }

    fn is_dir(&self, id: NodeId) -> bool {
        self.nodes[id].kind == FileKind::Directory
    }

    // Permissions.

    fn granted(&self, id: NodeId, caller: &ModelCaller, want: u32) -> bool {
        let node = &self.nodes[id];
        if caller.is_root() {
            return want & SEARCH == 0 || self.is_dir(id) || node.mode & 0o111 != 0;
        }
        let shift = if caller.uid == node.uid {
            6
        } else if caller.is_member(node.gid) {
            3
        } else {
            0
        };
        node.mode >> shift & want == want
    }

    pub fn access(&self, id: NodeId, caller: &ModelCaller, want: u32) -> ModelResult<()> {
        self.node(id)?;
        if self.granted(id, caller, want) {
            Ok(())
        } else {
            Err(FsError::Denied)
        }
    }

    fn owns(&self, id: NodeId, caller: &ModelCaller) -> bool {
        caller.is_root() || self.nodes[id].uid == caller.uid
    }

    fn check_growth(&self) -> ModelResult<()> {
        if self.growth {
            Ok(())
        } else {
            Err(FsError::NoSpace)
        }
    }

    fn touch(&mut self, id: NodeId) {
        (self.nodes[id].mtime, self.nodes[id].ctime) = (self.now, self.now);
    }
}
