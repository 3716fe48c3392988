//! File locks of programs.

use super::Client;
use crate::inodes::OpenFile;
use crate::locks::LockSpec;
use gupfs_proto::FsError;
use gupfs_proto::lock::AdvisoryLock;

impl Client {
    /// Takes a lock without waiting.
    ///
    /// # Errors
    /// `WouldBlock`: another owner holds a conflicting lock. `TooManyLocks`; `Stale` if the session in which the file was opened
    /// is lost, and all locks with it. `NotSupported` if the client is not shared.
    pub fn try_lock(
        &self,
        file: &OpenFile,
        spec: LockSpec,
    ) -> impl Future<Output = Result<(), FsError>> {
        self.locks.try_lock(file, spec)
    }

    /// Takes a lock, and waits for it without a deadline, also through a restart of the server, until `given_up` is ready.
    ///
    /// # Errors
    /// `Interrupted`: the wait was cancelled and the lock not taken. `Deadlock`: the wait would never end. Those of `try_lock`.
    pub fn lock(
        &self,
        file: &OpenFile,
        spec: LockSpec,
        given_up: impl Future<Output = ()>,
    ) -> impl Future<Output = Result<(), FsError>> {
        self.locks.lock(file, spec, given_up)
    }

    /// Frees this owner's locks in the range.
    ///
    /// # Errors
    /// The metadata server's; the client tries again until they are freed. `Stale`: the session is lost, and all locks with it.
    pub fn unlock(
        &self,
        file: &OpenFile,
        spec: LockSpec,
    ) -> impl Future<Output = Result<(), FsError>> {
        self.locks.unlock(file, spec)
    }

    /// The first lock that conflicts with this one (F_GETLK). The pid of a program of another mount is 0.
    ///
    /// # Errors
    /// The metadata server's; `Stale` and `NotSupported` as for `try_lock`.
    pub fn test_lock(
        &self,
        file: &OpenFile,
        spec: LockSpec,
    ) -> impl Future<Output = Result<Option<AdvisoryLock>, FsError>> {
        self.locks.test_lock(file, spec)
    }

    /// close(2) by this owner of any of its descriptors of the file: frees all its record locks in the file. Sends no request if
    /// it has none, and waits only `CLOSE_UNLOCK_WAIT` for a server that is down: a killed program closes its files as it ends.
    ///
    /// # Errors
    /// The metadata server's, if it replies in time; the client tries again until the locks are freed.
    pub fn unlock_at_close(
        &self,
        file: &OpenFile,
        owner: u64,
    ) -> impl Future<Output = Result<(), FsError>> {
        self.locks.unlock_at_close(file, owner)
    }
}
