//! # locks: file locks of this mount's programs, where other mounts share the files
//!
//! Owns   the table of locks that the server has granted to this client (`lock_table`); waiters; freeing locks at close.
//! Never  grants a lock: the metadata server does. Never runs for a client that is not shared: there the kernel keeps the locks.
//! Enter  at `Client::lock`, `Client::unlock`, `Client::test_lock`.

mod close;
mod lock_table;
mod request;
mod wait;

pub(crate) use lock_table::ClientLocks;

use crate::file::OpenFile;
use crate::limits::RELEASE_DELAY;
use crate::service::Client;
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

impl Client {
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
        self.check_lock_session(file)?;
        let lock = spec.for_file(file);
        let is_here = self.locks.has_local_conflict(lock);
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
        self.check_lock_session(file)?;
        self.wait_for_lock(file, spec.for_file(file), given_up)
            .await
    }

    /// Frees this owner's locks in the range.
    pub async fn unlock(self: &Arc<Self>, file: &OpenFile, spec: LockSpec) -> Result<(), FsError> {
        self.check_lock_session(file)?;
        self.free_lock(spec.for_file(file).holder, spec.range).await
    }

    /// The first lock that conflicts with this one (F_GETLK). The pid of a program of another mount is 0.
    pub async fn test_lock(
        self: &Arc<Self>,
        file: &OpenFile,
        spec: LockSpec,
    ) -> Result<Option<AdvisoryLock>, FsError> {
        self.check_lock_session(file)?;
        let lock = spec.for_file(file);
        match self.request_lock(|_| LockRequest::Test { lock }).await?.1 {
            LockOutcome::Conflict(found) => Ok(found),
            _ => crate::reply::unexpected("lock"),
        }
    }

    fn check_lock_session(&self, file: &OpenFile) -> Result<(), FsError> {
        if !self.options.shared {
            return Err(FsError::NotSupported);
        }
        self.check_session(file)
    }
}
