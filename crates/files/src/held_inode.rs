//! An inode that this process uses: it counts as one lookup until it is dropped.

use crate::shared_session::SharedSession;
use gupfs_proto::{Attr, Caller, FileKind, FsError, InodeId};
use std::sync::Arc;

/// An inode with one lookup of its own, which a drop gives back. The root has none: no server forgets it.
pub(crate) struct HeldInode {
    core: Arc<SharedSession>,
    ino: InodeId,
    /// As they were at the lookup; None of a root that was not looked up.
    attr: Option<Attr>,
}

impl HeldInode {
    pub fn root(core: &Arc<SharedSession>) -> HeldInode {
        HeldInode {
            core: core.clone(),
            ino: core.client.root(),
            attr: None,
        }
    }

    /// The inode of a reply that has added a lookup.
    pub fn counted(core: &Arc<SharedSession>, attr: Attr) -> HeldInode {
        HeldInode {
            core: core.clone(),
            ino: attr.ino,
            attr: Some(attr),
        }
    }

    pub fn ino(&self) -> InodeId {
        self.ino
    }

    pub fn kind(&self) -> FileKind {
        self.attr.map_or(FileKind::Directory, |attr| attr.kind)
    }

    /// The attributes of the lookup.
    pub async fn attr(&self, caller: &Caller) -> Result<Attr, FsError> {
        match self.attr {
            Some(attr) => Ok(attr),
            None => self.core.client.getattr(caller, self.ino).await,
        }
    }
}

impl Drop for HeldInode {
    fn drop(&mut self) {
        if self.attr.is_some() {
            // The client may send what was forgotten from a task.
            let _in_runtime = self.core.runtime.enter();
            self.core.client.forget([(self.ino, 1)]);
        }
    }
}
