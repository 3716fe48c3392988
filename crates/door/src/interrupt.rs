//! # interrupt: telling a waiting handler that its program got a signal
//!
//! Owns   the registry of requests that wait, and who of them wants to know.
//! Never  ends a request: that is the handler's to decide.
//! Enter  at `Interrupts`; handlers at `Call::interrupted`.
//!
//! A request that is answered at its first poll never comes here. One that is not is entered by the reactor before
//! the spawner has it, and stays until it has ended. The kernel may send INTERRUPT before that moment: such an early
//! one is remembered under its unique and found when the request is entered.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::Unique;
use crate::limits::{EARLY_INTERRUPTS, INTERRUPT_SHARDS};

/// The registry of a mount.
pub(crate) struct Interrupts {
    shards: Vec<Mutex<Shard>>,
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
}

impl Interrupts {
    pub fn new() -> Interrupts {
        Interrupts {
            shards: (0..INTERRUPT_SHARDS).map(|_| Mutex::default()).collect(),
        }
    }

    fn shard(&self, unique: Unique) -> MutexGuard<'_, Shard> {
        // The kernel counts uniques up in steps of two.
        let shard = (unique.0 >> 1) as usize % self.shards.len();
        self.shards[shard]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The request waits from now on, until the result is dropped.
    pub fn enter(self: &Arc<Self>, unique: Unique) -> Waiting {
        self.shard(unique).hold(unique);
        Waiting {
            unique,
            registry: self.clone(),
        }
    }

    /// INTERRUPT came for this request. It may be waiting, not yet waiting, or long answered.
    pub fn interrupt(&self, unique: Unique) {
        let mut shard = self.shard(unique);
        let wakers = match shard.waiting.get_mut(&unique) {
            Some(slot) => {
                slot.interrupted = true;
                std::mem::take(&mut slot.wakers)
            }
            None => {
                shard.early.push_back(unique);
                if shard.early.len() > EARLY_INTERRUPTS {
                    shard.early.pop_front();
                }
                Vec::new()
            }
        };
        drop(shard);
        // Without the lock: a waker may poll at once.
        wakers.into_iter().for_each(|(_, waker)| waker.wake());
    }

    pub fn is_interrupted(&self, unique: Unique) -> bool {
        let shard = self.shard(unique);
        shard
            .waiting
            .get(&unique)
            .is_some_and(|slot| slot.interrupted)
            || shard.early.contains(&unique)
    }

    /// Requests that wait now.
    pub fn waiting(&self) -> usize {
        let count = |shard: &Mutex<Shard>| {
            shard
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .waiting
                .len()
        };
        self.shards.iter().map(count).sum()
    }
}

/// A request that waits.
pub(crate) struct Waiting {
    unique: Unique,
    registry: Arc<Interrupts>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.registry.shard(self.unique).release(self.unique, None);
    }
}

/// Ready when the program that waits for the answer got a signal. The request must still be answered: with EINTR, or
/// with whatever was done. A killed program cannot end before that.
///
/// Over io_uring the kernel forgets a signal that comes while the request is on its way into the ring: who may wait for ever
/// needs an end of its own besides.
pub struct Interrupted {
    unique: Unique,
    registry: Arc<Interrupts>,
    held: Option<u64>,
}

impl Interrupted {
    pub(crate) fn new(unique: Unique, registry: Arc<Interrupts>) -> Interrupted {
        Interrupted {
            unique,
            registry,
            held: None,
        }
    }
}

impl Future for Interrupted {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let mut shard = this.registry.shard(this.unique);
        let id = match this.held {
            Some(id) => id,
            None => {
                let slot = shard.hold(this.unique);
                let id = slot.next_waker;
                slot.next_waker += 1;
                *this.held.insert(id)
            }
        };
        let Some(slot) = shard.waiting.get_mut(&this.unique) else {
            unreachable!("a slot stays while someone holds it")
        };
        if slot.interrupted {
            return Poll::Ready(());
        }
        match slot.wakers.iter_mut().find(|(known, _)| *known == id) {
            Some((_, waker)) => waker.clone_from(context.waker()),
            None => slot.wakers.push((id, context.waker().clone())),
        }
        Poll::Pending
    }
}

impl Drop for Interrupted {
    fn drop(&mut self) {
        if let Some(id) = self.held {
            self.registry
                .shard(self.unique)
                .release(self.unique, Some(id));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    struct Count(AtomicUsize);

    impl std::task::Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn poll(future: &mut Interrupted, count: &Arc<Count>) -> bool {
        Pin::new(future)
            .poll(&mut Context::from_waker(&Waker::from(count.clone())))
            .is_ready()
    }

    fn count() -> Arc<Count> {
        Arc::new(Count(AtomicUsize::new(0)))
    }

    #[test]
    fn an_interrupt_wakes_the_one_it_names() {
        let registry = Arc::new(Interrupts::new());
        let (one, other) = (count(), count());
        let _waiting = registry.enter(Unique(2));
        let _also = registry.enter(Unique(4));
        let mut first = Interrupted::new(Unique(2), registry.clone());
        let mut second = Interrupted::new(Unique(4), registry.clone());
        assert!(!poll(&mut first, &one) && !poll(&mut second, &other));
        registry.interrupt(Unique(2));
        assert_eq!(
            (
                one.0.load(Ordering::Relaxed),
                other.0.load(Ordering::Relaxed)
            ),
            (1, 0)
        );
        assert!(poll(&mut first, &one) && !poll(&mut second, &other));
        assert!(registry.is_interrupted(Unique(2)) && !registry.is_interrupted(Unique(4)));
    }

    #[test]
    fn an_interrupt_that_comes_before_its_request_waits_is_found_later() {
        let registry = Arc::new(Interrupts::new());
        registry.interrupt(Unique(6));
        let _waiting = registry.enter(Unique(6));
        assert!(poll(
            &mut Interrupted::new(Unique(6), registry.clone()),
            &count()
        ));
    }

    #[test]
    fn a_future_polled_before_its_request_waits_is_woken_all_the_same() {
        let registry = Arc::new(Interrupts::new());
        let wakes = count();
        let mut future = Interrupted::new(Unique(8), registry.clone());
        assert!(!poll(&mut future, &wakes));
        let _waiting = registry.enter(Unique(8));
        registry.interrupt(Unique(8));
        assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
        assert!(poll(&mut future, &wakes));
    }

    #[test]
    fn nothing_stays_behind() {
        let registry = Arc::new(Interrupts::new());
        let waiting = registry.enter(Unique(10));
        let mut future = Interrupted::new(Unique(10), registry.clone());
        assert!(!poll(&mut future, &count()));
        registry.interrupt(Unique(10));
        drop(waiting);
        assert_eq!(registry.waiting(), 1);
        drop(future);
        assert_eq!(registry.waiting(), 0);
        for unique in 0..10_000 {
            registry.interrupt(Unique(unique));
        }
        let early: usize = registry
            .shards
            .iter()
            .map(|shard| shard.lock().unwrap().early.len())
            .sum();
        assert_eq!(early, EARLY_INTERRUPTS * INTERRUPT_SHARDS);
    }
}
