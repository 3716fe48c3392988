//! A model of POSIX in a map: the result that each operation must have, in the order in which the shard applied them.
//! Every caller is root; the shard's own tests cover permissions.

use gupfs_proto::meta::{MetaOp, RenameMode, SetTime};
use gupfs_proto::{FileKind, FsError, InodeId, SessionId, Timestamp};
use std::collections::BTreeMap;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    pub kind: FileKind,
    pub mode: u32,
    pub names: u32,
    pub data: Vec<u8>,
    pub mtime: Timestamp,
    /// Of a directory.
    pub children: BTreeMap<Vec<u8>, InodeId>,
    pub above: InodeId,
    /// The session that removed its last name and has not forgotten it.
    pub held: Option<SessionId>,
}

/// What an answer says, as far as it is compared.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Seen {
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
    /// The file would be too large for its inode.
    Outgrown,
}

pub type Try = Result<Seen, FsError>;

/// The requesting session, the time, and the number that a new inode got.
#[derive(Clone, Copy)]
pub struct Asked {
    pub session: SessionId,
    pub now: Timestamp,
    pub number: Option<InodeId>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Model {
    pub nodes: BTreeMap<InodeId, Node>,
}

impl Model {
    pub fn new(now: Timestamp) -> Model {
        let mut root = node(FileKind::Directory, 0o755, now, InodeId::ROOT);
        root.names = 1;
        Model {
            nodes: BTreeMap::from([(InodeId::ROOT, root)]),
        }
    }

    pub fn apply(&mut self, op: &MetaOp, asked: Asked) -> Try {
        match op {
            MetaOp::Lookup { dir, name } => self.lookup(*dir, name.as_bytes()),
            MetaOp::GetAttr { ino } => self.node(*ino).map(|_| self.seen(*ino)),
            MetaOp::Readdir { dir, .. } => Ok(Seen::Entries(self.dir(*dir)?.children.clone())),
            MetaOp::Create {
                dir,
                name,
                create_mode: make,
                exclusive,
                ..
            } => self.create(*dir, name.as_bytes(), make.mode, *exclusive, asked),
            MetaOp::Mkdir {
                dir,
                name,
                create_mode: make,
            } => {
                let name = name.as_bytes();
                self.make(*dir, name, FileKind::Directory, make.mode, asked)
            }
            MetaOp::Link { ino, dir, name } => self.link(*ino, *dir, name.as_bytes(), asked),
            MetaOp::Unlink { dir, name } => self.remove(*dir, name.as_bytes(), false, asked),
            MetaOp::Rmdir { dir, name } => self.remove(*dir, name.as_bytes(), true, asked),
            MetaOp::Rename {
                from,
                name,
                to,
                new_name,
                mode: how,
            } => {
                let (old, new) = ((*from, name.as_bytes()), (*to, new_name.as_bytes()));
                self.rename(old, new, *how, asked)
            }
            MetaOp::SetAttr { ino, set } => {
                let node = self.node_mut(*ino)?;
                node.mode = set.mode.unwrap_or(node.mode);
                if let Some(SetTime::To(time)) = set.mtime {
                    node.mtime = time;
                }
                Ok(self.seen(*ino))
            }
            MetaOp::Truncate { ino, to, .. } => self.truncate(*ino, *to, asked),
            MetaOp::WriteInline { ino, at, data, .. } => self.write(*ino, *at, data, asked),
            MetaOp::Forget { inodes } => {
                inodes
                    .iter()
                    .for_each(|ino| self.forget(*ino, asked.session));
                Ok(Seen::Done)
            }
            other => unreachable!("nobody in this town asks {other:?}"),
        }
    }

    fn node(&self, ino: InodeId) -> Result<&Node, FsError> {
        self.nodes.get(&ino).ok_or(FsError::Stale)
    }

    fn node_mut(&mut self, ino: InodeId) -> Result<&mut Node, FsError> {
        self.nodes.get_mut(&ino).ok_or(FsError::Stale)
    }

    fn dir(&self, ino: InodeId) -> Result<&Node, FsError> {
        match self.node(ino)? {
            node if node.kind == FileKind::Directory => Ok(node),
            _ => Err(FsError::NotDirectory),
        }
    }

    fn child(&self, dir: InodeId, name: &[u8]) -> Result<Option<InodeId>, FsError> {
        Ok(self.dir(dir)?.children.get(name).copied())
    }

    fn is_dir(&self, ino: InodeId) -> bool {
        self.nodes[&ino].kind == FileKind::Directory
    }

    fn seen(&self, ino: InodeId) -> Seen {
        let node = &self.nodes[&ino];
        let subdirs = node.children.values().filter(|child| self.is_dir(**child));
        let nlink = match node.kind {
            FileKind::Directory if node.names == 0 => 0,
            FileKind::Directory => 2 + subdirs.count() as u32,
            _ => node.names,
        };
        Seen::Inode {
            ino,
            kind: node.kind,
            mode: node.mode,
            nlink,
            size: (node.kind == FileKind::Regular).then_some(node.data.len() as u64),
            mtime: node.mtime,
        }
    }

    fn lookup(&self, dir: InodeId, name: &[u8]) -> Try {
        let found = self.child(dir, name)?.ok_or(FsError::NotFound)?;
        Ok(self.seen(found))
    }

    fn create(
        &mut self,
        dir: InodeId,
        name: &[u8],
        mode: u32,
        exclusive: bool,
        asked: Asked,
    ) -> Try {
        match self.child(dir, name)? {
            Some(_) if exclusive => Err(FsError::Exists),
            Some(found) if self.is_dir(found) => Err(FsError::IsDirectory),
            Some(found) => Ok(self.seen(found)),
            None => self.make(dir, name, FileKind::Regular, mode, asked),
        }
    }

    fn may_add(&self, dir: InodeId, name: &[u8]) -> Result<(), FsError> {
        if self.child(dir, name)?.is_some() {
            return Err(FsError::Exists);
        }
        match self.nodes[&dir].names {
            0 => Err(FsError::NotFound),
            _ => Ok(()),
        }
    }

    fn make(&mut self, dir: InodeId, name: &[u8], kind: FileKind, mode: u32, asked: Asked) -> Try {
        self.may_add(dir, name)?;
        // Without a number the shard refused; what else it says will not be this.
        let Some(ino) = asked.number else {
            return Ok(Seen::Done);
        };
        assert!(!self.nodes.contains_key(&ino), "{ino} is in use");
        self.nodes.insert(ino, node(kind, mode, asked.now, dir));
        self.attach(dir, name, ino, asked.now);
        Ok(self.seen(ino))
    }

    fn link(&mut self, ino: InodeId, dir: InodeId, name: &[u8], asked: Asked) -> Try {
        self.may_add(dir, name)?;
        match self.node(ino)? {
            node if node.kind == FileKind::Directory => return Err(FsError::NotPermitted),
            node if node.names == 0 => return Err(FsError::NotFound),
            _ => {}
        }
        self.attach(dir, name, ino, asked.now);
        Ok(self.seen(ino))
    }

    fn remove(&mut self, dir: InodeId, name: &[u8], as_dir: bool, asked: Asked) -> Try {
        let victim = self.child(dir, name)?.ok_or(FsError::NotFound)?;
        self.same_kind(as_dir, victim)?;
        if !self.nodes[&victim].children.is_empty() {
            return Err(FsError::NotEmpty);
        }
        Ok(self.drop_name(dir, name, asked))
    }

    fn same_kind(&self, as_dir: bool, victim: InodeId) -> Result<(), FsError> {
        match (as_dir, self.is_dir(victim)) {
            (true, false) => Err(FsError::NotDirectory),
            (false, true) => Err(FsError::IsDirectory),
            _ => Ok(()),
        }
    }

    fn rename(
        &mut self,
        (from, name): (InodeId, &[u8]),
        (to, new): (InodeId, &[u8]),
        how: RenameMode,
        asked: Asked,
    ) -> Try {
        let (source, target) = (self.child(from, name)?, self.child(to, new)?);
        let moved = source.ok_or(FsError::NotFound)?;
        match (how, target) {
            (RenameMode::NoReplace, Some(_)) => return Err(FsError::Exists),
            (RenameMode::Exchange, None) => return Err(FsError::NotFound),
            _ => {}
        }
        let exchange = how == RenameMode::Exchange;
        if from != to && self.is_dir(moved) && self.is_under(to, moved) {
            return Err(FsError::IntoItself);
        }
        if from != to && target.is_some_and(|over| self.is_dir(over) && self.is_under(from, over)) {
            return Err(match exchange {
                true => FsError::IntoItself,
                false => FsError::NotEmpty,
            });
        }
        let nothing = Seen::Removed {
            victim: None,
            orphan: false,
        };
        if target == Some(moved) {
            return Ok(nothing);
        }
        match target {
            None if self.nodes[&to].names == 0 => return Err(FsError::NotFound),
            Some(over) if !exchange => {
                self.same_kind(self.is_dir(moved), over)?;
                if !self.nodes[&over].children.is_empty() {
                    return Err(FsError::NotEmpty);
                }
            }
            _ => {}
        }
        let removed = match target {
            Some(over) if exchange => {
                self.detach(to, new, asked.now);
                self.detach(from, name, asked.now);
                self.attach(from, name, over, asked.now);
                self.attach(to, new, moved, asked.now);
                return Ok(nothing);
            }
            Some(_) => self.drop_name(to, new, asked),
            None => nothing,
        };
        self.detach(from, name, asked.now);
        self.attach(to, new, moved, asked.now);
        Ok(removed)
    }

    fn is_under(&self, mut dir: InodeId, above: InodeId) -> bool {
        while dir != above {
            if dir == InodeId::ROOT || self.nodes[&dir].names == 0 {
                return false;
            }
            dir = self.nodes[&dir].above;
        }
        true
    }

    fn attach(&mut self, dir: InodeId, name: &[u8], ino: InodeId, now: Timestamp) {
        if let Some(node) = self.nodes.get_mut(&ino) {
            node.names += 1;
            node.above = dir;
        }
        if let Some(dir) = self.nodes.get_mut(&dir) {
            dir.children.insert(name.to_vec(), ino);
            dir.mtime = now;
        }
    }

    fn detach(&mut self, dir: InodeId, name: &[u8], now: Timestamp) -> InodeId {
        let dir = self.nodes.get_mut(&dir).expect("it was looked at");
        dir.mtime = now;
        let ino = dir.children.remove(name).expect("it was looked up");
        self.nodes.get_mut(&ino).expect("it has a name").names -= 1;
        ino
    }

    fn drop_name(&mut self, dir: InodeId, name: &[u8], asked: Asked) -> Seen {
        let victim = self.detach(dir, name, asked.now);
        let node = self.nodes.get_mut(&victim).expect("it was there");
        let orphan = node.names == 0;
        if orphan {
            node.held = Some(asked.session);
        }
        Seen::Removed {
            victim: Some(victim),
            orphan,
        }
    }

    fn forget(&mut self, ino: InodeId, session: SessionId) {
        if self
            .nodes
            .get(&ino)
            .is_some_and(|node| node.held == Some(session))
        {
            self.nodes.remove(&ino);
        }
    }

    fn truncate(&mut self, ino: InodeId, to: u64, asked: Asked) -> Try {
        self.regular(ino)?;
        let node = self.node_mut(ino)?;
        node.data.resize(to as usize, 0);
        node.mtime = asked.now;
        Ok(self.seen(ino))
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
        asked: Asked,
    ) -> Try {
        self.regular(ino)?;
        let node = self.node_mut(ino)?;
        let at = match at {
            gupfs_proto::meta::WritePosition::Offset(at) => at as usize,
            gupfs_proto::meta::WritePosition::End => node.data.len(),
        };
        let end = at + data.len();
        if end > gupfs_proto::limits::INLINE_MAX.get() as usize {
            return Ok(Seen::Outgrown);
        }
        node.data.resize(node.data.len().max(end), 0);
        node.data[at..end].copy_from_slice(data);
        node.mtime = asked.now;
        Ok(self.seen(ino))
    }
}

fn node(kind: FileKind, mode: u32, now: Timestamp, above: InodeId) -> Node {
    Node {
        kind,
        mode,
        names: 0,
        data: Vec::new(),
        mtime: now,
        children: BTreeMap::new(),
        above,
        held: None,
    }
}
