//! Extended attributes: passed through to the metadata server.

use super::Namespace;
use crate::inodes::OpenFile;
use crate::reply;
use bytes::Bytes;
use gupfs_proto::meta::{MetaOp, MetaReplyBody, XattrMode, XattrName};
use gupfs_proto::{Caller, FsError, InodeId};

impl Namespace {
    pub async fn getxattr(
        &self,
        caller: &Caller,
        ino: InodeId,
        name: &XattrName,
    ) -> Result<Bytes, FsError> {
        // Linux reads this attribute on every chown.
        if name.as_bytes() == XattrName::CAPABILITY && self.has_no_file_capability(ino) {
            self.mds.wait_for_valid_session().await?;
            if self.has_no_file_capability(ino) {
                return Err(FsError::NoAttribute);
            }
        }
        let name = name.clone();
        match self
            .mds
            .call(caller, MetaOp::GetXattr { ino, name })
            .await?
        {
            MetaReplyBody::Xattr(value) => Ok(value),
            _ => reply::unexpected("getxattr"),
        }
    }

    pub async fn listxattr(
        &self,
        caller: &Caller,
        ino: InodeId,
    ) -> Result<Vec<XattrName>, FsError> {
        match self.mds.call(caller, MetaOp::ListXattr { ino }).await? {
            MetaReplyBody::XattrNames(names) => Ok(names),
            _ => reply::unexpected("listxattr"),
        }
    }

    pub async fn setxattr(
        &self,
        caller: &Caller,
        ino: InodeId,
        name: &XattrName,
        value: Bytes,
        mode: XattrMode,
    ) -> Result<(), FsError> {
        let name = name.clone();
        let op = MetaOp::SetXattr {
            ino,
            name,
            value,
            mode,
        };
        let reply = self.mds.call(caller, op).await?;
        self.note_xattr_change(ino, reply)
    }

    pub async fn removexattr(
        &self,
        caller: &Caller,
        ino: InodeId,
        name: &XattrName,
    ) -> Result<(), FsError> {
        let name = name.clone();
        let reply = self
            .mds
            .call(caller, MetaOp::RemoveXattr { ino, name })
            .await?;
        self.note_xattr_change(ino, reply)
    }

    /// Called before an unprivileged process changes an open file's data by a request without FUSE's kill flag (fallocate):
    /// clears setgid also where the group may not execute the file, if the caller is not in the group.
    pub async fn kill_setgid(&self, caller: &Caller, file: &OpenFile) -> Result<(), FsError> {
        let has_setgid = file.inode.state().has_setgid();
        match has_setgid {
            true => self.kill_privileges(caller, file.ino()).await,
            false => Ok(()),
        }
    }

    /// Clears setuid, setgid and capabilities of a file, because a process without privileges is changing it.
    pub async fn kill_privileges(&self, caller: &Caller, ino: InodeId) -> Result<(), FsError> {
        let op = MetaOp::KillPrivileges { ino };
        let reply = self.mds.call(caller, op).await?;
        let attr = reply::changed("kill_privileges", reply)?;
        if let Some(file) = self.inodes.get(ino) {
            let mut state = file.state();
            state.set_privileges_killed(true);
            if let Some(attr) = attr {
                state.note_own_update(attr);
            }
        }
        Ok(())
    }

    fn has_no_file_capability(&self, ino: InodeId) -> bool {
        let file = self.inodes.get(ino);
        file.is_some_and(|file| file.state().has_no_file_capability())
    }

    fn note_xattr_change(&self, ino: InodeId, reply: MetaReplyBody) -> Result<(), FsError> {
        let attr = reply::changed("setxattr", reply)?;
        if let Some(file) = self.inodes.get(ino) {
            let mut state = file.state();
            // It may have been security.capability: the next write asks the server to clear it.
            state.reset_privileges();
            if let Some(attr) = attr {
                state.note_attr(attr);
            }
        }
        Ok(())
    }
}
