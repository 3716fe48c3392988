//! getxattr(2) and its relatives.

use crate::run_to_end::RunToEnd;
use crate::user_files::{FollowLinks, UserFiles};
use crate::walk::{self, again_while_stale};
use bytes::Bytes;
use gupfs_proto::FsError;
use gupfs_proto::limits::XATTR_VALUE_MAX;
use gupfs_proto::meta::{XattrMode, XattrName};

impl UserFiles {
    /// The value of an extended attribute.
    ///
    /// # Errors
    /// `NoAttribute`, `Denied`, and those of `stat`.
    pub fn get_xattr(&self, path: &[u8], name: &[u8], follow: FollowLinks) -> RunToEnd<Bytes> {
        let (this, path, name) = (self.clone(), path.to_vec(), name.to_vec());
        self.run(async move {
            let name = XattrName::new(&name)?;
            again_while_stale(async || {
                let (core, caller) = (&this.core, &this.caller);
                let found = walk::to_inode(core, caller, &path, follow).await?;
                core.client.getxattr(caller, found.ino(), &name).await
            })
            .await
        })
    }

    /// The names of the extended attributes.
    ///
    /// # Errors
    /// Those of `stat`.
    pub fn list_xattrs(&self, path: &[u8], follow: FollowLinks) -> RunToEnd<Vec<XattrName>> {
        let (this, path) = (self.clone(), path.to_vec());
        self.run(async move {
            again_while_stale(async || {
                let (core, caller) = (&this.core, &this.caller);
                let found = walk::to_inode(core, caller, &path, follow).await?;
                core.client.listxattr(caller, found.ino()).await
            })
            .await
        })
    }

    /// Sets an extended attribute.
    ///
    /// # Errors
    /// By `mode` `Exists` or `NoAttribute`; `ValueTooLarge`; `NotSupported`, `NotPermitted`, `Denied`; those of `stat`.
    pub fn set_xattr(
        &self,
        path: &[u8],
        name: &[u8],
        value: Bytes,
        mode: XattrMode,
        follow: FollowLinks,
    ) -> RunToEnd<()> {
        let (this, path, name) = (self.clone(), path.to_vec(), name.to_vec());
        self.run(async move {
            let name = XattrName::new(&name)?;
            if value.len() > XATTR_VALUE_MAX {
                return Err(FsError::ValueTooLarge);
            }
            again_while_stale(async || {
                let (core, caller) = (&this.core, &this.caller);
                let found = walk::to_inode(core, caller, &path, follow).await?;
                let (ino, value) = (found.ino(), value.clone());
                core.client.setxattr(caller, ino, &name, value, mode).await
            })
            .await
        })
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// `NoAttribute`, `NotPermitted`, `Denied`, and those of `stat`.
    pub fn remove_xattr(&self, path: &[u8], name: &[u8], follow: FollowLinks) -> RunToEnd<()> {
        let (this, path, name) = (self.clone(), path.to_vec(), name.to_vec());
        self.run(async move {
            let name = XattrName::new(&name)?;
            again_while_stale(async || {
                let (core, caller) = (&this.core, &this.caller);
                let found = walk::to_inode(core, caller, &path, follow).await?;
                core.client.removexattr(caller, found.ino(), &name).await
            })
            .await
        })
    }
}
