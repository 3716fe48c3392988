//! What will happen, in the order of virtual time; what happens at the same moment, in the order it was decided.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Nanoseconds.
pub type Moment = u64;

pub struct Queue<E> {
    pub now: Moment,
    heap: BinaryHeap<Reverse<(Moment, u64, Slot<E>)>>,
    next: u64,
}

/// An event, which has no order of its own.
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

impl<E> Queue<E> {
    pub fn new() -> Queue<E> {
        Queue {
            now: 0,
            heap: BinaryHeap::new(),
            next: 0,
        }
    }

    pub fn after(&mut self, delay: u64, event: E) {
        self.next += 1;
        let entry = (self.now + delay, self.next, Slot(event));
        self.heap.push(Reverse(entry));
    }

    pub fn pop(&mut self) -> Option<E> {
        let Reverse((moment, _, Slot(event))) = self.heap.pop()?;
        self.now = moment;
        Some(event)
    }

    /// What was on its way is lost.
    pub fn clear(&mut self) {
        self.heap.clear();
    }
}
