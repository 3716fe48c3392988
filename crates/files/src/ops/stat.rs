//! stat(2) and lstat(2).

use crate::run_to_end::RunToEnd;
use crate::user_files::{FollowLinks, UserFiles};
use crate::walk::{self, again_while_stale};
use gupfs_proto::Attr;

impl UserFiles {
    /// The attributes of what a path names: those that every other client sees at this moment.
    ///
    /// # Errors
    /// `NotFound`, `NotDirectory`, `Denied`, `Loop`, and those of the servers.
    pub fn stat(&self, path: &[u8], follow: FollowLinks) -> RunToEnd<Attr> {
        let (this, path) = (self.clone(), path.to_vec());
        self.run(async move {
            again_while_stale(async || {
                let found = walk::to_inode(&this.core, &this.caller, &path, follow).await?;
                found.attr(&this.caller).await
            })
            .await
        })
    }
}
