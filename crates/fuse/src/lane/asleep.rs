//! A handler that waits, until what it waits for wakes it: nobody else is woken for it before.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};

use tracing::warn;

use super::{Spawner, Task};

/// With whom a handler that is not ready leaves its waker. The first wake gives the handler to the spawner, which goes on with it
/// as with any task; its next poll leaves another waker.
pub struct Sleeper {
    spawner: Spawner,
    state: Mutex<State>,
}

enum State {
    /// It is being polled.
    Begun,
    /// It was woken during that poll, or the spawner has it.
    Up,
    Asleep(Task),
}

impl Sleeper {
    pub fn new(spawner: Spawner) -> Arc<Sleeper> {
        Arc::new(Sleeper {
            spawner,
            state: Mutex::new(State::Begun),
        })
    }

    pub fn waker(self: &Arc<Self>) -> Waker {
        self.clone().into()
    }

    /// After a poll that was not ready: the handler, with whatever is to be done after it.
    pub fn lay_down(&self, task: Task) {
        let mut state = self.lock();
        match *state {
            State::Begun => *state = State::Asleep(task),
            State::Up | State::Asleep(_) => {
                drop(state);
                self.give(task);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A spawner that panics has dropped the handler, which answers its request; who woke it is not to suffer.
    fn give(&self, task: Task) {
        if catch_unwind(AssertUnwindSafe(|| (self.spawner)(task))).is_err() {
            warn!("the spawner panicked");
        }
    }
}

impl Wake for Sleeper {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let before = std::mem::replace(&mut *self.lock(), State::Up);
        if let State::Asleep(task) = before {
            self.give(task);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn a_handler_is_spawned_once_whenever_it_is_woken() {
        for (during, after) in [(0, 1), (0, 3), (1, 0), (2, 2)] {
            let spawned = Arc::new(AtomicU32::new(0));
            let counting = spawned.clone();
            let sleeper = Sleeper::new(Arc::new(move |task| {
                drop(task);
                counting.fetch_add(1, Ordering::Relaxed);
            }));
            let waker = sleeper.waker();
            (0..during).for_each(|_| waker.wake_by_ref());
            sleeper.lay_down(Box::pin(async {}));
            assert_eq!(spawned.load(Ordering::Relaxed), during.min(1));
            (0..after).for_each(|_| waker.wake_by_ref());
            assert_eq!(spawned.load(Ordering::Relaxed), 1);
        }
    }

    #[test]
    fn a_handler_that_nobody_can_wake_is_dropped() {
        let held = Arc::new(());
        let sleeper = Sleeper::new(Arc::new(|_| unreachable!("nobody wakes it")));
        let waker = sleeper.waker();
        let keeps = held.clone();
        sleeper.lay_down(Box::pin(async move { drop(keeps) }));
        drop(sleeper);
        assert_eq!(Arc::strong_count(&held), 2);
        drop(waker);
        assert_eq!(Arc::strong_count(&held), 1);
    }
}
