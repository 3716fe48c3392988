//! A model of POSIX in maps. It computes the reply of each operation, in the order in which the shard applied them. Every
//! caller is root; the shard's own tests cover permissions.

use gupfs_proto::meta::{MetaOp, RenameMode, SetTime};
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

    fn lookup(&self, dir: InodeId, name: &[u8]) -> ComparedResult {
        let found = self.child(dir, name)?.ok_or(FsError::NotFound)?;
        Ok(self.reply_for(found))
    }

    fn create(
        &mut self,
        dir: InodeId,
        name: &[u8],
        mode: u32,
        exclusive: bool,
        context: RequestContext,
    ) -> ComparedResult {
        match self.child(dir, name)? {
            Some(_) if exclusive => Err(FsError::Exists),
            Some(found) if self.is_dir(found) => Err(FsError::IsDirectory),
            Some(found) => Ok(self.reply_for(found)),
            None => self.create_inode(dir, name, FileKind::Regular, mode, context),
        }
    }

    fn check_can_add(&self, dir: InodeId, name: &[u8]) -> Result<(), FsError> {
        if self.child(dir, name)?.is_some() {
            return Err(FsError::Exists);
        }
        match self.nodes[&dir].link_count {
            0 => Err(FsError::NotFound),
            _ => Ok(()),
        }
    }

    fn create_inode(
        &mut self,
        dir: InodeId,
        name: &[u8],
        kind: FileKind,
        mode: u32,
        context: RequestContext,
    ) -> ComparedResult {
        self.check_can_add(dir, name)?;
        // The shard refused the operation if it assigned no number. `Done` differs from that refusal, so the comparison fails.
        let Some(ino) = context.new_inode else {
            return Ok(ComparedReply::Done);
        };
        assert!(!self.nodes.contains_key(&ino), "{ino} is in use");
        self.nodes.insert(ino, node(kind, mode, context.now, dir));
        self.attach(dir, name, ino, context.now);
        Ok(self.reply_for(ino))
    }

    fn link(
        &mut self,
        ino: InodeId,
        dir: InodeId,
        name: &[u8],
        context: RequestContext,
    ) -> ComparedResult {
        self.check_can_add(dir, name)?;
        match self.node(ino)? {
            node if node.kind == FileKind::Directory => return Err(FsError::NotPermitted),
            node if node.link_count == 0 => return Err(FsError::NotFound),
            _ => {}
        }
        self.attach(dir, name, ino, context.now);
        Ok(self.reply_for(ino))
    }

    fn remove(
        &mut self,
        dir: InodeId,
        name: &[u8],
        expects_directory: bool,
        context: RequestContext,
    ) -> ComparedResult {
        let victim = self.child(dir, name)?.ok_or(FsError::NotFound)?;
        self.check_kind(expects_directory, victim)?;
        if !self.nodes[&victim].children.is_empty() {
            return Err(FsError::NotEmpty);
        }
        Ok(self.drop_name(dir, name, context))
    }

    fn check_kind(&self, expects_directory: bool, victim: InodeId) -> Result<(), FsError> {
        match (expects_directory, self.is_dir(victim)) {
            (true, false) => Err(FsError::NotDirectory),
            (false, true) => Err(FsError::IsDirectory),
            _ => Ok(()),
        }
    }

    fn rename(
        &mut self,
        (from, name): (InodeId, &[u8]),
        (to, new): (InodeId, &[u8]),
        mode: RenameMode,
        context: RequestContext,
    ) -> ComparedResult {
        let (source, target) = (self.child(from, name)?, self.child(to, new)?);
        let moved = source.ok_or(FsError::NotFound)?;
        match (mode, target) {
            (RenameMode::NoReplace, Some(_)) => return Err(FsError::Exists),
            (RenameMode::Exchange, None) => return Err(FsError::NotFound),
            _ => {}
        }
        let exchange = mode == RenameMode::Exchange;
        if from != to && self.is_dir(moved) && self.is_under(to, moved) {
            return Err(FsError::IntoItself);
        }
        if from != to
            && target.is_some_and(|replaced| self.is_dir(replaced) && self.is_under(from, replaced))
        {
            return Err(match exchange {
                true => FsError::IntoItself,
                false => FsError::NotEmpty,
            });
        }
        let nothing = ComparedReply::Removed {
            victim: None,
            orphan: false,
        };
        if target == Some(moved) {
            return Ok(nothing);
        }
        match target {
            None if self.nodes[&to].link_count == 0 => return Err(FsError::NotFound),
            Some(replaced) if !exchange => {
                self.check_kind(self.is_dir(moved), replaced)?;
                if !self.nodes[&replaced].children.is_empty() {
                    return Err(FsError::NotEmpty);
                }
            }
            _ => {}
        }
        let removed = match target {
            Some(replaced) if exchange => {
                self.detach(to, new, context.now);
                self.detach(from, name, context.now);
                self.attach(from, name, replaced, context.now);
                self.attach(to, new, moved, context.now);
                return Ok(nothing);
            }
            Some(_) => self.drop_name(to, new, context),
            None => nothing,
        };
        self.detach(from, name, context.now);
        self.attach(to, new, moved, context.now);
        Ok(removed)
    }

    fn is_under(&self, mut dir: InodeId, parent: InodeId) -> bool {
        while dir != parent {
            if dir == InodeId::ROOT || self.nodes[&dir].link_count == 0 {
                return false;
            }
            dir = self.nodes[&dir].parent;
        }
        true
    }

    fn attach(&mut self, dir: InodeId, name: &[u8], ino: InodeId, now: Timestamp) {
        if let Some(node) = self.nodes.get_mut(&ino) {
            node.link_count += 1;
            node.parent = dir;
        }
        if let Some(dir) = self.nodes.get_mut(&dir) {
            dir.children.insert(name.to_vec(), ino);
            dir.mtime = now;
        }
    }

    fn detach(&mut self, dir: InodeId, name: &[u8], now: Timestamp) -> InodeId {
        let dir = self
            .nodes
            .get_mut(&dir)
            .expect("the caller checked the directory");
        dir.mtime = now;
        let ino = dir
            .children
            .remove(name)
            .expect("the caller looked the name up");
        self.nodes
            .get_mut(&ino)
            .expect("the entry refers to an inode")
            .link_count -= 1;
        ino
    }

    fn drop_name(&mut self, dir: InodeId, name: &[u8], context: RequestContext) -> ComparedReply {
        let victim = self.detach(dir, name, context.now);
        let node = self
            .nodes
            .get_mut(&victim)
            .expect("the entry referred to it");
        let orphan = node.link_count == 0;
        if orphan {
            node.orphan_of = Some(context.session);
        }
        ComparedReply::Removed {
            victim: Some(victim),
            orphan,
        }
    }

    fn forget(&mut self, ino: InodeId, session: SessionId) {
        if self
            .nodes
            .get(&ino)
            .is_some_and(|node| node.orphan_of == Some(session))
        {
            self.nodes.remove(&ino);
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
