//! What the metadata server keeps for the session and drops with it, as this client knows it.

use crate::forget_queue::ForgetQueue;
use crate::inodes::{ActiveInode, InodeTable};
use crate::lock_table::ClientLocks;
use crate::lookup_counts::LookupCounts;
use crate::open_dirs::OpenDirs;
use gupfs_proto::capability::OpenCapability;
use gupfs_proto::{InodeId, SessionId};
use parking_lot::Mutex;
use std::sync::Arc;

/// Shared with the parts of the client that change it; the session reads it to authorize requests, and clears it when it ends.
#[derive(Clone)]
pub struct ClientSessionState {
    /// Write leases, and open files with their open capabilities.
    pub inodes: Arc<InodeTable>,
    pub open_dirs: Arc<OpenDirs>,
    pub locks: Arc<ClientLocks>,
    /// Orphans: those known here, and those to be reported as forgotten.
    pub lookup_counts: Arc<Mutex<LookupCounts>>,
    pub forget_queue: Arc<ForgetQueue>,
}

impl ClientSessionState {
    /// The open capability of a file or directory in this session.
    pub fn open_capability(&self, session: SessionId, ino: InodeId) -> Option<OpenCapability> {
        let of_file = |file: Arc<ActiveInode>| file.state().opens.capability(session);
        let file = self.inodes.get(ino).and_then(of_file);
        file.or_else(|| self.open_dirs.open_capability(session, ino))
    }

    pub fn has_write_lease(&self, ino: InodeId) -> bool {
        let file = self.inodes.get(ino);
        file.is_some_and(|file| file.state().has_write_lease())
    }

    pub fn has_exclusive_write_lease(&self, ino: InodeId) -> bool {
        let file = self.inodes.get(ino);
        file.is_some_and(|file| file.state().has_exclusive_write_lease())
    }

    /// The session has ended: nothing of its state may be reported in the next one. Waits for operations on files in progress.
    pub async fn invalidate(&self) {
        for inode in self.inodes.all() {
            let _all = inode.range_locks.whole().await;
            let _reporting = inode.reporting.lock().await;
            let _flushing = inode.flushing.lock().await;
            inode.state().invalidate();
        }
        self.lookup_counts.lock().clear_orphans();
        self.forget_queue.clear();
    }
}
