//! Attributes in the model: mode, owner, times, extended attributes.

use super::{Model, ModelCaller, ModelResult, NodeId, READ, WRITE};
use gupfs_proto::meta::SetTime;
use gupfs_proto::{FileKind, FsError};

impl Model {
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
        self.check_empty_set(id, uid.is_none() && gid.is_none(), caller)?;
        let node = self.node(id)?;
        let uid_allowed = uid.is_none_or(|uid| caller.uid == node.uid && uid == node.uid);
        let gid_allowed = gid
            .is_none_or(|gid| caller.uid == node.uid && (gid == node.gid || caller.is_member(gid)));
        let allowed = caller.is_root() || (uid_allowed && gid_allowed);
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
        self.check_empty_set(id, atime.is_none() && mtime.is_none(), caller)?;
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
    fn check_empty_set(&self, id: NodeId, nothing: bool, caller: &ModelCaller) -> ModelResult<()> {
        self.node(id)?;
        match nothing && !self.owns(id, caller) {
            true => self.access(id, caller, WRITE),
            false => Ok(()),
        }
    }

    fn check_user_xattrs(&self, id: NodeId, want: u32, caller: &ModelCaller) -> ModelResult<()> {
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
        self.check_user_xattrs(id, READ, caller)?;
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
        self.check_user_xattrs(id, WRITE, caller)?;
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
        self.check_user_xattrs(id, WRITE, caller)?;
        self.nodes[id]
            .xattrs
            .remove(name)
            .ok_or(FsError::NoAttribute)?;
        self.nodes[id].ctime = self.now;
        Ok(())
    }
}
