//! Taking locks, and waiting for them.

use super::Locks;
use crate::inodes::OpenFile;
use crate::lock_table::LockWaitStatus;
use crate::server_call::CalledServer;
use gupfs_proto::lock::{AdvisoryLock, LockOutcome, LockRange, LockRequest};
use gupfs_proto::{FsError, SessionId};
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;

/// A lock request in the server's queue. Dropping it cancels it.
struct QueuedLock<'a> {
    locks: &'a Arc<Locks>,
    session: SessionId,
    acquire: u64,
    lock: AdvisoryLock,
    is_done: bool,
}

impl Locks {
    pub(super) async fn take_lock(
        self: &Arc<Self>,
        file: &OpenFile,
        lock: AdvisoryLock,
    ) -> Result<(), FsError> {
        self.table.add_file_holder(file.id(), lock.holder);
        let acquire = |seq| LockRequest::Acquire {
            seq,
            lock,
            wait: false,
        };
        self.request_lock(acquire).await?;
        self.check_still_open(file, lock).await
    }

    pub(super) async fn wait_for_lock(
        self: &Arc<Self>,
        file: &OpenFile,
        lock: AdvisoryLock,
        given_up: impl Future<Output = ()>,
    ) -> Result<(), FsError> {
        self.table.add_file_holder(file.id(), lock.holder);
        let mut given_up = pin!(given_up);
        let session = file.session();
        loop {
            let acquire = |seq| LockRequest::Acquire {
                seq,
                lock,
                wait: true,
            };
            let (acquire, outcome) = self.request_lock(acquire).await?;
            let mut queued = QueuedLock {
                locks: self,
                session,
                acquire,
                lock,
                is_done: outcome != LockOutcome::Queued,
            };
            if queued.is_done || queued.wait(given_up.as_mut()).await? {
                return self.check_still_open(file, lock).await;
            }
        }
    }

    /// A file that was closed meanwhile, or whose session was lost, keeps no lock: no close would free it.
    async fn check_still_open(
        self: &Arc<Self>,
        file: &OpenFile,
        lock: AdvisoryLock,
    ) -> Result<(), FsError> {
        if self.open_files.get(file.id()).is_some()
            && self.mds.check_opened_in(file.session()).is_ok()
        {
            return Ok(());
        }
        self.table.take_file_holders(file.id());
        self.free_lock(lock.holder, LockRange::WHOLE).await?;
        Err(FsError::Stale)
    }
}

impl QueuedLock<'_> {
    /// True if it was granted; false if it must be requested again.
    async fn wait(
        &mut self,
        mut given_up: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<bool, FsError> {
        let (locks, ino) = (self.locks, self.lock.holder.ino);
        let _listed = locks
            .pending_calls
            .begin(CalledServer::Mds, "lock", Some(ino));
        loop {
            let mut changed = pin!(locks.table.changed.notified());
            changed.as_mut().enable();
            if let Some(over) = self.poll_status() {
                return over;
            }
            tokio::select! {
                biased;
                () = changed => {}
                () = given_up.as_mut() => return self.give_up().await,
            }
        }
    }

    fn poll_status(&mut self) -> Option<Result<bool, FsError>> {
        let over = match self.locks.table.wait_status(self.session, self.acquire) {
            LockWaitStatus::Waiting => return None,
            LockWaitStatus::Granted => Ok(true),
            LockWaitStatus::Retry => Ok(false),
            LockWaitStatus::Lost => Err(FsError::Stale),
        };
        // A request that was sent in a later session still waits there.
        self.is_done = over.is_ok();
        Some(over)
    }

    /// True if it was granted before the cancel.
    async fn give_up(&mut self) -> Result<bool, FsError> {
        cancel(self.locks, self.acquire).await?;
        match self.poll_status() {
            Some(Ok(true)) => Ok(true),
            Some(Err(error)) => Err(error),
            Some(Ok(false)) | None => {
                self.is_done = true;
                Err(FsError::Interrupted)
            }
        }
    }
}

async fn cancel(locks: &Arc<Locks>, acquire: u64) -> Result<(), FsError> {
    let cancel = |seq| LockRequest::Cancel { seq, acquire };
    locks.request_lock(cancel).await.map(|_| ())
}

impl Drop for QueuedLock<'_> {
    fn drop(&mut self) {
        let (locks, acquire, lock) = (self.locks.clone(), self.acquire, self.lock);
        if self.is_done {
            locks.table.remove_waiter(acquire);
            return;
        }
        let tasks = locks.platform.tasks.clone();
        tasks.spawn("cancel a lock request", async move {
            let cancelled = cancel(&locks, acquire).await;
            let was_granted = locks.table.is_granted(acquire);
            locks.table.remove_waiter(acquire);
            let freed = match was_granted {
                true => locks.free_lock(lock.holder, lock.range).await,
                false => cancelled,
            };
            if let Err(error) = freed {
                tracing::warn!(%error, "could not cancel a lock request at the metadata server after its program stopped waiting");
            }
        });
    }
}
