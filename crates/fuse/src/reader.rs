//! # reader: the requests of a mount, for an event loop of the caller
//!
//! Owns   one worker without a thread, from the mount to the connection's end.
//! Never  blocks.
//! Enter  at `RequestReader::read_requests`, when the descriptor of `RequestReader::poll_descriptor` is readable.

use std::io;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tracing::error;

use crate::worker::{ReadProgress, Worker};
use crate::worker_group::WorkerGroup;
use crate::{Errno, FileSystem};

/// Receives the reader of a mount's requests during `mount`, on the thread that mounts.
pub type AttachReader = Arc<dyn Fn(RequestReader) + Send + Sync>;

/// Reads requests and starts their handlers on the calling thread. An event that a handler waits for should wake the same event
/// loop. Programs wait until the loop runs again, so the loop must not block on them, nor on another request of this mount.
///
/// Dropping it while the mount exists aborts the mount, so that programs get errors instead of waiting until the mount ends.
pub struct RequestReader {
    worker: Box<dyn AnyWorker>,
    group: Arc<WorkerGroup>,
    disconnected: bool,
}

trait AnyWorker: Send {
    fn read_requests(&self, most: usize) -> Result<ReadProgress, Errno>;
    fn poll_descriptor(&self) -> io::Result<OwnedFd>;
    fn worker_ended(&self, group: &WorkerGroup, failed: bool);
}

impl<F: FileSystem> AnyWorker for Arc<Worker<F>> {
    fn read_requests(&self, most: usize) -> Result<ReadProgress, Errno> {
        Worker::read_requests(self, most)
    }

    fn poll_descriptor(&self) -> io::Result<OwnedFd> {
        Worker::poll_descriptor(self)
    }

    fn worker_ended(&self, group: &WorkerGroup, failed: bool) {
        group.worker_ended(&*self.fs, failed);
    }
}

impl RequestReader {
    pub(crate) fn new<F: FileSystem>(
        worker: Arc<Worker<F>>,
        group: Arc<WorkerGroup>,
    ) -> RequestReader {
        RequestReader {
            worker: Box::new(worker),
            group,
            disconnected: false,
        }
    }

    /// A descriptor that is readable when requests are queued, and reports an error when the connection has ended: poll for
    /// both. Only this reader reads from it.
    ///
    /// # Errors
    /// EMFILE, ENFILE: no descriptor is free.
    pub fn poll_descriptor(&self) -> io::Result<OwnedFd> {
        self.worker.poll_descriptor()
    }

    /// Reads at most `most` queued requests and starts their handlers.
    pub fn read_requests(&mut self, most: usize) -> ReadProgress {
        // As with worker threads: a panic that arrives here is a bug of this crate.
        let result = catch_unwind(AssertUnwindSafe(|| self.worker.read_requests(most)));
        match result {
            Ok(Ok(ReadProgress::Disconnected)) => self.disconnected = true,
            Ok(Ok(progress)) => return progress,
            Ok(Err(errno)) => error!(%errno, "the request reader failed; ending the mount"),
            Err(_) => error!("the request reader panicked; ending the mount"),
        }
        ReadProgress::Disconnected
    }
}

impl Drop for RequestReader {
    fn drop(&mut self) {
        self.worker.worker_ended(&self.group, !self.disconnected);
    }
}
