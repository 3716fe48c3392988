//! chmod, chown, utimens: the metadata server applies them, after a client with the write lease has reported its writes.

use super::Namespace;
use crate::inodes::ActiveInode;
use crate::reply;
use gupfs_proto::meta::{MetaOp, SetAttr};
use gupfs_proto::{Attr, Caller, FsError, InodeId};

impl Namespace {
    /// Changes everything that setattr can change except the size, which `truncate` changes.
    pub async fn setattr(
        &self,
        caller: &Caller,
        ino: InodeId,
        set: SetAttr,
    ) -> Result<Attr, FsError> {
        tracing::trace!(target: "walk", file = file!(), "setattr");
        let attr_version = self.inodes.attr_version();
        let op = MetaOp::SetAttr { ino, set };
        let attr = match self.inodes.get(ino) {
            None => reply::entry("setattr", self.mds.call(caller, op).await?)?,
            Some(file) => self.setattr_of(caller, &file, op, set).await?,
        };
        self.current_attr(attr_version, attr).await
    }

    async fn setattr_of(
        &self,
        caller: &Caller,
        file: &ActiveInode,
        op: MetaOp,
        set: SetAttr,
    ) -> Result<Attr, FsError> {
        let _reporting = self.leases.lock_without_concurrent_lease(file).await?;
        if let Some(attr) = self.write_behind.set_times(file, caller, &set) {
            return Ok(attr);
        }
        if set.mtime.is_some() {
            // Objects get their mtime with their bytes: if this process ends, it is the file's.
            self.leases.flush(file).await;
        }
        let before = file.state().unreported_times();
        let attr = reply::entry("setattr", self.mds.call(caller, op).await?)?;
        let mut state = file.state();
        state.times_set_at_server(set.mtime.is_some(), set.atime.is_some(), before);
        // A new mode may set setuid or setgid: the next write asks the server to clear them.
        state.reset_privileges();
        state.note_own_update(attr);
        Ok(attr)
    }
}
