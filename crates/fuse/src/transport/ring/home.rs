//! How other threads reach the thread of a ring.

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::event::{EventfdFlags, eventfd};
use tracing::error;

thread_local! {
    /// The home whose thread this is.
    static HERE: Cell<u64> = const { Cell::new(0) };
    /// Places of it whose answers were written on this thread.
    static ANSWERED: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
}

/// Homes of this process get numbers, so that a thread knows its own.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// Where the places of a ring go when they are answered.
pub(crate) struct Home {
    number: u64,
    inbox: Mutex<Vec<u32>>,
    wake: OwnedFd,
    closed: AtomicBool,
}

impl Home {
    pub fn new() -> io::Result<Home> {
        Ok(Home {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            inbox: Mutex::default(),
            wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            closed: AtomicBool::new(false),
        })
    }

    /// The calling thread is the ring's from here on.
    pub fn enter(&self) {
        HERE.set(self.number);
        ANSWERED.take();
    }

    /// This place's answer is written.
    pub fn answered(&self, place: u32) {
        if HERE.get() == self.number {
            ANSWERED.with_borrow_mut(|answered| answered.push(place));
            return;
        }
        let mut inbox = self.inbox();
        inbox.push(place);
        let first = inbox.len() == 1;
        drop(inbox);
        if first {
            self.wake();
        }
    }

    /// Moves all places that are answered to `into`; `woken`: also those of other threads.
    pub fn collect(&self, woken: bool, into: &mut Vec<u32>) {
        if woken {
            let mut count = [0; 8];
            // Read before the places are taken: whoever comes between wakes again.
            let _ = rustix::io::read(&self.wake, &mut count);
            into.append(&mut self.inbox());
        }
        ANSWERED.with_borrow_mut(|answered| into.append(answered));
    }

    /// The connection has ended.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.wake();
    }

    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// The descriptor that is readable when there is something to collect.
    pub fn descriptor(&self) -> RawFd {
        self.wake.as_raw_fd()
    }

    fn wake(&self) {
        // Full (EAGAIN) means that it is awake already.
        match rustix::io::write(&self.wake, &1u64.to_ne_bytes()) {
            Ok(_) | Err(rustix::io::Errno::AGAIN) => {}
            Err(errno) => error!(%errno, "cannot wake a reactor"),
        }
    }

    /// A push or an append leaves nothing half done.
    fn inbox(&self) -> MutexGuard<'_, Vec<u32>> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
