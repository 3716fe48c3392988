//! A model of POSIX: nodes in a vector, children in maps, no records. It shares no code with the state machine; its results and
//! errors follow the standard and the order of checks in Linux, so a difference is a mistake in one of the two.

use gupfs_proto::meta::{RenameMode, SetTime};
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
    fn root(&self) -> bool {
        self.uid == 0
    }

    fn has_group(&self, gid: u32) -> bool {
        self.root() || self.is_member(gid)
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
        if caller.root() {
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
        caller.root() || self.nodes[id].uid == caller.uid
    }

    // Names.

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

    fn may_add(&self, dir: NodeId, caller: &ModelCaller) -> ModelResult<()> {
        if self.nodes[dir].names == 0 {
            return Err(FsError::NotFound);
        }
        self.access(dir, caller, WRITE | SEARCH)
    }

    fn check_negative(&self, dir: NodeId, name: &str, caller: &ModelCaller) -> ModelResult<()> {
        match self.find(dir, name, caller)? {
            Some(_) => Err(FsError::Exists),
            None => self.may_add(dir, caller),
        }
    }

    fn check_growth(&self) -> ModelResult<()> {
        if self.growth {
            Ok(())
        } else {
            Err(FsError::NoSpace)
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
        if matches!(kind, FileKind::CharDevice | FileKind::BlockDevice) && !caller.root() {
            return Err(FsError::NotPermitted);
        }
        self.check_growth()?;
        let id = self.new_node(dir, kind, mode, umask, caller);
        self.attach(dir, name, id);
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
        self.may_add(dir, caller)?;
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
        self.attach(dir, name, id);
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
        self.may_remove(dir, id, is_dir, caller)?;
        if is_dir && !self.nodes[id].children.is_empty() {
            return Err(FsError::NotEmpty);
        }
        self.drop_name(dir, name);
        Ok(id)
    }

    fn may_remove(
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
        if from != to && self.is_dir(moved) && self.under(to, moved) {
            return Err(FsError::IntoItself);
        }
        if let Some(target) = target
            && from != to
            && self.is_dir(target)
            && self.under(from, target)
        {
            return Err(if exchange {
                FsError::IntoItself
            } else {
                FsError::NotEmpty
            });
        }
        if target == Some(moved) {
            return Ok(None);
        }
        self.may_remove(from, moved, self.is_dir(moved), caller)?;
        match target {
            None => self.may_add(to, caller)?,
            Some(target) if exchange => self.may_remove(to, target, self.is_dir(target), caller)?,
            Some(target) => self.may_remove(to, target, self.is_dir(moved), caller)?,
        }
        for id in [Some(moved), target.filter(|_| exchange)]
            .into_iter()
            .flatten()
        {
            if from != to && self.is_dir(id) {
                self.access(id, caller, WRITE)?;
            }
        }
        let now = self.now;
        match target {
            Some(target) if exchange => {
                self.detach(from, name);
                self.detach(to, new);
                self.attach(to, new, moved);
                self.attach(from, name, target);
                self.nodes[target].ctime = now;
                self.nodes[moved].ctime = now;
                return Ok(None);
            }
            Some(target) if !self.nodes[target].children.is_empty() => {
                return Err(FsError::NotEmpty);
            }
            Some(_) => self.drop_name(to, new),
            None => {}
        }
        self.detach(from, name);
        self.attach(to, new, moved);
        self.nodes[moved].ctime = now;
        Ok(target.filter(|target| self.nodes[*target].orphan))
    }

    fn under(&self, mut dir: NodeId, above: NodeId) -> bool {
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

    fn attach(&mut self, dir: NodeId, name: &str, id: NodeId) {
        self.nodes[id].names += 1;
        self.nodes[id].parent = dir;
        self.nodes[dir].children.insert(name.into(), id);
        self.touch(dir);
    }

    fn detach(&mut self, dir: NodeId, name: &str) -> NodeId {
        let id = self.nodes[dir]
            .children
            .remove(name)
            .expect("it was looked up");
        self.nodes[id].names -= 1;
        self.touch(dir);
        id
    }

    fn drop_name(&mut self, dir: NodeId, name: &str) {
        let id = self.detach(dir, name);
        self.nodes[id].ctime = self.now;
        self.nodes[id].orphan = self.nodes[id].names == 0;
    }

    fn touch(&mut self, id: NodeId) {
        (self.nodes[id].mtime, self.nodes[id].ctime) = (self.now, self.now);
    }

    pub fn forget(&mut self, id: NodeId) {
        if self.nodes[id].orphan {
            self.nodes[id].gone = true;
        }
    }

    // Files.

    pub fn open(
        &mut self,
        id: NodeId,
        want: u32,
        truncate: bool,
        caller: &ModelCaller,
    ) -> ModelResult<()> {
        let kind = self.node(id)?.kind;
        let want = match want | if truncate { WRITE } else { 0 } {
            // A client gets the layout again: it needs read access.
            0 => READ,
            want => want,
        };
        match kind {
            FileKind::Symlink => return Err(FsError::Loop),
            FileKind::Directory if want & WRITE != 0 => return Err(FsError::IsDirectory),
            _ => {}
        }
        self.access(id, caller, want)?;
        if truncate && kind == FileKind::Regular {
            self.set_size(id, 0);
            self.kill_privileges(id, caller, !caller.has_group(self.nodes[id].gid));
        }
        Ok(())
    }

    fn regular(&self, id: NodeId) -> ModelResult<()> {
        match self.node(id)?.kind {
            FileKind::Regular => Ok(()),
            FileKind::Directory => Err(FsError::IsDirectory),
            _ => Err(FsError::Invalid),
        }
    }

    pub fn truncate(
        &mut self,
        id: NodeId,
        to: u64,
        by_handle: bool,
        caller: &ModelCaller,
    ) -> ModelResult<()> {
        self.regular(id)?;
        if !by_handle {
            self.access(id, caller, WRITE)?;
        }
        self.set_size(id, to);
        self.kill_privileges(id, caller, !caller.has_group(self.nodes[id].gid));
        Ok(())
    }

    /// Clears setuid and setgid after a write by a caller that is not root.
    fn kill_privileges(&mut self, id: NodeId, caller: &ModelCaller, group_is_another: bool) {
        let mode = &mut self.nodes[id].mode;
        if caller.uid != 0 {
            let runs_as_group = *mode & 0o10 != 0;
            *mode &= !(0o4000
                | if runs_as_group || group_is_another {
                    0o2000
                } else {
                    0
                });
        }
    }

    fn set_size(&mut self, id: NodeId, to: u64) {
        let node = &mut self.nodes[id];
        node.size = to;
        match &mut node.data {
            Some(data) => data.truncate(to as usize),
            None if to == 0 => node.data = Some(Vec::new()),
            None => {}
        }
        self.touch(id);
    }

    /// Returns whether the bytes were written; false: they do not fit into an inode.
    pub fn write(
        &mut self,
        id: NodeId,
        at: Option<u64>,
        bytes: &[u8],
        caller: &ModelCaller,
    ) -> ModelResult<bool> {
        self.regular(id)?;
        let node = &self.nodes[id];
        let at = at.unwrap_or(node.size);
        let end = at + bytes.len() as u64;
        if bytes.is_empty() {
            return Ok(true);
        }
        let Some(data) = &node.data else {
            return Ok(false);
        };
        if end > 4096 {
            return Ok(false);
        }
        if end as usize > data.len() {
            self.check_growth()?;
        }
        let node = &mut self.nodes[id];
        let data = node.data.as_mut().expect("it was checked above");
        data.resize(data.len().max(end as usize), 0);
        data[at as usize..end as usize].copy_from_slice(bytes);
        node.size = node.size.max(end);
        self.touch(id);
        self.kill_privileges(id, caller, false);
        Ok(true)
    }

    /// A write that moves the file into objects.
    pub fn write_objects(
        &mut self,
        id: NodeId,
        size: u64,
        caller: &ModelCaller,
    ) -> ModelResult<()> {
        self.regular(id)?;
        self.check_growth()?;
        let node = &mut self.nodes[id];
        node.data = None;
        node.size = node.size.max(size);
        self.touch(id);
        self.kill_privileges(id, caller, false);
        Ok(())
    }

    // Attributes.

    pub fn chmod(&mut self, id: NodeId, mode: u32, caller: &ModelCaller) -> ModelResult<()> {
        let node = self.node(id)?;
        if node.kind == FileKind::Symlink {
            return Err(FsError::NotSupported);
        }
        if !self.owns(id, caller) {
            return Err(FsError::NotPermitted);
        }
        let strip = if caller.has_group(node.gid) {
            0
        } else {
            0o2000
        };
        (self.nodes[id].mode, self.nodes[id].ctime) = (mode & 0o7777 & !strip, self.now);
        Ok(())
    }

    pub fn chown(
        &mut self,
        id: NodeId,
        uid: Option<u32>,
        gid: Option<u32>,
        caller: &ModelCaller,
    ) -> ModelResult<()> {
        self.set_nothing(id, uid.is_none() && gid.is_none(), caller)?;
        let node = self.node(id)?;
        let uid_allowed = uid.is_none_or(|uid| caller.uid == node.uid && uid == node.uid);
        let gid_allowed = gid
            .is_none_or(|gid| caller.uid == node.uid && (gid == node.gid || caller.is_member(gid)));
        let allowed = caller.root() || (uid_allowed && gid_allowed);
        if !allowed {
            return Err(FsError::NotPermitted);
        }
        let changes = uid.is_some() || gid.is_some();
        if changes && node.kind != FileKind::Directory {
            let sgid = if node.mode & 0o10 != 0 || !caller.has_group(node.gid) {
                0o2000
            } else {
                0
            };
            self.nodes[id].mode &= !(0o4000 | sgid);
        }
        let node = &mut self.nodes[id];
        (node.uid, node.gid, node.ctime) =
            (uid.unwrap_or(node.uid), gid.unwrap_or(node.gid), self.now);
        Ok(())
    }

    pub fn utimes(
        &mut self,
        id: NodeId,
        atime: Option<SetTime>,
        mtime: Option<SetTime>,
        caller: &ModelCaller,
    ) -> ModelResult<()> {
        self.set_nothing(id, atime.is_none() && mtime.is_none(), caller)?;
        self.node(id)?;
        if atime.is_some() || mtime.is_some() {
            let both_now = atime == Some(SetTime::Now) && mtime == Some(SetTime::Now);
            if !self.owns(id, caller) {
                if !both_now {
                    return Err(FsError::NotPermitted);
                }
                self.access(id, caller, WRITE)?;
            }
        }
        let now = self.now;
        let time = |set: Option<SetTime>, old| match set {
            None => old,
            Some(SetTime::Now) => now,
            Some(SetTime::To(time)) => time,
        };
        let node = &mut self.nodes[id];
        (node.atime, node.mtime, node.ctime) =
            (time(atime, node.atime), time(mtime, node.mtime), now);
        Ok(())
    }

    /// A request that sets nothing updates ctime: allowed for the owner, and for a caller with write permission.
    fn set_nothing(&self, id: NodeId, nothing: bool, caller: &ModelCaller) -> ModelResult<()> {
        self.node(id)?;
        match nothing && !self.owns(id, caller) {
            true => self.access(id, caller, WRITE),
            false => Ok(()),
        }
    }

    fn user_attributes(&self, id: NodeId, want: u32, caller: &ModelCaller) -> ModelResult<()> {
        let node = self.node(id)?;
        let writes = want == WRITE;
        if !matches!(node.kind, FileKind::Regular | FileKind::Directory) {
            return Err(if writes {
                FsError::NotPermitted
            } else {
                FsError::NoAttribute
            });
        }
        if writes && self.is_dir(id) && node.mode & 0o1000 != 0 && !self.owns(id, caller) {
            return Err(FsError::NotPermitted);
        }
        self.access(id, caller, want)
    }

    pub fn get_xattr(&self, id: NodeId, name: &str, caller: &ModelCaller) -> ModelResult<&[u8]> {
        self.user_attributes(id, READ, caller)?;
        self.nodes[id]
            .xattrs
            .get(name)
            .map(Vec::as_slice)
            .ok_or(FsError::NoAttribute)
    }

    pub fn set_xattr(
        &mut self,
        id: NodeId,
        name: &str,
        value: &[u8],
        caller: &ModelCaller,
    ) -> ModelResult<()> {
        self.user_attributes(id, WRITE, caller)?;
        self.check_growth()?;
        self.nodes[id].xattrs.insert(name.into(), value.into());
        self.nodes[id].ctime = self.now;
        Ok(())
    }

    pub fn remove_xattr(
        &mut self,
        id: NodeId,
        name: &str,
        caller: &ModelCaller,
    ) -> ModelResult<()> {
        self.user_attributes(id, WRITE, caller)?;
        self.nodes[id]
            .xattrs
            .remove(name)
            .ok_or(FsError::NoAttribute)?;
        self.nodes[id].ctime = self.now;
        Ok(())
    }
}
