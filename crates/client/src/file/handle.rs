//! Open files: what open(2) gave, until `release`.

use super::table::Pin;
use gupfs_platform::hash::Map;
use gupfs_proto::meta::Access;
use gupfs_proto::{InodeId, SessionId};
use parking_lot::RwLock;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How far a write has to get before it is answered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Durability {
    /// It survives the end of any one process.
    #[default]
    Answered,
    /// O_DSYNC: its bytes survive a power cut, and what is needed to read them.
    Data,
    /// O_SYNC: and all attributes.
    All,
}

/// O_… that matter after open.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OpenFlags {
    pub append: bool,
    pub sync: bool,
    pub dsync: bool,
    /// Nothing is cached here, so it changes nothing here.
    pub direct: bool,
}

impl OpenFlags {
    pub fn durability(self) -> Durability {
        match self {
            OpenFlags { sync: true, .. } => Durability::All,
            OpenFlags { dsync: true, .. } => Durability::Data,
            _ => Durability::Answered,
        }
    }
}

/// An open regular file.
pub struct OpenFile {
    id: u64,
    pub(crate) inode: Pin,
    access: Access,
    flags: OpenFlags,
    /// In which it was opened; when that is lost, so is this.
    session: SessionId,
    /// Up to which of the inode's errors this open file has heard (`Errors`); changed under the state's lock.
    pub(super) heard: AtomicU64,
}

impl OpenFile {
    /// The number that finds it again with `Client::file`; never 0, never used twice.
    pub fn id(&self) -> u64 {
        self.id
    }

    pub fn ino(&self) -> InodeId {
        self.inode.ino
    }

    pub fn access(&self) -> Access {
        self.access
    }

    pub fn flags(&self) -> OpenFlags {
        self.flags
    }

    pub(crate) fn session(&self) -> SessionId {
        self.session
    }
}

pub(crate) struct Handles {
    open: RwLock<Map<u64, Arc<OpenFile>>>,
    next: AtomicU64,
}

impl Default for Handles {
    fn default() -> Handles {
        Handles {
            open: RwLock::default(),
            next: AtomicU64::new(1),
        }
    }
}

impl Handles {
    /// The inode's state is loaded, and counts the new handle.
    pub fn add(
        &self,
        inode: Pin,
        access: Access,
        flags: OpenFlags,
        session: SessionId,
    ) -> Arc<OpenFile> {
        let heard = {
            let mut state = inode.state();
            state.handles += 1;
            state.writers += u32::from(access.contains(Access::WRITE));
            state.errors.heard_at_open()
        };
        let file = Arc::new(OpenFile {
            id: self.next.fetch_add(1, Ordering::Relaxed),
            inode,
            access,
            flags,
            session,
            heard: AtomicU64::new(heard),
        });
        self.open.write().insert(file.id, file.clone());
        file
    }

    pub fn get(&self, id: u64) -> Option<Arc<OpenFile>> {
        self.open.read().get(&id).cloned()
    }

    /// None if it was not open, or is released already.
    pub fn remove(&self, id: u64) -> Option<Arc<OpenFile>> {
        let file = self.open.write().remove(&id)?;
        let mut state = file.inode.state();
        state.handles -= 1;
        state.writers -= u32::from(file.access.contains(Access::WRITE));
        drop(state);
        Some(file)
    }

    pub fn len(&self) -> usize {
        self.open.read().len()
    }

    pub fn ids(&self) -> Vec<u64> {
        let mut ids: Vec<u64> = self.open.read().keys().copied().collect();
        ids.sort_unstable();
        ids
    }
}
