//! symlink(2).

use crate::held_inode::HeldInode;
use crate::run_to_end::RunToEnd;
use crate::user_files::UserFiles;
use crate::walk::{self, again_while_stale};
use gupfs_proto::FsError;

impl UserFiles {
    /// Makes a symbolic link with this target, which is not looked at.
    ///
    /// # Errors
    /// `NotFound` for an empty target or a path that ends with a slash; `Exists`, `Denied`, and those of `stat` for the directory above.
    pub fn symlink(&self, target: &[u8], path: &[u8]) -> RunToEnd<()> {
        let (this, path, target) = (self.clone(), path.to_vec(), target.to_vec());
        self.run(async move {
            if target.is_empty() {
                return Err(FsError::NotFound);
            }
            again_while_stale(async || {
                let (core, caller) = (&this.core, &this.caller);
                let parent = walk::to_parent(core, caller, &path).await?;
                let (name, dir) = (parent.last.name_or(FsError::Exists)?, parent.dir.ino());
                if parent.has_slash {
                    let there = core.client.lookup(caller, dir, &name).await;
                    drop(HeldInode::counted(core, there?));
                    return Err(FsError::Exists);
                }
                let made = core.client.symlink(caller, dir, &name, &target).await?;
                drop(HeldInode::counted(core, made));
                Ok(())
            })
            .await
        })
    }
}
