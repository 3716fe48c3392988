//! # locks: file locks of this mount's programs, where other mounts share the files
//!
//! Owns   requesting locks, waiting for them, and freeing them at close. (`lock_table` has what the server has granted.)
//! Never  grants a lock: the metadata server does. Never runs for a client that is not shared: there the kernel keeps the locks.
//! Enter  at `Locks::lock`, `Locks::unlock`, `Locks::test_lock`.

mod close;
mod request;
mod wait;

use crate::inodes::{OpenFile, OpenFileTable};
use crate::limits::RELEASE_DELAY;
use crate::lock_table::ClientLocks;
use crate::pending_calls::PendingCalls;
use crate::session::MdsSession;
use gupfs_platform::Platform;
use gupfs_proto::FsError;
use gupfs_proto::lock::{
    AdvisoryLock, LockFamily, LockHolder, LockMode, LockOutcome, LockRange, LockRequest,
};
use std::future::Future;
use std::sync::Arc;

/// A lock request of a program; `owner` is the kernel's lock owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LockSpec {
    pub family: LockFamily,
    pub owner: u64,
    pub range: LockRange,
    pub mode: LockMode,
    pub pid: u32,
}

impl LockSpec {
    fn for_file(self, file: &OpenFile) -> AdvisoryLock {
        AdvisoryLock {
            holder: LockHolder {
                ino: file.ino(),
                family: self.family,
                owner: self.owner,
            },
            range: self.range,
            mode: self.mode,
            pid: self.pid,
        }
    }
}

pub struct Locks {
    mds: Arc<MdsSession>,
    table: Arc<ClientLocks>,
    /// A lock of a file that was closed meanwhile is freed.
    open_files: Arc<OpenFileTable>,
    pending_calls: Arc<PendingCalls>,
    platform: Platform,
}

impl Locks {
    pub fn new(
        mds: Arc<MdsSession>,
        table: Arc<ClientLocks>,
        open_files: Arc<OpenFileTable>,
        pending_calls: Arc<PendingCalls>,
        platform: Platform,
    ) -> Arc<Locks> {
        Arc::new(Locks {
            mds,
            table,
            open_files,
            pending_calls,
            platform,
        })
    }

    /// Takes a lock without waiting.
    ///
    /// # Errors
    /// `WouldBlock`: another owner holds a conflicting lock. `TooManyLocks`; `Stale` if the session in which the file was opened
    /// is lost, and all locks with it.
    pub async fn try_lock(
        self: &Arc<Self>,
        file: &OpenFile,
        spec: LockSpec,
    ) -> Result<(), FsError> {
        self.check_session(file)?;
        let lock = spec.for_file(file);
        let is_here = self.table.has_local_conflict(lock);
        let taken = self.take_lock(file, lock).await;
        if taken != Err(FsError::WouldBlock) || !is_here {
            return taken;
        }
        // The open file with the conflicting lock may be closed already: close(2) does not wait for the kernel's RELEASE request.
        self.platform.clock.sleep(RELEASE_DELAY).await;
        self.take_lock(file, lock).await
    }

    /// Takes a lock, and waits for it without a deadline, also through a restart of the server, until `given_up` is ready.
    ///
    /// # Errors
    /// `Interrupted`: the wait was cancelled and the lock not taken. `Deadlock`: the wait would never end. Those of `try_lock`.
    pub async fn lock(
        self: &Arc<Self>,
        file: &OpenFile,
        spec: LockSpec,
        given_up: impl Future<Output = ()>,
    ) -> Result<(), FsError> {
        self.check_session(file)?;
        self.wait_for_lock(file, spec.for_file(file), given_up)
            .await
    }

    /// Frees this owner's locks in the range.
    pub async fn unlock(self: &Arc<Self>, file: &OpenFile, spec: LockSpec) -> Result<(), FsError> {
        self.check_session(file)?;
        self.free_lock(spec.for_file(file).holder, spec.range).await
    }

    /// The first lock that conflicts with this one (F_GETLK). The pid of a program of another mount is 0.
    pub async fn test_lock(
        self: &Arc<Self>,
        file: &OpenFile,
        spec: LockSpec,
    ) -> Result<Option<AdvisoryLock>, FsError> {
        self.check_session(file)?;
        let lock = spec.for_file(file);
        match self.request_lock(|_| LockRequest::Test { lock }).await?.1 {
            LockOutcome::Conflict(found) => Ok(found),
            _ => crate::reply::unexpected("lock"),
        }
    }

    fn check_session(&self, file: &OpenFile) -> Result<(), FsError> {
        if !self.mds.is_shared() {
            return Err(FsError::NotSupported);
        }
        self.mds.check_opened_in(file.session())
    }
}
