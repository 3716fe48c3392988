//! The thread that answers in time.
//!
//! Reading who is to be killed and who is overdue costs those nothing that are answered meanwhile: there is no timer for each
//! request. It looks around once in a while, and at once when INTERRUPT comes.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use tracing::warn;

use super::order::Order;
use super::{Parked, Slot, Waits, lock, now, signals};
use crate::answer::Answer;
use crate::config::InTime;
use crate::limits::{OVERDUE_PARTS, WATCH_EVERY, WATCH_INTERRUPTED};
use crate::wire::Opcode;
use crate::{Errno, Unique};

/// What to do about those that wait.
#[derive(Default)]
struct Found {
    overdue: Vec<Order>,
    /// May be about to end: the request and its thread.
    interrupted: Vec<(Unique, u32)>,
}

impl Waits {
    /// Starts the thread, if answers are to be given in time. `hears_all`: INTERRUPT comes for every signal.
    pub fn start(self: &Arc<Self>, hears_all: bool) -> std::io::Result<()> {
        let Some(in_time) = self.in_time else {
            return Ok(());
        };
        let watch = thread::Builder::new().name("door-watch".into());
        let waits = self.clone();
        let watch = watch.spawn(move || waits.watch(in_time, hears_all))?;
        let _ = self.watcher.set(watch.thread().clone());
        Ok(())
    }

    /// The connection has ended.
    pub fn end(&self) {
        self.over.store(true, Ordering::Release);
        self.look_soon();
    }

    pub(super) fn look_soon(&self) {
        if let Some(watcher) = self.watcher.get() {
            watcher.unpark();
        }
    }

    fn watch(&self, in_time: InTime, hears_all: bool) {
        let every = in_time.deadline.map_or(WATCH_EVERY, |deadline| {
            (deadline / OVERDUE_PARTS).clamp(WATCH_INTERRUPTED, WATCH_EVERY)
        });
        loop {
            let over = self.over.load(Ordering::Acquire);
            let found = self.look(in_time, hears_all, over);
            for order in &found.overdue {
                // Nobody hears of the others.
                if !over && !order.must_run() {
                    let (asked, node) = (Opcode::from_raw(order.header.opcode), order.header.node);
                    warn!(?asked, %node, pid = order.header.pid, "a program gets an error: past the deadline");
                }
                self.answer_in_time(order.unique(), in_time.overdue);
            }
            for (unique, thread) in &found.interrupted {
                if signals::ends(*thread) {
                    self.answer_in_time(*unique, in_time.killed);
                }
            }
            if over {
                return;
            }
            // A program may catch the first signal and be killed by the second, of which nothing is heard.
            thread::park_timeout(match found.interrupted.is_empty() {
                true => every,
                false => WATCH_INTERRUPTED,
            });
        }
    }

    fn look(&self, in_time: InTime, hears_all: bool, over: bool) -> Found {
        let (now, mut found) = (now(), Found::default());
        for shard in &self.shards {
            for slot in lock(shard).waiting.values() {
                let Some(parked) = &slot.request else {
                    continue;
                };
                if parked.ticket.is_none() {
                    continue;
                }
                let waits = now.saturating_sub(parked.since);
                if over {
                    // Nobody will hear of it: what has not begun need not.
                    found
                        .overdue
                        .extend((!parked.begun).then_some(parked.order));
                } else if in_time
                    .deadline
                    .is_some_and(|deadline| self.is_overdue(parked, now, deadline))
                {
                    found.overdue.push(parked.order);
                } else if let Some(thread) = parked.order.killable()
                    && (slot.interrupted || (!hears_all && waits >= WATCH_EVERY))
                {
                    found.interrupted.push((parked.order.unique(), thread));
                }
            }
        }
        found
    }

    /// Who waits to begin behind something that is overdue itself does not wait as long again.
    fn is_overdue(&self, parked: &Parked, now: Duration, deadline: Duration) -> bool {
        if !parked.order.has_deadline() {
            return false;
        }
        let mut until = parked.since + deadline;
        if !parked.begun
            && let Some(late_since) = self.late.since(&parked.order)
        {
            let soon = parked.since + deadline / OVERDUE_PARTS;
            until = until.min(soon.max(late_since + deadline));
        }
        now >= until
    }

    /// Answers, if that has not been done, and lets the handler go on.
    fn answer_in_time(&self, unique: Unique, errno: Errno) {
        let mut shard = self.shard(unique);
        let Some(Slot {
            request: Some(parked),
            ..
        }) = shard.waiting.get_mut(&unique)
        else {
            return;
        };
        let Some(ticket) = parked.ticket.take() else {
            return;
        };
        let begun = parked.begun;
        if begun {
            // Before the answer: what the program asks next is held back already.
            parked.late = true;
            self.late.begins(&parked.order, parked.since);
        }
        drop(shard);
        ticket.answer(Answer::error(errno));
        if !begun {
            self.late.wake(unique);
        }
    }
}
