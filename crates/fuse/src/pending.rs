//! # pending: requests whose handlers were not ready at their first poll
//!
//! Owns   the pending requests and since when they wait, which callers received a signal, and which requests get a reply before
//!        their handler is done.
//! Never  ends a handler: it runs to its end, whatever reply the kernel has had.
//! Enter  at `PendingRequests::insert`; handlers at `Call::interrupted`.
//!
//! A request whose handler is ready at its first poll is never registered here. Any other is registered by the worker, with its
//! responder, before the spawner gets the handler, and stays until its handler has ended. The kernel may send INTERRUPT before
//! that moment: such an early interrupt is stored under its unique number and found when the request is registered.
//!
//! With `MountConfig::reply_deadlines` a thread scans the pending requests (`watcher`): past the deadline, or when the calling
//! program is being killed, it takes the responder and replies with an error. The handler goes on as a *late handler*; requests
//! that must not overtake it wait (`late_handlers`).

mod deadlines;
mod interrupted;
mod late_handlers;
mod order;
mod signals;
mod watcher;

use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread::Thread;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::Unique;
use crate::limits::{EARLY_INTERRUPTS_MAX, PENDING_SHARDS};
use crate::responder::Responder;
pub use deadlines::ReplyDeadlines;
pub use interrupted::Interrupted;
use late_handlers::LateHandlers;
pub(crate) use order::{RequestOrder, Undo};

/// The pending requests of a mount.
pub(crate) struct PendingRequests {
    shards: Vec<Mutex<PendingShard>>,
    late_handlers: LateHandlers,
    deadlines: Option<ReplyDeadlines>,
    /// The thread that scans them.
    watcher: OnceLock<Thread>,
    /// The connection has ended: no program waits for a reply.
    connection_ended: AtomicBool,
}

#[derive(Default)]
struct PendingShard {
    entries: BTreeMap<Unique, PendingEntry>,
    early: VecDeque<Unique>,
}

#[derive(Default)]
struct PendingEntry {
    interrupted: bool,
    /// References to this entry: the pending request itself, and each `Interrupted` future that was polled; the entry is
    /// removed with the last of them.
    refs: usize,
    wakers: Vec<(u64, Waker)>,
    next_waker: u64,
    request: Option<ParkedRequest>,
}

/// A request whose handler has not ended.
struct ParkedRequest {
    order: RequestOrder,
    /// Monotonic time of registration.
    since: Duration,
    /// Its handler has been polled.
    begun: bool,
    /// None once the kernel has its reply.
    responder: Option<Responder>,
    /// It is counted in `late_handlers`.
    is_late: bool,
    /// It is counted in `late_handlers` as a close that got its reply before it began.
    is_answered_close: bool,
}

impl PendingShard {
    fn add_ref(&mut self, unique: Unique) -> &mut PendingEntry {
        let entry = self.entries.entry(unique).or_default();
        entry.refs += 1;
        if let Some(at) = self.early.iter().position(|early| *early == unique) {
            self.early.remove(at);
            entry.interrupted = true;
        }
        entry
    }

    fn drop_ref(&mut self, unique: Unique, waker: Option<u64>) {
        let Some(entry) = self.entries.get_mut(&unique) else {
            return;
        };
        entry.wakers.retain(|(id, _)| Some(*id) != waker);
        entry.refs -= 1;
        if entry.refs == 0 {
            self.entries.remove(&unique);
        }
    }

    fn parked(&mut self, unique: Unique) -> Option<&mut ParkedRequest> {
        self.entries.get_mut(&unique)?.request.as_mut()
    }
}

/// Monotonic clock.
fn monotonic_now() -> Duration {
    Duration::try_from(clock_gettime(ClockId::Monotonic)).unwrap_or_default()
}

impl PendingRequests {
    pub fn new(deadlines: Option<ReplyDeadlines>) -> PendingRequests {
        PendingRequests {
            shards: (0..PENDING_SHARDS).map(|_| Mutex::default()).collect(),
            late_handlers: LateHandlers::default(),
            deadlines,
            watcher: OnceLock::new(),
            connection_ended: AtomicBool::new(false),
        }
    }

    /// Whether replies may be sent before their handlers are done. Then a handler must not hold memory that the reply needs.
    pub fn may_reply_early(&self) -> bool {
        self.deadlines.is_some()
    }

    fn shard(&self, unique: Unique) -> MutexGuard<'_, PendingShard> {
        // The kernel increments unique numbers by two.
        let shard = (unique.0 >> 1) as usize % self.shards.len();
        lock(&self.shards[shard])
    }

    /// Whether this request must not begin yet, because it would overtake a late handler. Costs one atomic load if no handler
    /// is late.
    pub fn must_wait(&self, order: &RequestOrder) -> bool {
        self.late_handlers.must_wait(order)
    }

    /// Registers a pending request until the returned guard is dropped. `begun`: its handler has been polled.
    pub fn insert(
        self: &Arc<Self>,
        order: RequestOrder,
        responder: Responder,
        begun: bool,
    ) -> PendingGuard {
        let unique = order.unique();
        let mut shard = self.shard(unique);
        let entry = shard.add_ref(unique);
        entry.request = Some(ParkedRequest {
            order,
            since: monotonic_now(),
            begun,
            responder: Some(responder),
            is_late: false,
            is_answered_close: false,
        });
        let interrupted = entry.interrupted;
        drop(shard);
        if interrupted {
            self.wake_watcher();
        }
        PendingGuard {
            unique,
            registry: self.clone(),
        }
    }

    /// Handles INTERRUPT for a request, which may be registered, not yet registered, or already replied to.
    pub fn interrupt(&self, unique: Unique) {
        let mut shard = self.shard(unique);
        let (found, wakers) = match shard.entries.get_mut(&unique) {
            Some(entry) => {
                entry.interrupted = true;
                (true, std::mem::take(&mut entry.wakers))
            }
            None => {
                shard.early.push_back(unique);
                if shard.early.len() > EARLY_INTERRUPTS_MAX {
                    shard.early.pop_front();
                }
                (false, Vec::new())
            }
        };
        drop(shard);
        // Called without the lock: a waker may poll at once.
        wakers.into_iter().for_each(|(_, waker)| waker.wake());
        if found {
            self.wake_watcher();
        }
    }

    pub fn is_interrupted(&self, unique: Unique) -> bool {
        let shard = self.shard(unique);
        shard
            .entries
            .get(&unique)
            .is_some_and(|entry| entry.interrupted)
            || shard.early.contains(&unique)
    }

    /// Number of requests whose handlers have not ended.
    pub fn waiting(&self) -> usize {
        self.count(|_| true)
    }

    /// Number of these that have had their reply before their handler was done.
    pub fn late(&self) -> usize {
        self.count(|entry| {
            entry
                .request
                .as_ref()
                .is_some_and(|parked| parked.responder.is_none())
        })
    }

    fn count(&self, predicate: impl Fn(&PendingEntry) -> bool) -> usize {
        let count_in_shard = |shard: &Mutex<PendingShard>| {
            let shard = lock(shard);
            shard
                .entries
                .values()
                .filter(|entry| predicate(entry))
                .count()
        };
        self.shards.iter().map(count_in_shard).sum()
    }
}

/// The data under these locks is consistent at every moment; a panic elsewhere does not invalidate it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The registration of a pending request. Dropping it without a reply replies EIO.
pub(crate) struct PendingGuard {
    unique: Unique,
    registry: Arc<PendingRequests>,
}

impl PendingGuard {
    /// Returns when no late handler must finish before this handler begins. Returns false if the request has had its reply
    /// meanwhile and its operation need not run.
    pub async fn wait_to_begin(&self) -> bool {
        poll_fn(|context| self.poll_begin(context)).await
    }

    fn poll_begin(&self, context: &mut Context<'_>) -> Poll<bool> {
        let order = match self.registry.shard(self.unique).parked(self.unique) {
            Some(parked) if parked.begun => return Poll::Ready(true),
            Some(parked) => parked.order,
            None => unreachable!("the request is registered until the guard is dropped"),
        };
        let blocked = self
            .registry
            .late_handlers
            .register_waiter(&order, context.waker());
        // In this order: a thread that replies to it from here on finds the waker.
        let mut shard = self.registry.shard(self.unique);
        let Some(parked) = shard.parked(self.unique) else {
            unreachable!("the request is registered until the guard is dropped")
        };
        if parked.responder.is_none() && !order.must_run() {
            return Poll::Ready(false);
        }
        if blocked {
            return Poll::Pending;
        }
        parked.begun = true;
        Poll::Ready(true)
    }

    /// Takes the responder; None if an early reply has been sent.
    pub fn take_responder(&self) -> Option<Responder> {
        let mut shard = self.registry.shard(self.unique);
        shard.parked(self.unique)?.responder.take()
    }

    /// Takes the responder of a close that is replied to before it begins. Requests that come after that reply take no lock on
    /// the node until the close is done.
    pub fn take_responder_of_close(&self) -> Option<Responder> {
        let mut shard = self.registry.shard(self.unique);
        let parked = shard.parked(self.unique)?;
        let responder = parked.responder.take()?;
        parked.is_answered_close = true;
        self.registry.late_handlers.add_close(&parked.order);
        Some(responder)
    }

    pub fn order(&self) -> Option<RequestOrder> {
        let mut shard = self.registry.shard(self.unique);
        shard.parked(self.unique).map(|parked| parked.order)
    }
}

impl Drop for PendingGuard {
    fn drop(&mut self) {
        let mut shard = self.registry.shard(self.unique);
        let parked = shard
            .entries
            .get_mut(&self.unique)
            .and_then(|entry| entry.request.take());
        shard.drop_ref(self.unique, None);
        drop(shard);
        let Some(parked) = parked else { return };
        if parked.is_answered_close {
            self.registry.late_handlers.remove_close(&parked.order);
        }
        match parked.is_late {
            true => self.registry.late_handlers.remove(&parked.order),
            false if !parked.begun => self.registry.late_handlers.remove_waiter(&parked.order),
            false => {}
        }
        // A responder that is left replies EIO here, after the lock is released.
    }
}

#[cfg(test)]
mod tests;
