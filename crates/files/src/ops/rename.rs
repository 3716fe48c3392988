//! rename(2), and the modes of renameat2(2).

use crate::held_inode::HeldInode;
use crate::run_to_end::RunToEnd;
use crate::user_files::UserFiles;
use crate::walk::{self, LastComponent, again_while_stale};
use gupfs_proto::meta::{AccessMode, RenameMode};
use gupfs_proto::{FileKind, FsError};

impl UserFiles {
    /// The new name refers to the old file at every moment.
    ///
    /// # Errors
    /// `Exists` without `Replace`; `NotEmpty`, `IsDirectory`, `NotDirectory`, `IntoItself`, `NotPermitted` by a sticky directory, and those of
    /// `stat` for both directories.
    pub fn rename(&self, from: &[u8], to: &[u8], mode: RenameMode) -> RunToEnd<()> {
        let (this, from, to) = (self.clone(), from.to_vec(), to.to_vec());
        self.run(async move {
            again_while_stale(async || {
                let (core, caller) = (&this.core, &this.caller);
                let old = walk::to_parent(core, caller, &from).await?;
                let old_dir = old.dir.ino();
                let new = match walk::to_parent(core, caller, &to).await {
                    Ok(new) => new,
                    Err(error) => {
                        // Linux has looked at the first path before.
                        let search = core.client.access(caller, old_dir, AccessMode::EXECUTE);
                        search.await?;
                        return Err(error);
                    }
                };
                let new_dir = new.dir.ino();
                let has_slash = old.has_slash || new.has_slash;
                let are_names = matches!(old.last, LastComponent::Name(_))
                    && matches!(new.last, LastComponent::Name(_));
                if has_slash || !are_names {
                    // Linux has walked to both directories before it looks at the names.
                    for dir in [old_dir, new_dir] {
                        core.client.access(caller, dir, AccessMode::EXECUTE).await?;
                    }
                }
                let name = old.last.name_or(FsError::Busy)?;
                let new_name = new.last.name_or(match mode {
                    RenameMode::NoReplace => FsError::Exists,
                    _ => FsError::Busy,
                })?;
                if has_slash {
                    let there = core.client.lookup(caller, old_dir, &name).await?;
                    if HeldInode::counted(core, there).kind() != FileKind::Directory {
                        return Err(FsError::NotDirectory);
                    }
                }
                let (source, target) = ((old_dir, &name), (new_dir, &new_name));
                let renamed = core.client.rename(caller, source, target, mode).await;
                renamed.map(|_| ())
            })
            .await
        })
    }
}
