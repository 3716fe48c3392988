//! Late handlers, whose requests had their reply before the handlers were done, and the requests that must not overtake them.
//!
//! A program whose write failed with a deadline error may write again. If the second write could finish before the first, the
//! late first write would overwrite it after the second had its successful reply. So while a node has a late change, no request
//! that changes or reads that node begins; it waits, and may get its own deadline error without having been executed. This also
//! bounds the number of late handlers: a program that retries waits as well. Requests that change nothing are bounded by
//! number. Requests of the page cache never wait: a late change may itself wait until the kernel has written or dropped pages.
//!
//! A close(2) that must wait gets its reply at once. It releases locks when it is executed, so until then no request on its
//! node takes a lock: the lock could belong to the same program, and the late close would release it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::task::Waker;
use std::time::Duration;

use super::lock;
use super::order::RequestOrder;
use crate::limits::{LATE_HANDLERS_MAX, LATE_HANDLERS_PER_NODE_MAX};
use crate::{NodeId, Unique};

#[derive(Default)]
pub(super) struct LateHandlers {
    /// Number of late handlers and waiting closes, to test without the lock whether there are any.
    count: AtomicUsize,
    state: Mutex<LateState>,
}

#[derive(Default)]
struct LateState {
    weight: usize,
    nodes: BTreeMap<NodeId, LateOnNode>,
    /// Number of closes per node that have had their reply and are not done yet.
    closing: BTreeMap<NodeId, usize>,
    /// Wakers of all requests that wait to begin.
    waiters: BTreeMap<Unique, Waker>,
}

struct LateOnNode {
    late: usize,
    changing: usize,
    /// Time at which the oldest of these late requests was registered.
    since: Duration,
}

impl LateState {
    fn must_wait(&self, order: &RequestOrder) -> bool {
        if order.never_waits() {
            return false;
        }
        if self.weight >= LATE_HANDLERS_MAX && !order.must_run() {
            return true;
        }
        if order.takes_lock() && self.closing.contains_key(&order.header.node) {
            return true;
        }
        order.nodes().any(|node| {
            self.nodes.get(&node).is_some_and(|on_node| {
                let crowded = on_node.late >= LATE_HANDLERS_PER_NODE_MAX && !order.must_run();
                crowded || (on_node.changing > 0 && order.waits_for_changes())
            })
        })
    }
}

impl LateHandlers {
    pub fn must_wait(&self, order: &RequestOrder) -> bool {
        // A late handler was counted before the kernel got the reply, and a request that follows that reply is read after it.
        self.count.load(Ordering::Acquire) > 0 && lock(&self.state).must_wait(order)
    }

    /// Like `must_wait`; if the request must wait, `waker` is called when that may have changed.
    pub fn register_waiter(&self, order: &RequestOrder, waker: &Waker) -> bool {
        let mut state = lock(&self.state);
        let blocked = state.must_wait(order);
        match blocked {
            true => state.waiters.insert(order.unique(), waker.clone()),
            false => state.waiters.remove(&order.unique()),
        };
        blocked
    }

    /// The request is about to get its reply while its handler goes on.
    pub fn add(&self, order: &RequestOrder, since: Duration) {
        let mut state = lock(&self.state);
        state.weight += order.weight();
        for node in order.nodes() {
            let on_node = state.nodes.entry(node).or_insert(LateOnNode {
                late: 0,
                changing: 0,
                since,
            });
            on_node.late += 1;
            on_node.changing += usize::from(order.changes());
        }
        self.count.fetch_add(1, Ordering::Release);
    }

    /// The handler is done.
    pub fn remove(&self, order: &RequestOrder) {
        let mut state = lock(&self.state);
        state.weight -= order.weight();
        for node in order.nodes() {
            let Some(on_node) = state.nodes.get_mut(&node) else {
                unreachable!("the handler was counted when it became late")
            };
            on_node.late -= 1;
            on_node.changing -= usize::from(order.changes());
            if on_node.late == 0 {
                state.nodes.remove(&node);
            }
        }
        self.decrement_and_wake(state);
    }

    /// This close is about to get its reply, and waits to begin.
    pub fn add_close(&self, order: &RequestOrder) {
        let mut state = lock(&self.state);
        *state.closing.entry(order.header.node).or_default() += 1;
        self.count.fetch_add(1, Ordering::Release);
    }

    /// The handler is done.
    pub fn remove_close(&self, order: &RequestOrder) {
        let mut state = lock(&self.state);
        let node = order.header.node;
        let Some(closing) = state.closing.get_mut(&node) else {
            unreachable!("the close was counted when its reply was sent")
        };
        *closing -= 1;
        if *closing == 0 {
            state.closing.remove(&node);
        }
        self.decrement_and_wake(state);
    }

    fn decrement_and_wake(&self, mut state: MutexGuard<'_, LateState>) {
        self.count.fetch_sub(1, Ordering::Release);
        let waiters = std::mem::take(&mut state.waiters);
        drop(state);
        // Called without the lock: a waker may poll at once, and registers again if the request must still wait.
        waiters.into_values().for_each(Waker::wake);
    }

    /// The request has its reply and need not wait to begin.
    pub fn wake(&self, unique: Unique) {
        let waker = lock(&self.state).waiters.remove(&unique);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// The request no longer waits to begin.
    pub fn remove_waiter(&self, order: &RequestOrder) {
        lock(&self.state).waiters.remove(&order.unique());
    }

    /// Registration time of the oldest late handler on the nodes of this request.
    pub fn oldest_late_since(&self, order: &RequestOrder) -> Option<Duration> {
        let state = lock(&self.state);
        let since = |node| state.nodes.get(&node).map(|on_node| on_node.since);
        order.nodes().filter_map(since).min()
    }
}
