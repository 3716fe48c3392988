//! Handlers that were woken on the thread of a ring: it goes on with them itself, before it waits again.
//!
//! So what one reactor brings about (a read of its ring that is done, a lock that it gave back) wakes no other thread.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Context;

use tracing::warn;

use super::asleep::Sleeper;
use super::{Spawner, Task};

thread_local! {
    /// None on threads that do not go on with anything.
    static WOKEN: RefCell<Option<VecDeque<Task>>> = const { RefCell::new(None) };
}

/// While it lives the calling thread goes on with what is woken on it.
pub struct Woken {
    spawner: Spawner,
}

/// Gives to the thread it is called on what that goes on with, and to `other` what it does not.
pub fn or_to(other: Spawner) -> Spawner {
    Arc::new(move |task| {
        let left = WOKEN.with_borrow_mut(|woken| match woken {
            Some(woken) => {
                woken.push_back(task);
                None
            }
            None => Some(task),
        });
        if let Some(task) = left {
            other(task);
        }
    })
}

impl Woken {
    /// `spawner` gets what is not ready here and is woken elsewhere.
    pub fn begin(spawner: Spawner) -> Woken {
        WOKEN.set(Some(VecDeque::new()));
        Woken { spawner }
    }

    /// Goes on with one handler; how many are left then. None if none was woken.
    pub fn go_on(&self) -> Option<usize> {
        let mut task = WOKEN.with_borrow_mut(|woken| woken.as_mut()?.pop_front())?;
        let polled = catch_unwind(AssertUnwindSafe(|| {
            let sleeper = Sleeper::new(self.spawner.clone());
            let waker = sleeper.waker();
            if task
                .as_mut()
                .poll(&mut Context::from_waker(&waker))
                .is_pending()
            {
                sleeper.lay_down(task);
            }
        }));
        if polled.is_err() {
            // It was dropped, which has answered its request.
            warn!("a handler panicked");
        }
        WOKEN.with_borrow(|woken| woken.as_ref().map(VecDeque::len))
    }
}

impl Drop for Woken {
    /// What was woken and not gone on with is somebody else's from here on.
    fn drop(&mut self) {
        for task in WOKEN.take().unwrap_or_default() {
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

    type Bed = Arc<Mutex<Option<Waker>>>;

    /// Is ready at its third poll, and leaves its waker in `bed` before.
    fn task(bed: Bed, polls: Arc<AtomicU32>) -> Task {
        Box::pin(poll_fn(move |cx| {
            *bed.lock().unwrap() = Some(cx.waker().clone());
            match polls.fetch_add(1, Ordering::Relaxed) {
                0 | 1 => Poll::Pending,
                _ => Poll::Ready(()),
            }
        }))
    }

    #[test]
    fn who_wakes_on_a_thread_that_goes_on_keeps_it_there() {
        let elsewhere = Arc::new(AtomicU32::new(0));
        let counting = elsewhere.clone();
        let spawner = or_to(Arc::new(move |task| {
            drop(task);
            counting.fetch_add(1, Ordering::Relaxed);
        }));
        let (bed, polls) = (Bed::default(), Arc::new(AtomicU32::new(0)));
        let woken = Woken::begin(spawner.clone());
        assert_eq!(woken.go_on(), None);
        spawner(task(bed.clone(), polls.clone()));
        assert_eq!((woken.go_on(), woken.go_on()), (Some(0), None));
        bed.lock().unwrap().take().unwrap().wake();
        let gone_on = (woken.go_on(), woken.go_on());
        assert_eq!(gone_on, (Some(0), None), "woken here, polled here");
        assert_eq!(polls.load(Ordering::Relaxed), 2);
        // Woken on a thread that does not go on with anything.
        let waker = bed.lock().unwrap().take().unwrap();
        std::thread::scope(|scope| scope.spawn(|| waker.wake()).join().unwrap());
        assert_eq!(elsewhere.load(Ordering::Relaxed), 1);
        // And at the end of one that does: nothing is lost.
        spawner(task(bed, polls));
        drop(woken);
        assert_eq!(elsewhere.load(Ordering::Relaxed), 2);
    }
}
