//! Open files, from open(2) to `release`.

use super::table::InodePin;
use crate::data_cache::ReadStreams;
use gupfs_platform::CurrentCall;
use gupfs_platform::hash::Map;
use gupfs_proto::meta::AccessMode;
use gupfs_proto::{FsError, InodeId, JobId, SessionId};
use parking_lot::{Mutex, RwLock};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a write must survive before it is answered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Durability {
    /// The end of any one process.
    #[default]
    Answered,
    /// O_DSYNC: a power loss keeps its bytes, and the metadata needed to read them.
    Data,
    /// O_SYNC: and all attributes too.
    All,
}

/// Flags of open(2) that matter after the open.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OpenFileFlags {
    pub append: bool,
    pub sync: bool,
    pub dsync: bool,
    /// O_DIRECT: reads come from the object servers, and nothing is read ahead.
    pub direct: bool,
}

impl OpenFileFlags {
    pub fn durability(self) -> Durability {
        match self {
            OpenFileFlags { sync: true, .. } => Durability::All,
            OpenFileFlags { dsync: true, .. } => Durability::Data,
            _ => Durability::Answered,
        }
    }
}

/// An open regular file.
pub struct OpenFile {
    id: u64,
    pub(crate) inode: InodePin,
    access: AccessMode,
    flags: OpenFileFlags,
    /// The session in which it was opened; when that is lost, the open file is stale.
    session: SessionId,
    /// Up to which of the inode's errors this open file has seen (`WritebackErrors`); changed under the state's lock.
    errors_seen: AtomicU64,
    pub(crate) streams: Arc<Mutex<ReadStreams>>,
    /// The job that opened it: calls for which the kernel names no process count for it.
    job: JobId,
}

impl OpenFile {
    /// The number for `Client::file`; never 0, never reused.
    pub fn id(&self) -> u64 {
        self.id
    }

    pub fn ino(&self) -> InodeId {
        self.inode.ino
    }

    pub fn access(&self) -> AccessMode {
        self.access
    }

    pub fn flags(&self) -> OpenFileFlags {
        self.flags
    }

    pub(crate) fn job(&self) -> JobId {
        self.job
    }

    pub(crate) fn session(&self) -> SessionId {
        self.session
    }

    /// Records a new writeback error, and returns the last one unless this open file has got it before.
    ///
    /// # Errors
    /// That error.
    pub(crate) fn take_error(&self, new: Option<FsError>) -> Result<(), FsError> {
        let mut state = self.inode.state();
        if let Some(error) = new {
            state.errors.record(error);
        }
        let mut seen = self.errors_seen.load(Ordering::Acquire);
        let error_to_return = state.errors.check_and_advance(&mut seen);
        self.errors_seen.store(seen, Ordering::Release);
        error_to_return.map_or(Ok(()), Err)
    }
}

pub struct OpenFileTable {
    files: RwLock<Map<u64, Arc<OpenFile>>>,
    next: AtomicU64,
}

impl Default for OpenFileTable {
    fn default() -> OpenFileTable {
        OpenFileTable {
            files: RwLock::default(),
            next: AtomicU64::new(1),
        }
    }
}

impl OpenFileTable {
    /// The inode's state must be loaded; it counts the new handle.
    pub fn add(
        &self,
        inode: InodePin,
        access: AccessMode,
        flags: OpenFileFlags,
        session: SessionId,
    ) -> Arc<OpenFile> {
        let errors_seen = {
            let mut state = inode.state();
            state.opens.add(access);
            state.errors.seen_at_open()
        };
        let file = Arc::new(OpenFile {
            id: self.next.fetch_add(1, Ordering::Relaxed),
            inode,
            access,
            flags,
            session,
            errors_seen: AtomicU64::new(errors_seen),
            streams: Arc::default(),
            job: CurrentCall::get().job,
        });
        self.files.write().insert(file.id, file.clone());
        file
    }

    pub fn get(&self, id: u64) -> Option<Arc<OpenFile>> {
        self.files.read().get(&id).cloned()
    }

    /// None if it was not open or is already released.
    pub fn remove(&self, id: u64) -> Option<Arc<OpenFile>> {
        let file = self.files.write().remove(&id)?;
        file.inode.state().opens.remove(file.access);
        Some(file)
    }

    pub fn len(&self) -> usize {
        self.files.read().len()
    }

    pub fn ids(&self) -> Vec<u64> {
        let mut ids: Vec<u64> = self.files.read().keys().copied().collect();
        ids.sort_unstable();
        ids
    }
}
