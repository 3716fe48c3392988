//! readlink(2).

use crate::run_to_end::RunToEnd;
use crate::user_files::{FollowLinks, UserFiles};
use crate::walk::{self, again_while_stale};
use gupfs_proto::{FileKind, FsError};

impl UserFiles {
    /// The target of a symbolic link.
    ///
    /// # Errors
    /// `Invalid` for anything else; those of `stat`.
    pub fn read_link(&self, path: &[u8]) -> RunToEnd<Vec<u8>> {
        let (this, path) = (self.clone(), path.to_vec());
        self.run(async move {
            again_while_stale(async || {
                let (core, caller) = (&this.core, &this.caller);
                let link = walk::to_inode(core, caller, &path, FollowLinks::No).await?;
                match link.kind() {
                    FileKind::Symlink => core.client.readlink(caller, link.ino()).await,
                    _ => Err(FsError::Invalid),
                }
            })
            .await
        })
    }
}
