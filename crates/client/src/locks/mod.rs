//! # locks: what programs of this mount lock, where other mounts share the files
//!
//! Owns   which locks are held here, as the server knows them (`held`); who waits for one; giving them back when files are closed.
//! Never  decides who gets a lock. Is used by a client that is alone: there locks are the kernel's.
//! Enter  at `Client::lock`, `Client::unlock`, `Client::lock_in_the_way`.

mod ask;
mod close;
mod held;
mod wait;

pub(crate) use held::Locks;

use crate::file::OpenFile;
use crate::limits::RELEASE_COMES;
use crate::service::Client;
use gupfs_proto::Refusal;
use gupfs_proto::lock::{Ask, Extent, Holder, Kind, Lock, Mode, Word};
use std::future::Future;
use std::sync::Arc;

/// What a program asks for, with the owner as the kernel names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LockWish {
    pub kind: Kind,
    pub owner: u64,
    pub extent: Extent,
    pub mode: Mode,
    pub pid: u32,
}

impl LockWish {
    fn of(self, file: &OpenFile) -> Lock {
        Lock {
            holder: Holder {
                ino: file.ino(),
                kind: self.kind,
                owner: self.owner,
            },
            extent: self.extent,
            mode: self.mode,
            pid: self.pid,
        }
    }
}

impl Client {
    /// Takes a lock, now.
    ///
    /// # Errors
    /// `WouldBlock`: another holds one that excludes it. `TooManyLocks`; `Stale` if the session in which the file was opened is
    /// lost, and all locks with it.
    pub async fn try_lock(
        self: &Arc<Self>,
        file: &OpenFile,
        wish: LockWish,
    ) -> Result<(), Refusal> {
        self.must_count_locks(file)?;
        let lock = wish.of(file);
        let is_here = self.locks.excludes(lock);
        let taken = self.take_lock(file, lock).await;
        if taken != Err(Refusal::WouldBlock) || !is_here {
            return taken;
        }
        // The file that has it may be closed already: the kernel lets nobody wait for us to hear of that.
        self.platform.clock.sleep(RELEASE_COMES).await;
        self.take_lock(file, lock).await
    }

    /// Takes a lock, as soon as it can be had. Waits without an end, also through a restart of the server, until `given_up`.
    ///
    /// # Errors
    /// `Interrupted`: it was given up, and not taken. `Deadlock`: it would wait for ever. The others of `try_lock`.
    pub async fn lock(
        self: &Arc<Self>,
        file: &OpenFile,
        wish: LockWish,
        given_up: impl Future<Output = ()>,
    ) -> Result<(), Refusal> {
        self.must_count_locks(file)?;
        self.wait_for_lock(file, wish.of(file), given_up).await
    }

    /// Frees what of these bytes is locked by this owner.
    pub async fn unlock(self: &Arc<Self>, file: &OpenFile, wish: LockWish) -> Result<(), Refusal> {
        self.must_count_locks(file)?;
        self.free_lock(wish.of(file).holder, wish.extent).await
    }

    /// The first lock in the way of this one. The pid of a program of another mount is 0.
    pub async fn lock_in_the_way(
        self: &Arc<Self>,
        file: &OpenFile,
        wish: LockWish,
    ) -> Result<Option<Lock>, Refusal> {
        self.must_count_locks(file)?;
        let lock = wish.of(file);
        match self.ask_lock(|_| Ask::Test { lock }).await?.1 {
            Word::InTheWay(found) => Ok(found),
            _ => crate::answer::unexpected("lock"),
        }
    }

    fn must_count_locks(&self, file: &OpenFile) -> Result<(), Refusal> {
        if !self.options.shared {
            return Err(Refusal::NotSupported);
        }
        self.must_count(file)
    }
}
