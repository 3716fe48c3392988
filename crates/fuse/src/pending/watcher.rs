//! The thread that sends early replies.
//!
//! The thread scans for overdue requests and killed callers, so requests that get their reply meanwhile need no timer. It scans
//! periodically, and at once when INTERRUPT comes.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use tracing::warn;

use super::order::RequestOrder;
use super::{
    ParkedRequest, PendingEntry, PendingRequests, ReplyDeadlines, lock, monotonic_now, signals,
};
use crate::limits::{DEADLINE_PARTS, SCAN_INTERVAL, SCAN_INTERVAL_INTERRUPTED};
use crate::reply::Reply;
use crate::wire::Opcode;
use crate::{Errno, Unique};

/// The requests that a scan selected.
#[derive(Default)]
struct ScanResult {
    overdue: Vec<RequestOrder>,
    /// Requests whose calling thread may be about to end, with that thread.
    interrupted: Vec<(Unique, u32)>,
}

impl PendingRequests {
    /// Starts the thread, if deadlines are configured. `interrupts_are_reliable`: the kernel sends INTERRUPT for every signal.
    pub fn start_watcher(self: &Arc<Self>, interrupts_are_reliable: bool) -> std::io::Result<()> {
        let Some(deadlines) = self.deadlines else {
            return Ok(());
        };
        let watch = thread::Builder::new().name("fuse-watch".into());
        let pending = self.clone();
        let watch = watch.spawn(move || pending.watch(deadlines, interrupts_are_reliable))?;
        let _ = self.watcher.set(watch.thread().clone());
        Ok(())
    }

    /// The connection has ended.
    pub fn end(&self) {
        self.connection_ended.store(true, Ordering::Release);
        self.wake_watcher();
    }

    pub(super) fn wake_watcher(&self) {
        if let Some(watcher) = self.watcher.get() {
            watcher.unpark();
        }
    }

    fn watch(&self, deadlines: ReplyDeadlines, interrupts_are_reliable: bool) {
        let every = deadlines.deadline.map_or(SCAN_INTERVAL, |deadline| {
            (deadline / DEADLINE_PARTS).clamp(SCAN_INTERVAL_INTERRUPTED, SCAN_INTERVAL)
        });
        loop {
            let connection_ended = self.connection_ended.load(Ordering::Acquire);
            let result = self.scan(deadlines, interrupts_are_reliable, connection_ended);
            for order in &result.overdue {
                // The error of the others reaches no program.
                if !connection_ended && !order.must_run() {
                    let (request, node) =
                        (Opcode::from_raw(order.header.opcode), order.header.node);
                    warn!(?request, %node, pid = order.header.pid, "request exceeded its deadline; the program gets an error");
                }
                self.reply_early(order.unique(), deadlines.overdue_errno);
            }
            for (unique, thread) in &result.interrupted {
                if signals::has_fatal_signal(*thread) {
                    self.reply_early(*unique, deadlines.killed_errno);
                }
            }
            if connection_ended {
                return;
            }
            // A program may catch the first signal and be killed by the second, for which the kernel sends no INTERRUPT.
            thread::park_timeout(match result.interrupted.is_empty() {
                true => every,
                false => SCAN_INTERVAL_INTERRUPTED,
            });
        }
    }

    fn scan(
        &self,
        deadlines: ReplyDeadlines,
        interrupts_are_reliable: bool,
        connection_ended: bool,
    ) -> ScanResult {
        let (now, mut result) = (monotonic_now(), ScanResult::default());
        for shard in &self.shards {
            for entry in lock(shard).entries.values() {
                let Some(parked) = &entry.request else {
                    continue;
                };
                if parked.responder.is_none() {
                    continue;
                }
                let waited = now.saturating_sub(parked.since);
                if connection_ended {
                    // No program receives the reply: handlers that have not begun need not run.
                    result
                        .overdue
                        .extend((!parked.begun).then_some(parked.order));
                } else if deadlines
                    .deadline
                    .is_some_and(|deadline| self.is_overdue(parked, now, deadline))
                {
                    result.overdue.push(parked.order);
                } else if let Some(thread) = parked.order.killable_thread()
                    && (entry.interrupted || (!interrupts_are_reliable && waited >= SCAN_INTERVAL))
                {
                    result.interrupted.push((parked.order.unique(), thread));
                }
            }
        }
        result
    }

    /// A request that waits to begin behind an overdue one does not wait a full deadline again.
    fn is_overdue(&self, parked: &ParkedRequest, now: Duration, deadline: Duration) -> bool {
        if !parked.order.has_deadline() {
            return false;
        }
        let mut until = parked.since + deadline;
        if !parked.begun
            && let Some(late_since) = self.late_handlers.oldest_late_since(&parked.order)
        {
            let soon = parked.since + deadline / DEADLINE_PARTS;
            until = until.min(soon.max(late_since + deadline));
        }
        now >= until
    }

    /// Replies with an error, if the request has had no reply, and lets the handler go on.
    fn reply_early(&self, unique: Unique, errno: Errno) {
        let mut shard = self.shard(unique);
        let Some(PendingEntry {
            request: Some(parked),
            ..
        }) = shard.entries.get_mut(&unique)
        else {
            return;
        };
        let Some(responder) = parked.responder.take() else {
            return;
        };
        let begun = parked.begun;
        if begun {
            // Before the reply: the program's next request must already find the late handler.
            parked.is_late = true;
            self.late_handlers.add(&parked.order, parked.since);
        }
        drop(shard);
        responder.reply(Reply::error(errno));
        if !begun {
            self.late_handlers.wake(unique);
        }
    }
}
