//! truncate(2).

use crate::run_to_end::RunToEnd;
use crate::user_files::{FollowLinks, UserFiles};
use crate::walk::{self, again_while_stale};
use gupfs_proto::{FileKind, FsError};

impl UserFiles {
    /// Makes a file this long.
    ///
    /// # Errors
    /// `IsDirectory`, `Denied`, `TooLarge`, and those of `stat`.
    pub fn truncate(&self, path: &[u8], to: u64) -> RunToEnd<()> {
        let (this, path) = (self.clone(), path.to_vec());
        self.run(async move {
            again_while_stale(async || {
                let (core, caller, kill) = (&this.core, &this.caller, this.kills_privileges());
                let found = walk::to_inode(core, caller, &path, FollowLinks::Yes).await?;
                match found.kind() {
                    FileKind::Regular => {}
                    FileKind::Directory => return Err(FsError::IsDirectory),
                    _ => return Err(FsError::Invalid),
                }
                let truncated = core.client.truncate(caller, found.ino(), to, false, kill);
                truncated.await.map(|_| ())
            })
            .await
        })
    }
}
