//! The scheduled events in the order of virtual time. Events of the same time happen in the order in which they were scheduled.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Nanoseconds of virtual time.
pub type Nanos = u64;

pub struct EventQueue<E> {
    pub now: Nanos,
    heap: BinaryHeap<Reverse<(Nanos, u64, Slot<E>)>>,
    next: u64,
}

/// Wraps an event, because events have no order of their own.
struct Slot<E>(E);

impl<E> PartialEq for Slot<E> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl<E> Eq for Slot<E> {}

impl<E> PartialOrd for Slot<E> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Slot<E> {
    fn cmp(&self, _: &Self) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}

impl<E> EventQueue<E> {
    pub fn new() -> EventQueue<E> {
        EventQueue {
            now: 0,
            heap: BinaryHeap::new(),
            next: 0,
        }
    }

    pub fn schedule(&mut self, delay: u64, event: E) {
        self.next += 1;
        let entry = (self.now + delay, self.next, Slot(event));
        self.heap.push(Reverse(entry));
    }

    pub fn pop(&mut self) -> Option<E> {
        let Reverse((at, _, Slot(event))) = self.heap.pop()?;
        self.now = at;
        Some(event)
    }

    /// Drops all scheduled events, such as messages that a crash loses.
    pub fn clear(&mut self) {
        self.heap.clear();
    }
}
