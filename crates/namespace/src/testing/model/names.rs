//! Names in the model: lookup, creation, link, removal, rename.

use super::{Model, ModelCaller, ModelResult, NodeId, ROOT, SEARCH, WRITE};
use gupfs_proto::meta::RenameMode;
use gupfs_proto::{FileKind, FsError};

impl Model {
    pub fn lookup(&self, dir: NodeId, name: &str, caller: &ModelCaller) -> ModelResult<NodeId> {
        self.find(dir, name, caller)?.ok_or(FsError::NotFound)
    }

    fn find(&self, dir: NodeId, name: &str, caller: &ModelCaller) -> ModelResult<Option<NodeId>> {
        if self.node(dir)?.kind != FileKind::Directory {
            return Err(FsError::NotDirectory);
        }
        self.access(dir, caller, SEARCH)?;
        Ok(self.nodes[dir].children.get(name).copied())
    }

    fn check_may_add(&self, dir: NodeId, caller: &ModelCaller) -> ModelResult<()> {
        if self.nodes[dir].names == 0 {
            return Err(FsError::NotFound);
        }
        self.access(dir, caller, WRITE | SEARCH)
    }

    fn check_negative(&self, dir: NodeId, name: &str, caller: &ModelCaller) -> ModelResult<()> {
        match self.find(dir, name, caller)? {
            Some(_) => Err(FsError::Exists),
            None => self.check_may_add(dir, caller),
        }
    }

    fn new_node(
        &mut self,
        dir: NodeId,
        kind: FileKind,
        mode: u32,
        umask: u32,
        caller: &ModelCaller,
    ) -> NodeId {
        let above = self.nodes[dir].clone();
        let inherits = above.mode & 0o2000 != 0;
        let gid = if inherits { above.gid } else { caller.gid };
        let mut mode = mode & !(umask & 0o777) & 0o7777;
        if kind == FileKind::Directory {
            mode = mode & 0o1777 | if inherits { 0o2000 } else { 0 };
        } else if inherits && mode & 0o2000 != 0 && mode & 0o10 != 0 && !caller.has_group(gid) {
            mode &= !0o2000;
        }
        if kind == FileKind::Symlink {
            mode = 0o777;
        }
        self.add(kind, mode, caller.uid, gid)
    }

    pub fn create_node(
        &mut self,
        dir: NodeId,
        name: &str,
        kind: FileKind,
        mode: u32,
        umask: u32,
        caller: &ModelCaller,
    ) -> ModelResult<NodeId> {
        self.check_negative(dir, name, caller)?;
        if matches!(kind, FileKind::CharDevice | FileKind::BlockDevice) && !caller.is_root() {
            return Err(FsError::NotPermitted);
        }
        self.check_growth()?;
        let id = self.new_node(dir, kind, mode, umask, caller);
        self.add_entry(dir, name, id);
        Ok(id)
    }

    /// open(2) with O_CREAT; returns the node, and whether it was created.
    #[expect(clippy::too_many_arguments, reason = "open(2) has these")]
    pub fn create(
        &mut self,
        dir: NodeId,
        name: &str,
        mode: u32,
        umask: u32,
        exclusive: bool,
        want: u32,
        truncate: bool,
        caller: &ModelCaller,
    ) -> ModelResult<(NodeId, bool)> {
        match self.find(dir, name, caller)? {
            Some(_) if exclusive => Err(FsError::Exists),
            Some(id) => match self.nodes[id].kind {
                FileKind::Regular => self.open(id, want, truncate, caller).map(|()| (id, false)),
                FileKind::Directory => Err(FsError::IsDirectory),
                _ => Err(FsError::Stale),
            },
            None => self
                .create_node(dir, name, FileKind::Regular, mode, umask, caller)
                .map(|id| (id, true)),
        }
    }

    pub fn tmpfile(&mut self, dir: NodeId, mode: u32, caller: &ModelCaller) -> ModelResult<NodeId> {
        if self.node(dir)?.kind != FileKind::Directory {
            return Err(FsError::NotDirectory);
        }
        self.check_may_add(dir, caller)?;
        self.check_growth()?;
        let id = self.new_node(dir, FileKind::Regular, mode, 0, caller);
        (self.nodes[id].orphan, self.nodes[id].linkable) = (true, true);
        Ok(id)
    }

    pub fn link(
        &mut self,
        id: NodeId,
        dir: NodeId,
        name: &str,
        caller: &ModelCaller,
    ) -> ModelResult<()> {
        self.check_negative(dir, name, caller)?;
        let node = self.node(id)?;
        if node.kind == FileKind::Directory {
            return Err(FsError::NotPermitted);
        }
        if node.names == 0 && !node.linkable {
            return Err(FsError::NotFound);
        }
        self.check_growth()?;
        self.add_entry(dir, name, id);
        let now = self.now;
        let node = &mut self.nodes[id];
        (node.orphan, node.linkable, node.ctime) = (false, false, now);
        Ok(())
    }

    pub fn remove(
        &mut self,
        dir: NodeId,
        name: &str,
        is_dir: bool,
        caller: &ModelCaller,
    ) -> ModelResult<NodeId> {
        let id = self.lookup(dir, name, caller)?;
        self.check_may_remove(dir, id, is_dir, caller)?;
        if is_dir && !self.nodes[id].children.is_empty() {
            return Err(FsError::NotEmpty);
        }
        self.remove_name(dir, name);
        Ok(id)
    }

    fn check_may_remove(
        &self,
        dir: NodeId,
        id: NodeId,
        as_dir: bool,
        caller: &ModelCaller,
    ) -> ModelResult<()> {
        self.access(dir, caller, WRITE | SEARCH)?;
        if self.nodes[dir].mode & 0o1000 != 0 && !self.owns(dir, caller) && !self.owns(id, caller) {
            return Err(FsError::NotPermitted);
        }
        match (as_dir, self.is_dir(id)) {
            (true, false) => Err(FsError::NotDirectory),
            (false, true) => Err(FsError::IsDirectory),
            _ => Ok(()),
        }
    }

    /// Returns the node that lost its last name, if one did.
    pub fn rename(
        &mut self,
        from: NodeId,
        name: &str,
        to: NodeId,
        new: &str,
        how: RenameMode,
        caller: &ModelCaller,
    ) -> ModelResult<Option<NodeId>> {
        let source = self.find(from, name, caller)?;
        let target = self.find(to, new, caller)?;
        let moved = source.ok_or(FsError::NotFound)?;
        match (how, target) {
            (RenameMode::NoReplace, Some(_)) => return Err(FsError::Exists),
            (RenameMode::Exchange, None) => return Err(FsError::NotFound),
            _ => {}
        }
        let exchange = how == RenameMode::Exchange;
        if from != to {
            self.check_no_cycle(from, moved, to, target, exchange)?;
        }
        if target == Some(moved) {
            return Ok(None);
        }
        self.check_move(from, moved, to, target, exchange, caller)?;
        let now = self.now;
        match target {
            Some(target) if exchange => {
                self.remove_entry(from, name);
                self.remove_entry(to, new);
                self.add_entry(to, new, moved);
                self.add_entry(from, name, target);
                self.nodes[target].ctime = now;
                self.nodes[moved].ctime = now;
                return Ok(None);
            }
            Some(target) if !self.nodes[target].children.is_empty() => {
                return Err(FsError::NotEmpty);
            }
            Some(_) => self.remove_name(to, new),
            None => {}
        }
        self.remove_entry(from, name);
        self.add_entry(to, new, moved);
        self.nodes[moved].ctime = now;
        Ok(target.filter(|target| self.nodes[*target].orphan))
    }

    fn check_no_cycle(
        &self,
        from: NodeId,
        moved: NodeId,
        to: NodeId,
        target: Option<NodeId>,
        exchange: bool,
    ) -> ModelResult<()> {
        if self.is_dir(moved) && self.is_same_or_below(to, moved) {
            return Err(FsError::IntoItself);
        }
        if let Some(target) = target
            && self.is_dir(target)
            && self.is_same_or_below(from, target)
        {
            return Err(if exchange {
                FsError::IntoItself
            } else {
                FsError::NotEmpty
            });
        }
        Ok(())
    }

    fn check_move(
        &self,
        from: NodeId,
        moved: NodeId,
        to: NodeId,
        target: Option<NodeId>,
        exchange: bool,
        caller: &ModelCaller,
    ) -> ModelResult<()> {
        self.check_may_remove(from, moved, self.is_dir(moved), caller)?;
        match target {
            None => self.check_may_add(to, caller)?,
            Some(target) if exchange => {
                self.check_may_remove(to, target, self.is_dir(target), caller)?
            }
            Some(target) => self.check_may_remove(to, target, self.is_dir(moved), caller)?,
        }
        for id in [Some(moved), target.filter(|_| exchange)]
            .into_iter()
            .flatten()
        {
            if from != to && self.is_dir(id) {
                self.access(id, caller, WRITE)?;
            }
        }
        Ok(())
    }

    fn is_same_or_below(&self, mut dir: NodeId, above: NodeId) -> bool {
        loop {
            if dir == above {
                return true;
            }
            if dir == ROOT || self.nodes[dir].names == 0 {
                return false;
            }
            dir = self.nodes[dir].parent;
        }
    }

    /// Adds an entry.
    fn add_entry(&mut self, dir: NodeId, name: &str, id: NodeId) {
        self.nodes[id].names += 1;
        self.nodes[id].parent = dir;
        self.nodes[dir].children.insert(name.into(), id);
        self.touch(dir);
    }

    /// Removes an entry.
    fn remove_entry(&mut self, dir: NodeId, name: &str) -> NodeId {
        let id = self.nodes[dir]
            .children
            .remove(name)
            .expect("it was looked up");
        self.nodes[id].names -= 1;
        self.touch(dir);
        id
    }

    /// Removes a name; the node becomes an orphan with its last name.
    fn remove_name(&mut self, dir: NodeId, name: &str) {
        let id = self.remove_entry(dir, name);
        self.nodes[id].ctime = self.now;
        self.nodes[id].orphan = self.nodes[id].names == 0;
    }

    pub fn forget(&mut self, id: NodeId) {
        if self.nodes[id].orphan {
            self.nodes[id].gone = true;
        }
    }
}
