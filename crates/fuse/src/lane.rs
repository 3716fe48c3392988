//! # lane: one reader of requests and what it needs to answer
//!
//! Owns   a device descriptor or a ring, the buffers of its thread, the way from a request to the handler and back.
//! Never  shares a counter or a lock with another lane on the way of a request that is answered at once.
//! Enter  at `Lane::run`, `Lane::run_ring`.

mod asleep;
mod dispatch;
mod parked;
mod ticket;
#[cfg(any(test, fuzzing))]
pub(crate) mod trial;
mod woken;

use std::cell::Cell;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use gupfs_uring::Waiters;
use tracing::{debug, error, warn};

use crate::answer::Answer;
use crate::buffer::{Buffer, Pool};
use crate::reader::Turn;
use crate::request::{Dialect, Request};
use crate::transport::ring::{Incoming, Ring};
use crate::transport::{Device, Received};
use crate::waits::{Order, Waits};
use crate::wire::{Header, Opcode};
use crate::{Errno, FileSystem, Unique};
use asleep::Sleeper;
use dispatch::Source;
pub(crate) use ticket::Ticket;
use woken::Woken;
pub(crate) use woken::or_to;

thread_local! {
    static REACTOR: Cell<bool> = const { Cell::new(false) };
}

/// If this thread reads requests.
pub(crate) fn on_reactor() -> bool {
    REACTOR.get()
}

/// Work that is done by somebody else: what the spawner is given.
pub type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A handler and what makes an answer of what it returns.
type Work = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// Runs what could not be answered at once.
pub type Spawner = Arc<dyn Fn(Task) + Send + Sync>;

/// What requests and their answers need, whatever the file system.
pub(crate) struct Desk {
    pub device: Arc<Device>,
    pub kit: Arc<Kit>,
    pub dialect: Dialect,
    pub counts: Arc<LaneCounts>,
}

/// What calls reach for while they are handled.
pub(crate) struct Kit {
    pub pool: Arc<Pool>,
    pub waits: Arc<Waits>,
}

/// Requests of one lane, by the way they went.
#[derive(Default)]
pub(crate) struct LaneCounts {
    pub requests: AtomicU64,
    pub parked: AtomicU64,
}

impl Desk {
    /// Writes an answer. There is nobody to tell if the kernel does not want it.
    fn send(&self, unique: Unique, mut answer: Answer) {
        match answer.with_pieces(unique, |pieces| self.device.write(pieces)) {
            // The program was killed, or the mount is gone.
            Ok(()) | Err(Errno::ENOENT | Errno::ENODEV | Errno::ECONNABORTED) => {}
            Err(errno) => {
                error!(%unique, %errno, bytes = answer.body(), "the kernel refused an answer");
                // Longer than what was asked for, most likely: the kernel ends such a request with EIO itself. Of
                // others it may still wait for an answer.
                let again = Answer::error(Errno::EIO)
                    .with_pieces(unique, |pieces| self.device.write(pieces));
                debug!(%unique, ?again, "answered EIO instead");
            }
        }
    }
}

pub(crate) struct Lane<F> {
    pub desk: Arc<Desk>,
    pub fs: Arc<F>,
    pub spawner: Spawner,
}

impl<F: FileSystem> Lane<F> {
    /// Reads and answers until the connection ends, or until reading fails; one of `waiters`, which do the same.
    pub fn run(self: &Arc<Self>, waiters: &Arc<Waiters>) -> Result<(), Errno> {
        REACTOR.set(true);
        waiters.join();
        let mut buffer = self.desk.kit.pool.take();
        loop {
            match self.desk.device.read(buffer.landing()) {
                Ok(Received::Message(length)) => buffer = self.receive(buffer, length),
                Ok(Received::Nothing) => {}
                Ok(Received::End) => return Ok(()),
                Err(errno) => return Err(errno),
            }
        }
    }

    /// Reads and begins what is there, `most` messages at most.
    pub fn turn(self: &Arc<Self>, most: usize) -> Result<Turn, Errno> {
        REACTOR.set(true);
        let pool = &self.desk.kit.pool;
        let mut buffer = pool.take();
        let mut turn = Ok(Turn::More);
        for taken in 0..most {
            match self.desk.device.read_now(buffer.landing()) {
                Ok(Some(Received::Message(length))) => {
                    buffer = self.receive(buffer, length);
                    continue;
                }
                Ok(Some(Received::Nothing)) => continue,
                Ok(Some(Received::End)) => turn = Ok(Turn::Over),
                Ok(None) if taken == 0 => turn = Ok(Turn::Idle),
                Ok(None) => turn = Ok(Turn::Dry),
                Err(errno) => turn = Err(errno),
            }
            break;
        }
        pool.give(buffer);
        turn
    }

    /// Serves the ring until the connection ends, or until the ring fails.
    pub fn run_ring(self: &Arc<Self>, mut ring: Ring) -> io::Result<()> {
        REACTOR.set(true);
        ring.register()?;
        let woken = Woken::begin(self.spawner.clone());
        let receive = |incoming| self.receive_from_ring(incoming);
        while ring.turn(|| woken.go_on(), receive)? {}
        // Its reads end with it, and wake who waits for them: others go on with those.
        drop(ring);
        Ok(())
    }

    /// Handles one message; returns the buffer for the next.
    fn receive(self: &Arc<Self>, buffer: Buffer, length: usize) -> Buffer {
        match self.read(buffer.message(length)) {
            Ok((header, request)) => self
                .dispatch(header, request, Source::Device(buffer))
                .unwrap_or_else(|| self.desk.kit.pool.take()),
            Err(waits) => {
                if let Some(unique) = waits {
                    self.desk.send(unique, Answer::error(Errno::EIO));
                }
                buffer
            }
        }
    }

    fn receive_from_ring(self: &Arc<Self>, incoming: Incoming) {
        let (unique, crowded) = (incoming.unique(), incoming.crowded);
        let before = incoming.before_payload();
        match self.read(incoming.message()) {
            Ok((header, request)) if let Some(begins) = request.operation.begins(before) => {
                let hold = incoming.into_hold();
                let source = Source::Ring {
                    hold,
                    begins,
                    crowded,
                };
                self.dispatch(header, request, source);
            }
            // Whatever it was, its place goes back with an answer.
            _ => incoming
                .into_hold()
                .answer(unique, Answer::error(Errno::EIO)),
        }
    }

    /// What a message asks for; if it cannot be read, who waits for an answer all the same.
    fn read(&self, message: &[u8]) -> Result<(Header, Request), Option<Unique>> {
        self.desk.counts.requests.fetch_add(1, Ordering::Relaxed);
        let length = message.len();
        let header = Header::from_wire(message).map_err(|error| {
            error!(%error, length, "a message without a header");
            None
        })?;
        match Request::from_wire(&header, message, &self.desk.dialect) {
            Ok(request) => Ok((header, request)),
            Err(error) => {
                let opcode = Opcode::from_raw(header.opcode);
                error!(%error, ?opcode, unique = %header.unique, length, "cannot read a request");
                let waits = !opcode.is_some_and(Opcode::has_no_answer);
                Err(waits.then_some(header.unique))
            }
        }
    }

    /// Polls here; what is not ready goes to the spawner when it is woken. What may not begin yet is not polled
    /// here at all.
    fn drive(self: &Arc<Self>, order: Order, ticket: Ticket, mut work: Work) {
        let unique = order.unique();
        // What panics is dropped and not used again, and dropping its ticket answers its request.
        let driven = catch_unwind(AssertUnwindSafe(|| {
            let waits = &self.desk.kit.waits;
            let count_parked = || self.desk.counts.parked.fetch_add(1, Ordering::Relaxed);
            if waits.holds_back(&order) {
                count_parked();
                let waiting = waits.enter(order, ticket, false);
                // Not after what is late: a killed program closes its files as it ends, and nothing ends that wait.
                if order.is_close()
                    && let Some(ticket) = waiting.take_ticket_of_close()
                {
                    ticket.answer(Answer::empty());
                }
                (self.spawner)(Box::pin(self.clone().finish(work, waiting)));
                return;
            }
            let mut nobody = Context::from_waker(Waker::noop());
            if let Poll::Ready(answer) = work.as_mut().poll(&mut nobody) {
                ticket.answer(answer);
                return;
            }
            count_parked();
            // Only now, and not for those that are answered at once, somebody who can be woken.
            let sleeper = Sleeper::new(self.spawner.clone());
            let waker = sleeper.waker();
            if let Poll::Ready(answer) = work.as_mut().poll(&mut Context::from_waker(&waker)) {
                ticket.answer(answer);
                return;
            }
            // Before anybody else can have it: from the handler's next poll on an interrupt must find it.
            let waiting = waits.enter(order, ticket, true);
            sleeper.lay_down(Box::pin(self.clone().finish(work, waiting)));
        }));
        if driven.is_err() {
            warn!(%unique, "a handler or the spawner panicked");
        }
    }

    /// The same for what has no answer.
    fn drive_unanswered(&self, unique: Unique, mut task: Task) {
        let driven = catch_unwind(AssertUnwindSafe(|| {
            let mut nobody = Context::from_waker(Waker::noop());
            if task.as_mut().poll(&mut nobody).is_ready() {
                return;
            }
            let sleeper = Sleeper::new(self.spawner.clone());
            let waker = sleeper.waker();
            let mut somebody = Context::from_waker(&waker);
            if task.as_mut().poll(&mut somebody).is_pending() {
                sleeper.lay_down(task);
            }
        }));
        if driven.is_err() {
            warn!(%unique, "a handler or the spawner panicked");
        }
    }
}
