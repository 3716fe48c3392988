//! A pending handler. No other thread is woken for it before its waker is called.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};

use tracing::warn;

use super::{HandlerTask, Spawner};

/// The waker of a pending handler. The first wake passes the handler to the spawner, which runs it like any task; the handler's
/// next poll uses another waker.
pub struct PendingHandler {
    spawner: Spawner,
    state: Mutex<WakeState>,
}

enum WakeState {
    /// The handler is being polled.
    Polling,
    /// The waker was called during that poll, or the spawner has the handler.
    Woken,
    Suspended(HandlerTask),
}

impl PendingHandler {
    pub fn new(spawner: Spawner) -> Arc<PendingHandler> {
        Arc::new(PendingHandler {
            spawner,
            state: Mutex::new(WakeState::Polling),
        })
    }

    pub fn waker(self: &Arc<Self>) -> Waker {
        self.clone().into()
    }

    /// Stores the handler, with the code that sends its reply, after a poll that returned `Pending`.
    pub fn suspend(&self, task: HandlerTask) {
        let mut state = self.lock();
        match *state {
            WakeState::Polling => *state = WakeState::Suspended(task),
            WakeState::Woken | WakeState::Suspended(_) => {
                drop(state);
                self.spawn(task);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, WakeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A spawner that panics has dropped the handler, which replies to its request; the panic must not reach the thread that
    /// called the waker.
    fn spawn(&self, task: HandlerTask) {
        if catch_unwind(AssertUnwindSafe(|| (self.spawner)(task))).is_err() {
            warn!("the spawner panicked");
        }
    }
}

impl Wake for PendingHandler {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let before = std::mem::replace(&mut *self.lock(), WakeState::Woken);
        if let WakeState::Suspended(task) = before {
            self.spawn(task);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn a_handler_is_spawned_once_however_often_it_is_woken() {
        for (during, after) in [(0, 1), (0, 3), (1, 0), (2, 2)] {
            let spawned = Arc::new(AtomicU32::new(0));
            let spawn_count = spawned.clone();
            let pending_handler = PendingHandler::new(Arc::new(move |task| {
                drop(task);
                spawn_count.fetch_add(1, Ordering::Relaxed);
            }));
            let waker = pending_handler.waker();
            (0..during).for_each(|_| waker.wake_by_ref());
            pending_handler.suspend(Box::pin(async {}));
            assert_eq!(spawned.load(Ordering::Relaxed), during.min(1));
            (0..after).for_each(|_| waker.wake_by_ref());
            assert_eq!(spawned.load(Ordering::Relaxed), 1);
        }
    }

    #[test]
    fn a_handler_without_a_waker_is_dropped() {
        let guarded = Arc::new(());
        let pending_handler =
            PendingHandler::new(Arc::new(|_| unreachable!("the waker is never called")));
        let waker = pending_handler.waker();
        let guard = guarded.clone();
        pending_handler.suspend(Box::pin(async move { drop(guard) }));
        drop(pending_handler);
        assert_eq!(Arc::strong_count(&guarded), 2);
        drop(waker);
        assert_eq!(Arc::strong_count(&guarded), 1);
    }
}
