//! POSIX in two hundred lines: nodes in a vector, children in maps, no records. It knows nothing of the machine, and what it
//! refuses and answers is written from the standard and Linux's order of checks, so a difference is a mistake in one of them.

use gupfs_proto::meta::{RenameHow, SetTime};
use gupfs_proto::{FileKind, Refusal, Timestamp};
use std::collections::BTreeMap;

pub type Id = usize;
pub const ROOT: Id = 0;

#[derive(Clone, Debug, Default)]
pub struct Who {
    pub uid: u32,
    pub gid: u32,
    pub groups: Vec<u32>,
}

impl Who {
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
pub struct Node {
    pub kind: FileKind,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub names: u32,
    pub size: u64,
    /// None once the bytes lie in objects.
    pub data: Option<Vec<u8>>,
    pub atime: Timestamp,
    pub mtime: Timestamp,
    pub ctime: Timestamp,
    pub xattrs: BTreeMap<String, Vec<u8>>,
    pub children: BTreeMap<String, Id>,
    pub above: Id,
    /// Removed and not forgotten.
    pub orphan: bool,
    pub linkable: bool,
    pub gone: bool,
}

pub type Try<T> = Result<T, Refusal>;

#[derive(Clone, Debug)]
pub struct Model {
    pub nodes: Vec<Node>,
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

    fn add(&mut self, kind: FileKind, mode: u32, uid: u32, gid: u32) -> Id {
        let now = self.now;
        self.nodes.push(Node {
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
            above: ROOT,
            orphan: false,
            linkable: false,
            gone: false,
        });
        self.nodes.len() - 1
    }

    pub fn node(&self, id: Id) -> Try<&Node> {
        let node = &self.nodes[id];
        if node.gone {
            Err(Refusal::Stale)
        } else {
            Ok(node)
        }
    }

    pub fn nlink(&self, id: Id) -> u32 {
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

    fn is_dir(&self, id: Id) -> bool {
        self.nodes[id].kind == FileKind::Directory
    }

    // Permissions.

    fn granted(&self, id: Id, who: &Who, want: u32) -> bool {
        let node = &self.nodes[id];
        if who.root() {
            return want & SEARCH == 0 || self.is_dir(id) || node.mode & 0o111 != 0;
        }
        let shift = if who.uid == node.uid {
            6
        } else if who.is_member(node.gid) {
            3
        } else {
            0
        };
        node.mode >> shift & want == want
    }

    pub fn access(&self, id: Id, who: &Who, want: u32) -> Try<()> {
        self.node(id)?;
        if self.granted(id, who, want) {
            Ok(())
        } else {
            Err(Refusal::Denied)
        }
    }

    fn owns(&self, id: Id, who: &Who) -> bool {
        who.root() || self.nodes[id].uid == who.uid
    }

    // Names.

    pub fn lookup(&self, dir: Id, name: &str, who: &Who) -> Try<Id> {
        self.find(dir, name, who)?.ok_or(Refusal::NotFound)
    }

    fn find(&self, dir: Id, name: &str, who: &Who) -> Try<Option<Id>> {
        if self.node(dir)?.kind != FileKind::Directory {
            return Err(Refusal::NotDirectory);
        }
        self.access(dir, who, SEARCH)?;
        Ok(self.nodes[dir].children.get(name).copied())
    }

    fn may_add(&self, dir: Id, who: &Who) -> Try<()> {
        if self.nodes[dir].names == 0 {
            return Err(Refusal::NotFound);
        }
        self.access(dir, who, WRITE | SEARCH)
    }

    fn free(&self, dir: Id, name: &str, who: &Who) -> Try<()> {
        match self.find(dir, name, who)? {
            Some(_) => Err(Refusal::Exists),
            None => self.may_add(dir, who),
        }
    }

    fn room(&self) -> Try<()> {
        if self.growth {
            Ok(())
        } else {
            Err(Refusal::NoSpace)
        }
    }

    fn newborn(&mut self, dir: Id, kind: FileKind, mode: u32, umask: u32, who: &Who) -> Id {
        let above = self.nodes[dir].clone();
        let inherits = above.mode & 0o2000 != 0;
        let gid = if inherits { above.gid } else { who.gid };
        let mut mode = mode & !(umask & 0o777) & 0o7777;
        if kind == FileKind::Directory {
            mode = mode & 0o1777 | if inherits { 0o2000 } else { 0 };
        } else if inherits && mode & 0o2000 != 0 && mode & 0o10 != 0 && !who.has_group(gid) {
            mode &= !0o2000;
        }
        if kind == FileKind::Symlink {
            mode = 0o777;
        }
        self.add(kind, mode, who.uid, gid)
    }

    pub fn make(
        &mut self,
        dir: Id,
        name: &str,
        kind: FileKind,
        mode: u32,
        umask: u32,
        who: &Who,
    ) -> Try<Id> {
        self.free(dir, name, who)?;
        if matches!(kind, FileKind::CharDevice | FileKind::BlockDevice) && !who.root() {
            return Err(Refusal::NotPermitted);
        }
        self.room()?;
        let id = self.newborn(dir, kind, mode, umask, who);
        self.attach(dir, name, id);
        Ok(id)
    }

    /// open(O_CREAT); the second is whether it was made.
    #[expect(clippy::too_many_arguments, reason = "open(2) has these")]
    pub fn create(
        &mut self,
        dir: Id,
        name: &str,
        mode: u32,
        umask: u32,
        exclusive: bool,
        want: u32,
        cut: bool,
        who: &Who,
    ) -> Try<(Id, bool)> {
        match self.find(dir, name, who)? {
            Some(_) if exclusive => Err(Refusal::Exists),
            Some(id) => match self.nodes[id].kind {
                FileKind::Regular => self.open(id, want, cut, who).map(|()| (id, false)),
                FileKind::Directory => Err(Refusal::IsDirectory),
                _ => Err(Refusal::Stale),
            },
            None => self
                .make(dir, name, FileKind::Regular, mode, umask, who)
                .map(|id| (id, true)),
        }
    }

    pub fn tmpfile(&mut self, dir: Id, mode: u32, who: &Who) -> Try<Id> {
        if self.node(dir)?.kind != FileKind::Directory {
            return Err(Refusal::NotDirectory);
        }
        self.may_add(dir, who)?;
        self.room()?;
        let id = self.newborn(dir, FileKind::Regular, mode, 0, who);
        (self.nodes[id].orphan, self.nodes[id].linkable) = (true, true);
        Ok(id)
    }

    pub fn link(&mut self, id: Id, dir: Id, name: &str, who: &Who) -> Try<()> {
        self.free(dir, name, who)?;
        let node = self.node(id)?;
        if node.kind == FileKind::Directory {
            return Err(Refusal::NotPermitted);
        }
        if node.names == 0 && !node.linkable {
            return Err(Refusal::NotFound);
        }
        self.room()?;
        self.attach(dir, name, id);
        let now = self.now;
        let node = &mut self.nodes[id];
        (node.orphan, node.linkable, node.ctime) = (false, false, now);
        Ok(())
    }

    pub fn remove(&mut self, dir: Id, name: &str, is_dir: bool, who: &Who) -> Try<Id> {
        let id = self.lookup(dir, name, who)?;
        self.may_remove(dir, id, is_dir, who)?;
        if is_dir && !self.nodes[id].children.is_empty() {
            return Err(Refusal::NotEmpty);
        }
        self.drop_name(dir, name);
        Ok(id)
    }

    fn may_remove(&self, dir: Id, id: Id, as_dir: bool, who: &Who) -> Try<()> {
        self.access(dir, who, WRITE | SEARCH)?;
        if self.nodes[dir].mode & 0o1000 != 0 && !self.owns(dir, who) && !self.owns(id, who) {
            return Err(Refusal::NotPermitted);
        }
        match (as_dir, self.is_dir(id)) {
            (true, false) => Err(Refusal::NotDirectory),
            (false, true) => Err(Refusal::IsDirectory),
            _ => Ok(()),
        }
    }

    /// The node that lost its last name, if one did.
    pub fn rename(
        &mut self,
        from: Id,
        name: &str,
        to: Id,
        new: &str,
        how: RenameHow,
        who: &Who,
    ) -> Try<Option<Id>> {
        let source = self.find(from, name, who)?;
        let target = self.find(to, new, who)?;
        let moved = source.ok_or(Refusal::NotFound)?;
        match (how, target) {
            (RenameHow::NoReplace, Some(_)) => return Err(Refusal::Exists),
            (RenameHow::Exchange, None) => return Err(Refusal::NotFound),
            _ => {}
        }
        let exchange = how == RenameHow::Exchange;
        if from != to && self.is_dir(moved) && self.under(to, moved) {
            return Err(Refusal::IntoItself);
        }
        if let Some(target) = target
            && from != to
            && self.is_dir(target)
            && self.under(from, target)
        {
            return Err(if exchange {
                Refusal::IntoItself
            } else {
                Refusal::NotEmpty
            });
        }
        if target == Some(moved) {
            return Ok(None);
        }
        self.may_remove(from, moved, self.is_dir(moved), who)?;
        match target {
            None => self.may_add(to, who)?,
            Some(target) if exchange => self.may_remove(to, target, self.is_dir(target), who)?,
            Some(target) => self.may_remove(to, target, self.is_dir(moved), who)?,
        }
        for id in [Some(moved), target.filter(|_| exchange)]
            .into_iter()
            .flatten()
        {
            if from != to && self.is_dir(id) {
                self.access(id, who, WRITE)?;
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
                return Err(Refusal::NotEmpty);
            }
            Some(_) => self.drop_name(to, new),
            None => {}
        }
        self.detach(from, name);
        self.attach(to, new, moved);
        self.nodes[moved].ctime = now;
        Ok(target.filter(|target| self.nodes[*target].orphan))
    }

    fn under(&self, mut dir: Id, above: Id) -> bool {
        loop {
            if dir == above {
                return true;
            }
            if dir == ROOT || self.nodes[dir].names == 0 {
                return false;
            }
            dir = self.nodes[dir].above;
        }
    }

    fn attach(&mut self, dir: Id, name: &str, id: Id) {
        self.nodes[id].names += 1;
        self.nodes[id].above = dir;
        self.nodes[dir].children.insert(name.into(), id);
        self.touch(dir);
    }

    fn detach(&mut self, dir: Id, name: &str) -> Id {
        let id = self.nodes[dir]
            .children
            .remove(name)
            .expect("it was looked up");
        self.nodes[id].names -= 1;
        self.touch(dir);
        id
    }

    fn drop_name(&mut self, dir: Id, name: &str) {
        let id = self.detach(dir, name);
        self.nodes[id].ctime = self.now;
        self.nodes[id].orphan = self.nodes[id].names == 0;
    }

    fn touch(&mut self, id: Id) {
        (self.nodes[id].mtime, self.nodes[id].ctime) = (self.now, self.now);
    }

    pub fn forget(&mut self, id: Id) {
        if self.nodes[id].orphan {
            self.nodes[id].gone = true;
        }
    }

    // Files.

    pub fn open(&mut self, id: Id, want: u32, cut: bool, who: &Who) -> Try<()> {
        let kind = self.node(id)?.kind;
        let want = match want | if cut { WRITE } else { 0 } {
            // Asked again, without access: for who may read it.
            0 => READ,
            want => want,
        };
        match kind {
            FileKind::Symlink => return Err(Refusal::Loop),
            FileKind::Directory if want & WRITE != 0 => return Err(Refusal::IsDirectory),
            _ => {}
        }
        self.access(id, who, want)?;
        if cut && kind == FileKind::Regular {
            self.cut(id, 0);
            self.kill(id, who, !who.has_group(self.nodes[id].gid));
        }
        Ok(())
    }

    fn regular(&self, id: Id) -> Try<()> {
        match self.node(id)?.kind {
            FileKind::Regular => Ok(()),
            FileKind::Directory => Err(Refusal::IsDirectory),
            _ => Err(Refusal::Invalid),
        }
    }

    pub fn truncate(&mut self, id: Id, to: u64, by_handle: bool, who: &Who) -> Try<()> {
        self.regular(id)?;
        if !by_handle {
            self.access(id, who, WRITE)?;
        }
        self.cut(id, to);
        self.kill(id, who, !who.has_group(self.nodes[id].gid));
        Ok(())
    }

    /// Setuid and setgid go when it was not root who wrote.
    fn kill(&mut self, id: Id, who: &Who, group_is_another: bool) {
        let mode = &mut self.nodes[id].mode;
        if who.uid != 0 {
            let runs_as_group = *mode & 0o10 != 0;
            *mode &= !(0o4000
                | if runs_as_group || group_is_another {
                    0o2000
                } else {
                    0
                });
        }
    }

    fn cut(&mut self, id: Id, to: u64) {
        let node = &mut self.nodes[id];
        node.size = to;
        match &mut node.data {
            Some(data) => data.truncate(to as usize),
            None if to == 0 => node.data = Some(Vec::new()),
            None => {}
        }
        self.touch(id);
    }

    /// Whether the bytes are in; if not they would not fit into an inode.
    pub fn write(&mut self, id: Id, at: Option<u64>, bytes: &[u8], who: &Who) -> Try<bool> {
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
            self.room()?;
        }
        let node = &mut self.nodes[id];
        let data = node.data.as_mut().expect("seen above");
        data.resize(data.len().max(end as usize), 0);
        data[at as usize..end as usize].copy_from_slice(bytes);
        node.size = node.size.max(end);
        self.touch(id);
        self.kill(id, who, false);
        Ok(true)
    }

    /// A write that moves the file into objects.
    pub fn write_objects(&mut self, id: Id, size: u64, who: &Who) -> Try<()> {
        self.regular(id)?;
        self.room()?;
        let node = &mut self.nodes[id];
        node.data = None;
        node.size = node.size.max(size);
        self.touch(id);
        self.kill(id, who, false);
        Ok(())
    }

    // Attributes.

    pub fn chmod(&mut self, id: Id, mode: u32, who: &Who) -> Try<()> {
        let node = self.node(id)?;
        if node.kind == FileKind::Symlink {
            return Err(Refusal::NotSupported);
        }
        if !self.owns(id, who) {
            return Err(Refusal::NotPermitted);
        }
        let strip = if who.has_group(node.gid) { 0 } else { 0o2000 };
        (self.nodes[id].mode, self.nodes[id].ctime) = (mode & 0o7777 & !strip, self.now);
        Ok(())
    }

    pub fn chown(&mut self, id: Id, uid: Option<u32>, gid: Option<u32>, who: &Who) -> Try<()> {
        self.set_nothing(id, uid.is_none() && gid.is_none(), who)?;
        let node = self.node(id)?;
        let uid_allowed = uid.is_none_or(|uid| who.uid == node.uid && uid == node.uid);
        let gid_allowed =
            gid.is_none_or(|gid| who.uid == node.uid && (gid == node.gid || who.is_member(gid)));
        let allowed = who.root() || (uid_allowed && gid_allowed);
        if !allowed {
            return Err(Refusal::NotPermitted);
        }
        let changes = uid.is_some() || gid.is_some();
        if changes && node.kind != FileKind::Directory {
            let sgid = if node.mode & 0o10 != 0 || !who.has_group(node.gid) {
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
        id: Id,
        atime: Option<SetTime>,
        mtime: Option<SetTime>,
        who: &Who,
    ) -> Try<()> {
        self.set_nothing(id, atime.is_none() && mtime.is_none(), who)?;
        self.node(id)?;
        if atime.is_some() || mtime.is_some() {
            let both_now = atime == Some(SetTime::Now) && mtime == Some(SetTime::Now);
            if !self.owns(id, who) {
                if !both_now {
                    return Err(Refusal::NotPermitted);
                }
                self.access(id, who, WRITE)?;
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

    /// Also where nothing is set ctime moves: for the owner, and who may write.
    fn set_nothing(&self, id: Id, nothing: bool, who: &Who) -> Try<()> {
        self.node(id)?;
        match nothing && !self.owns(id, who) {
            true => self.access(id, who, WRITE),
            false => Ok(()),
        }
    }

    fn user_attributes(&self, id: Id, want: u32, who: &Who) -> Try<()> {
        let node = self.node(id)?;
        let writes = want == WRITE;
        if !matches!(node.kind, FileKind::Regular | FileKind::Directory) {
            return Err(if writes {
                Refusal::NotPermitted
            } else {
                Refusal::NoAttribute
            });
        }
        if writes && self.is_dir(id) && node.mode & 0o1000 != 0 && !self.owns(id, who) {
            return Err(Refusal::NotPermitted);
        }
        self.access(id, who, want)
    }

    pub fn get_xattr(&self, id: Id, name: &str, who: &Who) -> Try<&[u8]> {
        self.user_attributes(id, READ, who)?;
        self.nodes[id]
            .xattrs
            .get(name)
            .map(Vec::as_slice)
            .ok_or(Refusal::NoAttribute)
    }

    pub fn set_xattr(&mut self, id: Id, name: &str, value: &[u8], who: &Who) -> Try<()> {
        self.user_attributes(id, WRITE, who)?;
        self.room()?;
        self.nodes[id].xattrs.insert(name.into(), value.into());
        self.nodes[id].ctime = self.now;
        Ok(())
    }

    pub fn remove_xattr(&mut self, id: Id, name: &str, who: &Who) -> Try<()> {
        self.user_attributes(id, WRITE, who)?;
        self.nodes[id]
            .xattrs
            .remove(name)
            .ok_or(Refusal::NoAttribute)?;
        self.nodes[id].ctime = self.now;
        Ok(())
    }
}
