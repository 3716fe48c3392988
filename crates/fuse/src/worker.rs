//! # worker: one thread that reads requests and replies to them
//!
//! Owns   a device descriptor or a ring, the buffers of its thread, the path from a request to the handler and back.
//! Never  shares a counter or a lock with another worker for a request whose handler is ready at its first poll.
//! Enter  at `Worker::run`, `Worker::run_ring`.

mod dispatch;
mod finish;
#[cfg(any(test, fuzzing))]
pub(crate) mod harness;
mod pending_handler;
mod request_memory;
mod run_queue;

use std::io;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use gupfs_uring::BlockingThreads;
use tracing::{error, warn};

use crate::buffer::Buffer;
use crate::call::CallContext;
use crate::pending::RequestOrder;
use crate::reply::Reply;
use crate::request::{Request, RequestFormat};
use crate::responder::{ReplyWriter, Responder, reply_through_entry};
use crate::transport::ring::{IncomingRequest, Ring};
use crate::transport::{Device, DeviceRead};
use crate::wire::{Opcode, RequestHeader};
use crate::worker_thread::mark_worker_thread;
use crate::{Errno, FileSystem, Unique};
use pending_handler::PendingHandler;
use request_memory::RequestMemory;
use run_queue::LocalRunQueue;
pub(crate) use run_queue::prefer_local;

/// A handler that was not ready at its first poll, as the spawner gets it.
pub type HandlerTask = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A handler whose result is converted to a reply.
type ReplyFuture = Pin<Box<dyn Future<Output = Reply> + Send>>;

/// Runs handlers that were not ready at their first poll.
pub type Spawner = Arc<dyn Fn(HandlerTask) + Send + Sync>;

/// Request counters of one worker.
#[derive(Default)]
pub(crate) struct WorkerCounts {
    pub requests: AtomicU64,
    pub parked: AtomicU64,
}

/// Result of one `read_requests`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadProgress {
    /// No request was queued.
    Idle,
    /// Requests were read, and none is left until the descriptor is readable again.
    Drained,
    /// Requests were read, and more may be queued.
    More,
    /// The connection has ended: drop the reader.
    Disconnected,
}

/// Reads requests from one device descriptor or one ring, calls the file system, and sends the replies.
pub(crate) struct Worker<F> {
    device: Arc<Device>,
    writer: Arc<ReplyWriter>,
    call_context: Arc<CallContext>,
    format: RequestFormat,
    pub counts: Arc<WorkerCounts>,
    pub fs: Arc<F>,
    spawner: Spawner,
}

impl<F: FileSystem> Worker<F> {
    pub fn new(
        device: Arc<Device>,
        call_context: CallContext,
        format: RequestFormat,
        fs: Arc<F>,
        spawner: Spawner,
    ) -> Worker<F> {
        Worker {
            writer: Arc::new(ReplyWriter::new(device.clone())),
            device,
            call_context: Arc::new(call_context),
            format,
            counts: Arc::new(WorkerCounts::default()),
            fs,
            spawner,
        }
    }

    /// A duplicate descriptor, to poll for requests.
    pub fn poll_descriptor(&self) -> io::Result<OwnedFd> {
        self.device.poll_descriptor()
    }

    /// Reads requests and replies to them until the connection ends, or until reading fails. Joins `waiters`: the workers that
    /// may block in a disk read.
    pub fn run(self: &Arc<Self>, waiters: &Arc<BlockingThreads>) -> Result<(), Errno> {
        mark_worker_thread();
        waiters.join();
        let mut buffer = self.call_context.pool.take();
        loop {
            match self.device.read(buffer.read_target()) {
                Ok(DeviceRead::Message(length)) => {
                    buffer = self.handle_device_message(buffer, length)
                }
                Ok(DeviceRead::Retry) => {}
                Ok(DeviceRead::Disconnected) => return Ok(()),
                Err(errno) => return Err(errno),
            }
        }
    }

    /// Reads the messages that are queued, at most `most`, and starts their handlers.
    pub fn read_requests(self: &Arc<Self>, most: usize) -> Result<ReadProgress, Errno> {
        mark_worker_thread();
        let pool = &self.call_context.pool;
        let mut buffer = pool.take();
        let mut progress = Ok(ReadProgress::More);
        for taken in 0..most {
            match self.device.read_now(buffer.read_target()) {
                Ok(Some(DeviceRead::Message(length))) => {
                    buffer = self.handle_device_message(buffer, length);
                    continue;
                }
                Ok(Some(DeviceRead::Retry)) => continue,
                Ok(Some(DeviceRead::Disconnected)) => progress = Ok(ReadProgress::Disconnected),
                Ok(None) if taken == 0 => progress = Ok(ReadProgress::Idle),
                Ok(None) => progress = Ok(ReadProgress::Drained),
                Err(errno) => progress = Err(errno),
            }
            break;
        }
        pool.put_back(buffer);
        progress
    }

    /// Serves the ring until the connection ends, or until the ring fails.
    pub fn run_ring(self: &Arc<Self>, mut ring: Ring) -> io::Result<()> {
        mark_worker_thread();
        ring.register()?;
        let run_queue = LocalRunQueue::install(self.spawner.clone());
        let handle = |incoming| self.handle_ring_message(incoming);
        while ring.run_once(|| run_queue.run_one(), handle)? {}
        // Dropping the ring ends its file reads and wakes the handlers that wait for them; the spawner runs those from then on.
        drop(ring);
        Ok(())
    }

    /// Handles one message; returns the buffer for the next one.
    fn handle_device_message(self: &Arc<Self>, buffer: Buffer, length: usize) -> Buffer {
        tracing::trace!(target: "walk", file = file!(), "handle_device_message");
        match self.parse_request(buffer.message(length)) {
            Ok((header, request)) => self
                .dispatch(header, request, RequestMemory::Device(Some(buffer)))
                .unwrap_or_else(|| self.call_context.pool.take()),
            Err(unanswered) => {
                if let Some(unique) = unanswered {
                    self.writer.write(unique, Reply::error(Errno::EIO));
                }
                buffer
            }
        }
    }

    /// Handles one message that came through the ring.
    fn handle_ring_message(self: &Arc<Self>, incoming: IncomingRequest) {
        let (unique, crowded) = (incoming.unique(), incoming.crowded);
        let before = incoming.before_payload();
        match self.parse_request(incoming.message()) {
            Ok((header, request))
                if let Some(payload_start) = request.operation.payload_start(before) =>
            {
                let entry = incoming.into_entry();
                let memory = RequestMemory::Ring {
                    entry,
                    payload_start,
                    crowded,
                };
                self.dispatch(header, request, memory);
            }
            // The ring entry returns to the kernel with a reply, whatever the message is.
            _ => reply_through_entry(incoming.into_entry(), unique, Reply::error(Errno::EIO)),
        }
    }

    /// Parses a message. If that fails, the error is the request that expects a reply all the same, if any.
    fn parse_request(&self, message: &[u8]) -> Result<(RequestHeader, Request), Option<Unique>> {
        tracing::trace!(target: "walk", file = file!(), "parse_request");
        self.counts.requests.fetch_add(1, Ordering::Relaxed);
        let length = message.len();
        let header = RequestHeader::from_wire(message).map_err(|error| {
            error!(%error, length, "the kernel sent a message without a complete header");
            None
        })?;
        match Request::from_wire(&header, message, &self.format) {
            Ok(request) => Ok((header, request)),
            Err(error) => {
                let opcode = Opcode::from_raw(header.opcode);
                error!(%error, ?opcode, unique = %header.unique, length, "cannot parse a request; replying EIO");
                let reply_due = !opcode.is_some_and(Opcode::has_no_reply);
                Err(reply_due.then_some(header.unique))
            }
        }
    }

    /// Polls the handler on this thread; a handler that is not ready goes to the spawner when its waker is called. A handler
    /// that must not begin yet is not polled on this thread at all.
    fn run_handler(
        self: &Arc<Self>,
        order: RequestOrder,
        responder: Responder,
        mut handler: ReplyFuture,
    ) {
        tracing::trace!(target: "walk", file = file!(), "run_handler");
        let unique = order.unique();
        // A handler that panics is dropped and not polled again; dropping its responder replies to the request.
        let driven = catch_unwind(AssertUnwindSafe(|| {
            let pending = &self.call_context.pending;
            let count_parked = || self.counts.parked.fetch_add(1, Ordering::Relaxed);
            if pending.must_wait(&order) {
                count_parked();
                let guard = pending.insert(order, responder, false);
                // A close does not wait for late handlers: a killed program closes its files while it exits, and no signal ends
                // that wait.
                if order.is_close()
                    && let Some(responder) = guard.take_responder_of_close()
                {
                    responder.reply(Reply::empty());
                }
                (self.spawner)(Box::pin(self.clone().finish(handler, guard)));
                return;
            }
            let mut noop = Context::from_waker(Waker::noop());
            if let Poll::Ready(reply) = handler.as_mut().poll(&mut noop) {
                responder.reply(reply);
                return;
            }
            count_parked();
            // A real waker is only created here, so that a handler that is ready at its first poll does not pay for it.
            let pending_handler = PendingHandler::new(self.spawner.clone());
            let waker = pending_handler.waker();
            if let Poll::Ready(reply) = handler.as_mut().poll(&mut Context::from_waker(&waker)) {
                responder.reply(reply);
                return;
            }
            // Registered before another thread can get the handler: from the handler's next poll on an INTERRUPT must find the
            // request.
            let guard = pending.insert(order, responder, true);
            pending_handler.suspend(Box::pin(self.clone().finish(handler, guard)));
        }));
        if driven.is_err() {
            warn!(%unique, "a handler or the spawner panicked");
        }
    }

    /// The same for operations without a reply.
    fn run_unanswered(&self, unique: Unique, mut task: HandlerTask) {
        let driven = catch_unwind(AssertUnwindSafe(|| {
            let mut noop = Context::from_waker(Waker::noop());
            if task.as_mut().poll(&mut noop).is_ready() {
                return;
            }
            let pending_handler = PendingHandler::new(self.spawner.clone());
            let waker = pending_handler.waker();
            let mut cx = Context::from_waker(&waker);
            if task.as_mut().poll(&mut cx).is_pending() {
                pending_handler.suspend(task);
            }
        }));
        if driven.is_err() {
            warn!(%unique, "a handler or the spawner panicked");
        }
    }
}
