//! unlink(2) and rmdir(2).

use crate::held_inode::HeldInode;
use crate::run_to_end::RunToEnd;
use crate::user_files::UserFiles;
use crate::walk::{self, LastComponent, again_while_stale};
use gupfs_proto::{FileKind, FsError};

impl UserFiles {
    /// unlink(2).
    ///
    /// # Errors
    /// `IsDirectory`, `NotPermitted` by a sticky directory, `Denied`, and those of `stat`.
    pub fn remove_file(&self, path: &[u8]) -> RunToEnd<()> {
        let (this, path) = (self.clone(), path.to_vec());
        self.run(async move {
            again_while_stale(async || {
                let (core, caller) = (&this.core, &this.caller);
                let parent = walk::to_parent(core, caller, &path).await?;
                let (name, dir) = (parent.last.name_or(FsError::IsDirectory)?, parent.dir.ino());
                if parent.has_slash {
                    let there = core.client.lookup(caller, dir, &name).await?;
                    return Err(match HeldInode::counted(core, there).kind() {
                        FileKind::Directory => FsError::IsDirectory,
                        _ => FsError::NotDirectory,
                    });
                }
                core.client.unlink(caller, dir, &name).await.map(|_| ())
            })
            .await
        })
    }

    /// rmdir(2).
    ///
    /// # Errors
    /// `NotDirectory`, `NotEmpty`, `NotPermitted` by a sticky directory, `Denied`, and those of `stat`.
    pub fn remove_directory(&self, path: &[u8]) -> RunToEnd<()> {
        let (this, path) = (self.clone(), path.to_vec());
        self.run(async move {
            again_while_stale(async || {
                let (core, caller) = (&this.core, &this.caller);
                let parent = walk::to_parent(core, caller, &path).await?;
                let otherwise = match parent.last {
                    LastComponent::Root => FsError::Busy,
                    LastComponent::DotDot => FsError::NotEmpty,
                    _ => FsError::Invalid,
                };
                let name = parent.last.name_or(otherwise)?;
                let removed = core.client.rmdir(caller, parent.dir.ino(), &name).await;
                removed.map(|_| ())
            })
            .await
        })
    }
}
