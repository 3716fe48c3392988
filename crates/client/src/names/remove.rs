//! Removing and renaming. An inode that loses its last name exists until it has no lookups and is not open.

use crate::reply;
use crate::service::Client;
use gupfs_proto::meta::{MetaOp, RemovedName, RenameMode};
use gupfs_proto::{Caller, FsError, InodeId, Name};
use std::sync::Arc;

impl Client {
    pub async fn unlink(
        self: &Arc<Self>,
        caller: &Caller,
        dir: InodeId,
        name: &Name,
    ) -> Result<RemovedName, FsError> {
        let op = MetaOp::Unlink {
            dir,
            name: name.clone(),
        };
        self.request_removal(caller, op).await
    }

    pub async fn rmdir(
        self: &Arc<Self>,
        caller: &Caller,
        dir: InodeId,
        name: &Name,
    ) -> Result<RemovedName, FsError> {
        let op = MetaOp::Rmdir {
            dir,
            name: name.clone(),
        };
        self.request_removal(caller, op).await
    }

    pub async fn rename(
        self: &Arc<Self>,
        caller: &Caller,
        from: (InodeId, &Name),
        to: (InodeId, &Name),
        mode: RenameMode,
    ) -> Result<RemovedName, FsError> {
        let op = MetaOp::Rename {
            from: from.0,
            name: from.1.clone(),
            to: to.0,
            new_name: to.1.clone(),
            mode,
        };
        self.request_removal(caller, op).await
    }

    async fn request_removal(
        self: &Arc<Self>,
        caller: &Caller,
        op: MetaOp,
    ) -> Result<RemovedName, FsError> {
        let (attr_version, operation) = (self.inodes.attr_version(), op.name());
        let mut removed = reply::removed(operation, self.call_mds(caller, op).await?)?;
        if let Some(victim) = removed.victim
            && removed.is_orphan
        {
            let forgotten = self.lookup_counts.lock().set_orphan(victim);
            self.queue_forgets(forgotten);
        }
        if let Some(attr) = removed.attr {
            removed.attr = Some(self.current_attr(attr_version, attr).await?);
        }
        Ok(removed)
    }
}
