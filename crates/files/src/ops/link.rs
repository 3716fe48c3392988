//! link(2).

use crate::held_inode::HeldInode;
use crate::run_to_end::RunToEnd;
use crate::user_files::{FollowLinks, UserFiles};
use crate::walk::{self, again_while_stale};
use gupfs_proto::FsError;
use gupfs_proto::meta::AccessMode;

impl UserFiles {
    /// Gives a file another name. A symbolic link gets the name itself.
    ///
    /// # Errors
    /// `Exists`, `NotPermitted` for a directory and for a file that the host's rules protect (`HostRules::check_link`), `TooManyLinks`, and
    /// those of `stat` for both paths.
    pub fn link(&self, from: &[u8], to: &[u8]) -> RunToEnd<()> {
        let (this, from, to) = (self.clone(), from.to_vec(), to.to_vec());
        self.run(async move {
            again_while_stale(async || {
                let (core, caller) = (&this.core, &this.caller);
                let file = walk::to_inode(core, caller, &from, FollowLinks::No).await?;
                let parent = walk::to_parent(core, caller, &to).await?;
                let (name, dir) = (parent.last.name_or(FsError::Exists)?, parent.dir.ino());
                if parent.has_slash {
                    let there = core.client.lookup(caller, dir, &name).await;
                    drop(HeldInode::counted(core, there?));
                    return Err(FsError::Exists);
                }
                let attr = file.attr(caller).await?;
                if !caller.is_root() && caller.uid != attr.uid {
                    let use_it = AccessMode::READ | AccessMode::WRITE;
                    let may_use = core.client.access(caller, file.ino(), use_it).await;
                    if let Err(refused) = core.rules.check_link(caller, &attr, may_use.is_ok()) {
                        // Linux looks first whether the new name exists.
                        return match core.client.lookup(caller, dir, &name).await {
                            Ok(there) => {
                                drop(HeldInode::counted(core, there));
                                Err(FsError::Exists)
                            }
                            Err(FsError::NotFound) => Err(refused),
                            Err(error) => Err(error),
                        };
                    }
                }
                let linked = core.client.link(caller, file.ino(), dir, &name).await?;
                drop(HeldInode::counted(core, linked));
                Ok(())
            })
            .await
        })
    }
}
