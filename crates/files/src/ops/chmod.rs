//! chmod(2), chown(2) and utimensat(2).

use crate::run_to_end::RunToEnd;
use crate::user_files::{FollowLinks, UserFiles};
use crate::walk::{self, again_while_stale};
use gupfs_proto::meta::{SetAttr, SetTime};
use gupfs_proto::{Attr, FileKind, FsError};

impl UserFiles {
    /// chmod(2).
    ///
    /// # Errors
    /// `NotPermitted` if the caller is not the owner; `NotSupported` for a symbolic link, whose mode nothing reads; those of `stat`.
    pub fn set_mode(&self, path: &[u8], mode: u32, follow: FollowLinks) -> RunToEnd<Attr> {
        let set = SetAttr {
            mode: Some(mode & 0o7777),
            ..SetAttr::default()
        };
        self.set_attributes(path, set, follow)
    }

    /// chown(2). None leaves the owner or the group.
    ///
    /// # Errors
    /// `NotPermitted`; those of `stat`.
    pub fn set_owner(
        &self,
        path: &[u8],
        uid: Option<u32>,
        gid: Option<u32>,
        follow: FollowLinks,
    ) -> RunToEnd<Attr> {
        let set = SetAttr {
            uid,
            gid,
            ..SetAttr::default()
        };
        self.set_attributes(path, set, follow)
    }

    /// utimensat(2). None leaves a time.
    ///
    /// # Errors
    /// `NotPermitted` or `Denied`; those of `stat`.
    pub fn set_times(
        &self,
        path: &[u8],
        atime: Option<SetTime>,
        mtime: Option<SetTime>,
        follow: FollowLinks,
    ) -> RunToEnd<Attr> {
        let set = SetAttr {
            atime,
            mtime,
            ..SetAttr::default()
        };
        self.set_attributes(path, set, follow)
    }

    fn set_attributes(&self, path: &[u8], set: SetAttr, follow: FollowLinks) -> RunToEnd<Attr> {
        let (this, path) = (self.clone(), path.to_vec());
        self.run(async move {
            again_while_stale(async || {
                let (core, caller) = (&this.core, &this.caller);
                let found = walk::to_inode(core, caller, &path, follow).await?;
                if set.mode.is_some() && found.kind() == FileKind::Symlink {
                    return Err(FsError::NotSupported);
                }
                core.client.setattr(caller, found.ino(), set).await
            })
            .await
        })
    }
}
