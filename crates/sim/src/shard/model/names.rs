//! The model's operations on names.

use super::{ComparedReply, ComparedResult, Model, RequestContext, node};
use gupfs_proto::meta::RenameMode;
use gupfs_proto::{FileKind, FsError, InodeId, SessionId, Timestamp};

impl Model {
    pub(super) fn lookup(&self, dir: InodeId, name: &[u8]) -> ComparedResult {
        let found = self.child(dir, name)?.ok_or(FsError::NotFound)?;
        Ok(self.reply_for(found))
    }

    pub(super) fn create(
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

    pub(super) fn create_inode(
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

    pub(super) fn link(
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

    pub(super) fn remove(
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

    pub(super) fn rename(
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

    pub(super) fn forget(&mut self, ino: InodeId, session: SessionId) {
        if self
            .nodes
            .get(&ino)
            .is_some_and(|node| node.orphan_of == Some(session))
        {
            self.nodes.remove(&ino);
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

    fn check_kind(&self, expects_directory: bool, victim: InodeId) -> Result<(), FsError> {
        match (expects_directory, self.is_dir(victim)) {
            (true, false) => Err(FsError::NotDirectory),
            (false, true) => Err(FsError::IsDirectory),
            _ => Ok(()),
        }
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
}
