//! Removing and renaming. An inode that loses its last name exists until it has no lookups and is not open.

use super::Namespace;
use crate::reply;
use gupfs_proto::meta::{MetaOp, RemovedName, RenameMode};
use gupfs_proto::{Caller, FsError, InodeId, Name};

impl Namespace {
    pub async fn unlink(
        &self,
        caller: &Caller,
        dir: InodeId,
        name: &Name,
    ) -> Result<RemovedName, FsError> {
        tracing::trace!(target: "walk", file = file!(), "unlink");
        let op = MetaOp::Unlink {
            dir,
            name: name.clone(),
        };
        self.request_removal(caller, op).await
    }

    pub async fn rmdir(
        &self,
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
        &self,
        caller: &Caller,
        from: (InodeId, &Name),
        to: (InodeId, &Name),
        mode: RenameMode,
    ) -> Result<RemovedName, FsError> {
        // A program that replaces a file by a new one wants one of them whole, also when this process ends now.
        if mode != RenameMode::NoReplace {
            let moved = match mode {
                RenameMode::Exchange => None,
                _ => self.mds.leased_target(from.0, from.1),
            };
            self.write_behind.flush(moved).await;
        }
        let op = MetaOp::Rename {
            from: from.0,
            name: from.1.clone(),
            to: to.0,
            new_name: to.1.clone(),
            mode,
        };
        self.request_removal(caller, op).await
    }

    async fn request_removal(&self, caller: &Caller, op: MetaOp) -> Result<RemovedName, FsError> {
        let (attr_version, operation) = (self.inodes.attr_version(), op.name());
        let mut removed = reply::removed(operation, self.mds.call(caller, op).await?)?;
        if let Some(victim) = removed.victim
            && removed.is_orphan
        {
            self.lookups.set_orphan(victim);
        }
        if let Some(attr) = removed.attr {
            removed.attr = Some(self.current_attr(attr_version, attr).await?);
        }
        Ok(removed)
    }
}
