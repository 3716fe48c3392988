//! access(2), with the caller's credentials.

use crate::run_to_end::RunToEnd;
use crate::user_files::{FollowLinks, UserFiles};
use crate::walk::{self, again_while_stale};
use gupfs_proto::meta::AccessMode;

impl UserFiles {
    /// Whether the caller may use what a path names in this way.
    ///
    /// # Errors
    /// `Denied`; those of `stat`.
    pub fn access(&self, path: &[u8], want: AccessMode) -> RunToEnd<()> {
        let (this, path) = (self.clone(), path.to_vec());
        self.run(async move {
            again_while_stale(async || {
                let (core, caller) = (&this.core, &this.caller);
                let found = walk::to_inode(core, caller, &path, FollowLinks::Yes).await?;
                core.client.access(caller, found.ino(), want).await
            })
            .await
        })
    }
}
