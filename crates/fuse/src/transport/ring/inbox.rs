//! How other threads pass replied entries to the thread of a ring.

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::event::{EventfdFlags, eventfd};
use tracing::error;

thread_local! {
    /// Number of the inbox that belongs to this thread.
    static THIS_INBOX: Cell<u64> = const { Cell::new(0) };
    /// Entries whose replies were written on the ring's own thread.
    static REPLIED: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
}

/// Each inbox of the process gets a number, so that a thread recognizes its own.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// Collects the numbers of a ring's entries whose replies are written.
pub(crate) struct RingInbox {
    number: u64,
    from_other_threads: Mutex<Vec<u32>>,
    event_fd: OwnedFd,
    closed: AtomicBool,
}

impl RingInbox {
    pub fn new() -> io::Result<RingInbox> {
        Ok(RingInbox {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            from_other_threads: Mutex::default(),
            event_fd: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            closed: AtomicBool::new(false),
        })
    }

    /// Binds the inbox to the calling thread, which serves the ring from here on.
    pub fn bind_to_this_thread(&self) {
        THIS_INBOX.set(self.number);
        REPLIED.take();
    }

    /// Reports that the reply of this entry is written.
    pub fn push_replied(&self, entry: u32) {
        if THIS_INBOX.get() == self.number {
            REPLIED.with_borrow_mut(|replied| replied.push(entry));
            return;
        }
        let mut queued = self.lock_from_other_threads();
        queued.push(entry);
        let first = queued.len() == 1;
        drop(queued);
        if first {
            self.wake();
        }
    }

    /// Moves the numbers of all replied entries to `into`; with `woken` also those of other threads.
    pub fn collect(&self, woken: bool, into: &mut Vec<u32>) {
        if woken {
            let mut count = [0; 8];
            // Read before the numbers are taken: a thread that adds one in between signals again.
            let _ = rustix::io::read(&self.event_fd, &mut count);
            into.append(&mut self.lock_from_other_threads());
        }
        REPLIED.with_borrow_mut(|replied| into.append(replied));
    }

    /// Reports that the connection has ended, and wakes the ring's thread.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.wake();
    }

    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// The descriptor that becomes readable when another thread has added an entry.
    pub fn descriptor(&self) -> RawFd {
        self.event_fd.as_raw_fd()
    }

    fn wake(&self) {
        // A full counter (EAGAIN) means that the thread is being woken already.
        match rustix::io::write(&self.event_fd, &1u64.to_ne_bytes()) {
            Ok(_) | Err(rustix::io::Errno::AGAIN) => {}
            Err(errno) => error!(%errno, "cannot wake a ring thread"),
        }
    }

    /// A panic cannot leave the list in an intermediate state: only push and append change it.
    fn lock_from_other_threads(&self) -> MutexGuard<'_, Vec<u32>> {
        self.from_other_threads
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
