//! Handlers that are woken on the thread of a ring: that thread polls them itself before it waits again.
//!
//! So an event on a ring's thread (a completed file read, a released lock) wakes no other thread.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Context;

use tracing::warn;

use super::pending_handler::PendingHandler;
use super::{HandlerTask, Spawner};

thread_local! {
    /// None on threads that do not run woken handlers.
    static RUN_QUEUE: RefCell<Option<VecDeque<HandlerTask>>> = const { RefCell::new(None) };
}

/// While this exists, the thread that installed it runs the handlers that are woken on it.
pub struct LocalRunQueue {
    spawner: Spawner,
}

/// A spawner that queues a handler on the calling thread if that thread has a run queue, and passes it to `other` otherwise.
pub fn prefer_local(other: Spawner) -> Spawner {
    Arc::new(move |task| {
        let left = RUN_QUEUE.with_borrow_mut(|run_queue| match run_queue {
            Some(run_queue) => {
                run_queue.push_back(task);
                None
            }
            None => Some(task),
        });
        if let Some(task) = left {
            other(task);
        }
    })
}

impl LocalRunQueue {
    /// `spawner` gets the handlers that are pending after their poll here and are woken on another thread.
    pub fn install(spawner: Spawner) -> LocalRunQueue {
        RUN_QUEUE.set(Some(VecDeque::new()));
        LocalRunQueue { spawner }
    }

    /// Polls one woken handler and returns how many are left. None if no handler was woken.
    pub fn run_one(&self) -> Option<usize> {
        let mut task = RUN_QUEUE.with_borrow_mut(|run_queue| run_queue.as_mut()?.pop_front())?;
        let polled = catch_unwind(AssertUnwindSafe(|| {
            let pending_handler = PendingHandler::new(self.spawner.clone());
            let waker = pending_handler.waker();
            if task
                .as_mut()
                .poll(&mut Context::from_waker(&waker))
                .is_pending()
            {
                pending_handler.suspend(task);
            }
        }));
        if polled.is_err() {
            // The handler was dropped, which has replied to its request.
            warn!("a handler panicked");
        }
        RUN_QUEUE.with_borrow(|run_queue| run_queue.as_ref().map(VecDeque::len))
    }
}

impl Drop for LocalRunQueue {
    /// Passes handlers that were woken and not polled to the spawner.
    fn drop(&mut self) {
        for task in RUN_QUEUE.take().unwrap_or_default() {
            (self.spawner)(task);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::{Poll, Waker};

    type WakerCell = Arc<Mutex<Option<Waker>>>;

    /// Is ready at its third poll, and stores its waker in `cell` at each poll.
    fn task(cell: WakerCell, polls: Arc<AtomicU32>) -> HandlerTask {
        Box::pin(poll_fn(move |cx| {
            *cell.lock().unwrap() = Some(cx.waker().clone());
            match polls.fetch_add(1, Ordering::Relaxed) {
                0 | 1 => Poll::Pending,
                _ => Poll::Ready(()),
            }
        }))
    }

    #[test]
    fn a_handler_woken_on_a_thread_with_a_run_queue_stays_there() {
        let spawned_elsewhere = Arc::new(AtomicU32::new(0));
        let spawn_count = spawned_elsewhere.clone();
        let spawner = prefer_local(Arc::new(move |task| {
            drop(task);
            spawn_count.fetch_add(1, Ordering::Relaxed);
        }));
        let (cell, polls) = (WakerCell::default(), Arc::new(AtomicU32::new(0)));
        let run_queue = LocalRunQueue::install(spawner.clone());
        assert_eq!(run_queue.run_one(), None);
        spawner(task(cell.clone(), polls.clone()));
        assert_eq!((run_queue.run_one(), run_queue.run_one()), (Some(0), None));
        cell.lock().unwrap().take().unwrap().wake();
        let ran = (run_queue.run_one(), run_queue.run_one());
        assert_eq!(ran, (Some(0), None), "woken here, polled here");
        assert_eq!(polls.load(Ordering::Relaxed), 2);
        // Woken on a thread without a run queue.
        let waker = cell.lock().unwrap().take().unwrap();
        std::thread::scope(|scope| scope.spawn(|| waker.wake()).join().unwrap());
        assert_eq!(spawned_elsewhere.load(Ordering::Relaxed), 1);
        // Dropping the run queue passes its handlers on; none is lost.
        spawner(task(cell, polls));
        drop(run_queue);
        assert_eq!(spawned_elsewhere.load(Ordering::Relaxed), 2);
    }
}
