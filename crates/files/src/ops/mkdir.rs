//! mkdir(2).

use crate::held_inode::HeldInode;
use crate::run_to_end::RunToEnd;
use crate::user_files::UserFiles;
use crate::walk::{self, again_while_stale};
use gupfs_proto::meta::CreateMode;
use gupfs_proto::{Attr, FsError};

impl UserFiles {
    /// Makes a directory with these permission bits less the umask.
    ///
    /// # Errors
    /// `Exists`, `Denied`, and those of `stat` for the directory above.
    pub fn make_directory(&self, path: &[u8], mode: u32) -> RunToEnd<Attr> {
        let (this, path) = (self.clone(), path.to_vec());
        self.run(async move {
            again_while_stale(async || {
                let (core, caller) = (&this.core, &this.caller);
                let parent = walk::to_parent(core, caller, &path).await?;
                let name = parent.last.name_or(FsError::Exists)?;
                let create_mode = CreateMode {
                    mode,
                    umask: this.umask,
                };
                let made = core
                    .client
                    .mkdir(caller, parent.dir.ino(), &name, create_mode);
                let attr = made.await?;
                drop(HeldInode::counted(core, attr));
                Ok(attr)
            })
            .await
        })
    }
}
