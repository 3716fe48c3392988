//! # waits: requests that are not answered at once
//!
//! Owns   who waits and since when, whose program got a signal, which answer is given before its handler is done.
//! Never  ends a handler: that runs to its end, whoever was told what.
//! Enter  at `Waits::enter`; handlers at `Call::interrupted`.
//!
//! A request that is answered at its first poll never comes here. One that is not is entered by the reactor before the
//! spawner has it, with its duty to answer, and stays until its handler has ended. The kernel may send INTERRUPT before
//! that moment: such an early one is remembered under its unique and found when the request is entered.
//!
//! With `Config::in_time` a thread looks after those that wait (`watch`): past the deadline, or when the program is being
//! killed, it takes the duty to answer out of here and answers with an error. The handler goes on, *late*; what comes
//! after it must not overtake it (`late`).

mod interrupted;
mod late;
mod order;
mod signals;
mod watch;

use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread::Thread;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::Unique;
use crate::config::InTime;
use crate::lane::Ticket;
use crate::limits::{EARLY_INTERRUPTS, INTERRUPT_SHARDS};
pub use interrupted::Interrupted;
use late::Late;
pub(crate) use order::{Order, Undo};

/// The requests of a mount that wait.
pub(crate) struct Waits {
    shards: Vec<Mutex<Shard>>,
    late: Late,
    in_time: Option<InTime>,
    /// The thread that looks after them.
    watcher: OnceLock<Thread>,
    /// The connection has ended: nobody waits for an answer.
    over: AtomicBool,
}

#[derive(Default)]
struct Shard {
    waiting: BTreeMap<Unique, Slot>,
    early: VecDeque<Unique>,
}

#[derive(Default)]
struct Slot {
    interrupted: bool,
    /// The waiting request itself, and futures that were polled; the slot goes with the last of them.
    holders: usize,
    wakers: Vec<(u64, Waker)>,
    next_waker: u64,
    request: Option<Parked>,
}

/// A request whose handler has not ended.
struct Parked {
    order: Order,
    /// By the monotonic clock.
    since: Duration,
    /// Its handler has been polled.
    begun: bool,
    /// None when the kernel has its answer.
    ticket: Option<Ticket>,
    /// It is counted in `late`.
    late: bool,
    /// So it is as a close that was answered before it began.
    closing: bool,
}

impl Shard {
    fn hold(&mut self, unique: Unique) -> &mut Slot {
        let slot = self.waiting.entry(unique).or_default();
        slot.holders += 1;
        if let Some(at) = self.early.iter().position(|early| *early == unique) {
            self.early.remove(at);
            slot.interrupted = true;
        }
        slot
    }

    fn release(&mut self, unique: Unique, waker: Option<u64>) {
        let Some(slot) = self.waiting.get_mut(&unique) else {
            return;
        };
        slot.wakers.retain(|(id, _)| Some(*id) != waker);
        slot.holders -= 1;
        if slot.holders == 0 {
            self.waiting.remove(&unique);
        }
    }

    fn parked(&mut self, unique: Unique) -> Option<&mut Parked> {
        self.waiting.get_mut(&unique)?.request.as_mut()
    }
}

/// Since some moment in the past; does not run back.
fn now() -> Duration {
    Duration::try_from(clock_gettime(ClockId::Monotonic)).unwrap_or_default()
}

impl Waits {
    pub fn new(in_time: Option<InTime>) -> Waits {
        Waits {
            shards: (0..INTERRUPT_SHARDS).map(|_| Mutex::default()).collect(),
            late: Late::default(),
            in_time,
            watcher: OnceLock::new(),
            over: AtomicBool::new(false),
        }
    }

    /// If answers may be given before their handlers are done: then nobody may have memory that the answer needs.
    pub fn answers_in_time(&self) -> bool {
        self.in_time.is_some()
    }

    fn shard(&self, unique: Unique) -> MutexGuard<'_, Shard> {
        // The kernel counts uniques up in steps of two.
        let shard = (unique.0 >> 1) as usize % self.shards.len();
        lock(&self.shards[shard])
    }

    /// If this must not begin yet: it would overtake what is late. One look at a number if nothing is late.
    pub fn holds_back(&self, order: &Order) -> bool {
        self.late.holds_back(order)
    }

    /// The request waits from now on, until the result is dropped. `begun`: its handler was polled.
    pub fn enter(self: &Arc<Self>, order: Order, ticket: Ticket, begun: bool) -> Waiting {
        let unique = order.unique();
        let mut shard = self.shard(unique);
        let slot = shard.hold(unique);
        slot.request = Some(Parked {
            order,
            since: now(),
            begun,
            ticket: Some(ticket),
            late: false,
            closing: false,
        });
        let interrupted = slot.interrupted;
        drop(shard);
        if interrupted {
            self.look_soon();
        }
        Waiting {
            unique,
            registry: self.clone(),
        }
    }

    /// INTERRUPT came for this request. It may be waiting, not yet waiting, or long answered.
    pub fn interrupt(&self, unique: Unique) {
        let mut shard = self.shard(unique);
        let (found, wakers) = match shard.waiting.get_mut(&unique) {
            Some(slot) => {
                slot.interrupted = true;
                (true, std::mem::take(&mut slot.wakers))
            }
            None => {
                shard.early.push_back(unique);
                if shard.early.len() > EARLY_INTERRUPTS {
                    shard.early.pop_front();
                }
                (false, Vec::new())
            }
        };
        drop(shard);
        // Without the lock: a waker may poll at once.
        wakers.into_iter().for_each(|(_, waker)| waker.wake());
        if found {
            self.look_soon();
        }
    }

    pub fn is_interrupted(&self, unique: Unique) -> bool {
        let shard = self.shard(unique);
        shard
            .waiting
            .get(&unique)
            .is_some_and(|slot| slot.interrupted)
            || shard.early.contains(&unique)
    }

    /// Requests whose handlers have not ended.
    pub fn waiting(&self) -> usize {
        self.count(|_| true)
    }

    /// Of these, those that were answered in time, before their handlers are done.
    pub fn late(&self) -> usize {
        self.count(|slot| {
            slot.request
                .as_ref()
                .is_some_and(|parked| parked.ticket.is_none())
        })
    }

    fn count(&self, is_one: impl Fn(&Slot) -> bool) -> usize {
        let of_shard = |shard: &Mutex<Shard>| {
            let shard = lock(shard);
            shard.waiting.values().filter(|slot| is_one(slot)).count()
        };
        self.shards.iter().map(of_shard).sum()
    }
}

/// What the locks here guard is whole at every moment; a panic elsewhere does not spoil it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A request that waits. Dropping it without an answer answers EIO.
pub(crate) struct Waiting {
    unique: Unique,
    registry: Arc<Waits>,
}

impl Waiting {
    /// Returns when the handler may begin: nothing is late that it must come after. False if the request was answered
    /// meanwhile, and nothing of it needs be done.
    pub async fn may_begin(&self) -> bool {
        poll_fn(|context| self.poll_begin(context)).await
    }

    fn poll_begin(&self, context: &mut Context<'_>) -> Poll<bool> {
        let order = match self.registry.shard(self.unique).parked(self.unique) {
            Some(parked) if parked.begun => return Poll::Ready(true),
            Some(parked) => parked.order,
            None => unreachable!("it is parked until this is dropped"),
        };
        let blocked = self.registry.late.wait_for(&order, context.waker());
        // In this order: whoever answers it from here on finds the waker.
        let mut shard = self.registry.shard(self.unique);
        let Some(parked) = shard.parked(self.unique) else {
            unreachable!("it is parked until this is dropped")
        };
        if parked.ticket.is_none() && !order.must_run() {
            return Poll::Ready(false);
        }
        if blocked {
            return Poll::Pending;
        }
        parked.begun = true;
        Poll::Ready(true)
    }

    /// The duty to answer; None if it was answered in time.
    pub fn take_ticket(&self) -> Option<Ticket> {
        let mut shard = self.registry.shard(self.unique);
        shard.parked(self.unique)?.ticket.take()
    }

    /// The duty to answer a close before it begins. What comes after the answer takes no lock before the close is done.
    pub fn take_ticket_of_close(&self) -> Option<Ticket> {
        let mut shard = self.registry.shard(self.unique);
        let parked = shard.parked(self.unique)?;
        let ticket = parked.ticket.take()?;
        parked.closing = true;
        self.registry.late.closes(&parked.order);
        Some(ticket)
    }

    pub fn order(&self) -> Option<Order> {
        let mut shard = self.registry.shard(self.unique);
        shard.parked(self.unique).map(|parked| parked.order)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut shard = self.registry.shard(self.unique);
        let parked = shard
            .waiting
            .get_mut(&self.unique)
            .and_then(|slot| slot.request.take());
        shard.release(self.unique, None);
        drop(shard);
        let Some(parked) = parked else { return };
        if parked.closing {
            self.registry.late.closed(&parked.order);
        }
        match parked.late {
            true => self.registry.late.ended(&parked.order),
            false if !parked.begun => self.registry.late.gone(&parked.order),
            false => {}
        }
        // A ticket that is left answers EIO now, without a lock.
    }
}

#[cfg(test)]
mod tests;
