//! # worker group: the workers of one session, which end together
//!
//! Owns   the count of running workers, and what ends them: the abort of their connection, the inboxes of their rings.
//! Never  starts a thread.
//! Enter  at `WorkerGroup::run_worker` for a worker with a thread, `WorkerGroup::worker_ended` for one without.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use tracing::{debug, error};

use crate::FileSystem;
use crate::connection::{ConnectionControl, ConnectionId};
use crate::pending::PendingRequests;
use crate::transport::ring::RingInbox;
use crate::worker_thread::AroundWorker;

/// The workers of a session; the last one that ends marks the session as over.
pub(crate) struct WorkerGroup {
    connection: ConnectionId,
    /// None if fusectl is not available.
    control: Option<ConnectionControl>,
    /// A ring learns of the end from its inbox: it gets no completion if the kernel has none of its entries.
    inboxes: Vec<Arc<RingInbox>>,
    running_workers: Mutex<usize>,
    ended: Condvar,
    is_over: AtomicBool,
    has_failed: AtomicBool,
    pending: Arc<PendingRequests>,
}

impl WorkerGroup {
    /// A group of `workers` workers, which all count as running.
    pub fn new(
        connection: ConnectionId,
        control: Option<ConnectionControl>,
        inboxes: Vec<Arc<RingInbox>>,
        workers: usize,
        pending: Arc<PendingRequests>,
    ) -> WorkerGroup {
        WorkerGroup {
            connection,
            control,
            inboxes,
            running_workers: Mutex::new(workers),
            ended: Condvar::new(),
            is_over: AtomicBool::new(false),
            has_failed: AtomicBool::new(false),
            pending,
        }
    }

    /// None if fusectl is not available.
    pub fn control(&self) -> Option<&ConnectionControl> {
        self.control.as_ref()
    }

    /// Aborts the connection: its workers end.
    pub fn abort(&self) -> io::Result<()> {
        match &self.control {
            Some(control) => control.abort(),
            None => Err(io::Error::other(
                "the kernel's FUSE control files (fusectl) are not available",
            )),
        }
    }

    /// Runs one worker of the group to its end on the calling thread.
    pub fn run_worker(
        &self,
        fs: &impl FileSystem,
        around: Option<AroundWorker>,
        body: impl FnOnce() -> Result<(), String>,
    ) {
        let (mut end, mut body) = (Ok(()), Some(body));
        let mut run = || {
            if let Some(body) = body.take() {
                end = body();
            }
        };
        // Panics of handlers are caught elsewhere. A panic that arrives here is a bug of this crate, and leaves no state that is
        // used again in an intermediate state.
        let panicked = catch_unwind(AssertUnwindSafe(|| match around {
            Some(around) => around(&mut run),
            None => run(),
        }))
        .is_err();
        let failed = panicked || end.is_err();
        if failed {
            error!(
                panicked,
                ?end,
                "a FUSE worker thread failed; aborting the connection"
            );
        }
        self.worker_ended(fs, failed);
    }

    /// Accounts for the end of one worker.
    pub fn worker_ended(&self, fs: &impl FileSystem, failed: bool) {
        self.has_failed.fetch_or(failed, Ordering::Release);
        // Otherwise programs would wait for replies that never come. No other thread can reply to the requests of one CPU's
        // ring, so no ring may end alone; aborting an ended connection has no effect.
        if (failed || !self.inboxes.is_empty())
            && let Err(error) = self.abort()
        {
            error!(%error, "cannot abort the connection");
        }
        self.inboxes.iter().for_each(|inbox| inbox.close());
        let last = {
            let mut running_workers = self.lock_running_workers();
            *running_workers -= 1;
            *running_workers == 0
        };
        if last {
            self.pending.end();
            fs.unmounted();
            debug!(connection = %self.connection, "the connection has ended");
            // Under the lock, so that a thread that is about to wait cannot miss it.
            let _running = self.lock_running_workers();
            self.is_over.store(true, Ordering::Release);
            self.ended.notify_all();
        }
    }

    /// Aborts the connection because `count` workers could not be started. `wait` returns when those that run already have
    /// ended with it.
    pub fn abort_without_unstarted(&self, count: usize) {
        *self.lock_running_workers() -= count;
        let _ = self.abort();
    }

    /// Blocks until no worker runs.
    pub fn wait(&self) {
        let mut running_workers = self.lock_running_workers();
        while !self.is_over() {
            running_workers = self
                .ended
                .wait(running_workers)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Whether no worker runs.
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Whether a worker ended with an error, which aborts the connection.
    pub fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Acquire)
    }

    /// The count is consistent at every moment; a panic elsewhere does not invalidate it.
    fn lock_running_workers(&self) -> MutexGuard<'_, usize> {
        self.running_workers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
