//! Access times of inodes that are not open files here: listed directories and followed symbolic links.

use super::Namespace;
use crate::options::AtimeMode;
use gupfs_proto::meta::{MetaOp, SetAttr, SetTime};
use gupfs_proto::{Caller, FsError, InodeId};

impl Namespace {
    /// The inode was read. If its access time cannot be stored (a full disk, for example), the read still succeeds.
    pub(super) async fn update_atime(&self, ino: InodeId) {
        if self.atime == AtimeMode::Never {
            return;
        }
        if let Err(error) = self.try_update_atime(ino).await {
            tracing::debug!(%ino, %error, "the access time could not be stored");
        }
    }

    async fn try_update_atime(&self, ino: InodeId) -> Result<(), FsError> {
        let attr = self.getattr(&Caller::root(), ino).await?;
        let now = self.mds.clock().now();
        if !self.atime.updates_atime(&attr, now) {
            return Ok(());
        }
        let set = SetAttr {
            atime: Some(SetTime::To(now)),
            // Reading does not change the inode: its ctime stays.
            ctime: Some(attr.ctime),
            ..SetAttr::default()
        };
        self.mds
            .call(&Caller::root(), MetaOp::SetAttr { ino, set })
            .await
            .map(|_| ())
    }
}
