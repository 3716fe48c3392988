//! A model of POSIX in maps. It computes the reply of each operation, in the order in which the shard applied them. Every
//! caller is root; the shard's own tests cover permissions.

mod names;

use gupfs_proto::meta::{MetaOp, SetTime};
use gupfs_proto::{FileKind, FsError, InodeId, SessionId, Timestamp};
use std::collections::BTreeMap;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    pub kind: FileKind,
    pub mode: u32,
    pub link_count: u32,
    pub data: Vec<u8>,
    pub mtime: Timestamp,
    /// Entries of a directory.
    pub children: BTreeMap<Vec<u8>, InodeId>,
    pub parent: InodeId,
    /// The session that removed the last name and has not forgotten the orphan.
    pub orphan_of: Option<SessionId>,
}

/// The parts of a reply that the simulation compares.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ComparedReply {
    Done,
    Inode {
        ino: InodeId,
        kind: FileKind,
        mode: u32,
        nlink: u32,
        size: Option<u64>,
        mtime: Timestamp,
    },
    Removed {
        victim: Option<InodeId>,
        orphan: bool,
    },
    Entries(BTreeMap<Vec<u8>, InodeId>),
    /// The write would exceed the limit of inline data.
    TooLarge,
}

pub type ComparedResult = Result<ComparedReply, FsError>;

/// The requesting session, the time, and the number of the inode that the shard created.
#[derive(Clone, Copy)]
pub struct RequestContext {
    pub session: SessionId,
    pub now: Timestamp,
    pub new_inode: Option<InodeId>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Model {
    pub nodes: BTreeMap<InodeId, Node>,
}

impl Model {
    pub fn new(now: Timestamp) -> Model {
        let mut root = node(FileKind::Directory, 0o755, now, InodeId::ROOT);
        root.link_count = 1;
        Model {
            nodes: BTreeMap::from([(InodeId::ROOT, root)]),
        }
    }

    pub fn apply(&mut self, op: &MetaOp, context: RequestContext) -> ComparedResult {
        match op {
            MetaOp::Lookup { dir, name } => self.lookup(*dir, name.as_bytes()),
            MetaOp::GetAttr { ino } => self.node(*ino).map(|_| self.reply_for(*ino)),
            MetaOp::Readdir { dir, .. } => Ok(ComparedReply::Entries(
                self.directory(*dir)?.children.clone(),
            )),
            MetaOp::Create {
                dir,
                name,
                create_mode,
                exclusive,
                ..
            } => self.create(*dir, name.as_bytes(), create_mode.mode, *exclusive, context),
            MetaOp::Mkdir {
                dir,
                name,
                create_mode,
            } => {
                let name = name.as_bytes();
                self.create_inode(*dir, name, FileKind::Directory, create_mode.mode, context)
            }
            MetaOp::Link { ino, dir, name } => self.link(*ino, *dir, name.as_bytes(), context),
            MetaOp::Unlink { dir, name } => self.remove(*dir, name.as_bytes(), false, context),
            MetaOp::Rmdir { dir, name } => self.remove(*dir, name.as_bytes(), true, context),
            MetaOp::Rename {
                from,
                name,
                to,
                new_name,
                mode,
            } => {
                let (old, new) = ((*from, name.as_bytes()), (*to, new_name.as_bytes()));
                self.rename(old, new, *mode, context)
            }
            MetaOp::SetAttr { ino, set } => {
                let node = self.node_mut(*ino)?;
                node.mode = set.mode.unwrap_or(node.mode);
                if let Some(SetTime::To(time)) = set.mtime {
                    node.mtime = time;
                }
                Ok(self.reply_for(*ino))
            }
            MetaOp::Truncate { ino, to, .. } => self.truncate(*ino, *to, context),
            MetaOp::WriteInline { ino, at, data, .. } => self.write(*ino, *at, data, context),
            MetaOp::Forget { inodes } => {
                inodes
                    .iter()
                    .for_each(|ino| self.forget(*ino, context.session));
                Ok(ComparedReply::Done)
            }
            other => unreachable!("the clients never send {other:?}"),
        }
    }

    fn node(&self, ino: InodeId) -> Result<&Node, FsError> {
        self.nodes.get(&ino).ok_or(FsError::Stale)
    }

    fn node_mut(&mut self, ino: InodeId) -> Result<&mut Node, FsError> {
        self.nodes.get_mut(&ino).ok_or(FsError::Stale)
    }

    fn directory(&self, ino: InodeId) -> Result<&Node, FsError> {
        match self.node(ino)? {
            node if node.kind == FileKind::Directory => Ok(node),
            _ => Err(FsError::NotDirectory),
        }
    }

    fn child(&self, dir: InodeId, name: &[u8]) -> Result<Option<InodeId>, FsError> {
        Ok(self.directory(dir)?.children.get(name).copied())
    }

    fn is_dir(&self, ino: InodeId) -> bool {
        self.nodes[&ino].kind == FileKind::Directory
    }

    fn reply_for(&self, ino: InodeId) -> ComparedReply {
        let node = &self.nodes[&ino];
        let subdirs = node.children.values().filter(|child| self.is_dir(**child));
        let nlink = match node.kind {
            FileKind::Directory if node.link_count == 0 => 0,
            FileKind::Directory => 2 + subdirs.count() as u32,
            _ => node.link_count,
        };
        ComparedReply::Inode {
            ino,
            kind: node.kind,
            mode: node.mode,
            nlink,
            size: (node.kind == FileKind::Regular).then_some(node.data.len() as u64),
            mtime: node.mtime,
        }
    }

    fn truncate(&mut self, ino: InodeId, to: u64, context: RequestContext) -> ComparedResult {
        self.regular(ino)?;
        let node = self.node_mut(ino)?;
        node.data.resize(to as usize, 0);
        node.mtime = context.now;
        Ok(self.reply_for(ino))
    }

    fn regular(&self, ino: InodeId) -> Result<(), FsError> {
        match self.node(ino)?.kind {
            FileKind::Regular => Ok(()),
            FileKind::Directory => Err(FsError::IsDirectory),
            _ => Err(FsError::Invalid),
        }
    }

    fn write(
        &mut self,
        ino: InodeId,
        at: gupfs_proto::meta::WritePosition,
        data: &[u8],
        context: RequestContext,
    ) -> ComparedResult {
        self.regular(ino)?;
        let node = self.node_mut(ino)?;
        let at = match at {
            gupfs_proto::meta::WritePosition::Offset(at) => at as usize,
            gupfs_proto::meta::WritePosition::End => node.data.len(),
        };
        let end = at + data.len();
        if end > gupfs_proto::limits::INLINE_MAX.get() as usize {
            return Ok(ComparedReply::TooLarge);
        }
        node.data.resize(node.data.len().max(end), 0);
        node.data[at..end].copy_from_slice(data);
        node.mtime = context.now;
        Ok(self.reply_for(ino))
    }
}

fn node(kind: FileKind, mode: u32, now: Timestamp, parent: InodeId) -> Node {
    Node {
        kind,
        mode,
        link_count: 0,
        data: Vec::new(),
        mtime: now,
        children: BTreeMap::new(),
        parent,
        orphan_of: None,
    }
}
