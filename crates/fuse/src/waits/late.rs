//! Requests that were answered before their handlers are done, and what must not overtake them.
//!
//! Whoever was told that a write failed in time may write again. Could the second be done before the first, the first
//! would come out on top, after the second was answered. So on a node with a late change nothing begins that changes or
//! reads it; it waits, not begun, and may be answered past its own deadline without ever having been done. That also bounds
//! how much is late: who tries again and again waits, too. Requests that change nothing are bounded by number.
//!
//! A close(2) that is held back is answered at once. It frees locks when its turn comes, so until then nothing on its node
//! takes one: it could be the same program's, and be freed again.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::task::Waker;
use std::time::Duration;

use super::lock;
use super::order::Order;
use crate::limits::{LATE_MAX, LATE_OF_NODE_MAX};
use crate::{NodeId, Unique};

#[derive(Default)]
pub(super) struct Late {
    /// How many are late, for who only wants to know if any is.
    count: AtomicUsize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    weight: usize,
    nodes: BTreeMap<NodeId, OfNode>,
    /// Closes that were answered and are not done yet.
    closing: BTreeMap<NodeId, usize>,
    /// Who waits to begin, for whatever.
    waiters: BTreeMap<Unique, Waker>,
}

struct OfNode {
    late: usize,
    changing: usize,
    /// When the first of those that are late came.
    since: Duration,
}

impl State {
    fn holds_back(&self, order: &Order) -> bool {
        if self.weight >= LATE_MAX && !order.must_run() {
            return true;
        }
        if order.locks() && self.closing.contains_key(&order.header.node) {
            return true;
        }
        order.nodes().any(|node| {
            self.nodes.get(&node).is_some_and(|of| {
                let crowded = of.late >= LATE_OF_NODE_MAX && !order.must_run();
                crowded || (of.changing > 0 && order.follows())
            })
        })
    }
}

impl Late {
    pub fn holds_back(&self, order: &Order) -> bool {
        // What is late was counted before the kernel got the answer, and what comes after that answer is read after it.
        self.count.load(Ordering::Acquire) > 0 && lock(&self.state).holds_back(order)
    }

    /// The same, and wakes when it may be otherwise.
    pub fn wait_for(&self, order: &Order, waker: &Waker) -> bool {
        let mut state = lock(&self.state);
        let blocked = state.holds_back(order);
        match blocked {
            true => state.waiters.insert(order.unique(), waker.clone()),
            false => state.waiters.remove(&order.unique()),
        };
        blocked
    }

    /// This one is about to be answered while its handler goes on.
    pub fn begins(&self, order: &Order, since: Duration) {
        let mut state = lock(&self.state);
        state.weight += order.weight();
        for node in order.nodes() {
            let of = state.nodes.entry(node).or_insert(OfNode {
                late: 0,
                changing: 0,
                since,
            });
            of.late += 1;
            of.changing += usize::from(order.changes());
        }
        self.count.fetch_add(1, Ordering::Release);
    }

    /// Its handler is done.
    pub fn ended(&self, order: &Order) {
        let mut state = lock(&self.state);
        state.weight -= order.weight();
        for node in order.nodes() {
            let Some(of) = state.nodes.get_mut(&node) else {
                unreachable!("it was counted when it became late")
            };
            of.late -= 1;
            of.changing -= usize::from(order.changes());
            if of.late == 0 {
                state.nodes.remove(&node);
            }
        }
        self.one_less(state);
    }

    /// This close is about to be answered, and waits to begin.
    pub fn closes(&self, order: &Order) {
        let mut state = lock(&self.state);
        *state.closing.entry(order.header.node).or_default() += 1;
        self.count.fetch_add(1, Ordering::Release);
    }

    /// Its handler is done.
    pub fn closed(&self, order: &Order) {
        let mut state = lock(&self.state);
        let node = order.header.node;
        let Some(closing) = state.closing.get_mut(&node) else {
            unreachable!("it was counted when it was answered")
        };
        *closing -= 1;
        if *closing == 0 {
            state.closing.remove(&node);
        }
        self.one_less(state);
    }

    fn one_less(&self, mut state: MutexGuard<'_, State>) {
        self.count.fetch_sub(1, Ordering::Release);
        let waiters = std::mem::take(&mut state.waiters);
        drop(state);
        // Without the lock: a waker may poll at once, and waits again if it is still held back.
        waiters.into_values().for_each(Waker::wake);
    }

    /// This one has its answer, and need not wait to begin.
    pub fn wake(&self, unique: Unique) {
        let waker = lock(&self.state).waiters.remove(&unique);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Nobody waits to begin this any more.
    pub fn gone(&self, order: &Order) {
        lock(&self.state).waiters.remove(&order.unique());
    }

    /// Since when something has been late that holds this back.
    pub fn since(&self, order: &Order) -> Option<Duration> {
        let state = lock(&self.state);
        let since = |node| state.nodes.get(&node).map(|of| of.since);
        order.nodes().filter_map(since).min()
    }
}
