//! Reads over the ring of the calling thread, and threads that may wait themselves.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::BytesMut;
use io_uring::squeue;

use crate::one::{Read, Reading, UnderWay, Wish, outcome};
use crate::patience::{Mine, Wait};

/// A read, and the command that does it.
type Asked = (Arc<Read>, squeue::Entry);

thread_local! {
    /// Reads that this thread's ring has not seen yet. None on threads without a ring.
    static ASKED: RefCell<Option<VecDeque<Asked>>> = const { RefCell::new(None) };
}

pub(crate) fn read(wish: Wish) -> Result<Reading, BytesMut> {
    ASKED.with_borrow_mut(|asked| {
        let Some(asked) = asked else {
            return Err(wish.into);
        };
        let (read, command) = wish.begin()?;
        asked.push_back((read.clone(), command));
        Ok(Reading(read))
    })
}

/// The half of a thread's ring: while it lives, [`crate::read`] on this thread goes through it.
pub struct Here {
    under_way: UnderWay,
    /// It stays on its thread.
    _thread: PhantomData<*const ()>,
}

impl Here {
    /// For the calling thread, which has no other.
    pub fn begin() -> Here {
        let former = ASKED.replace(Some(VecDeque::new()));
        debug_assert!(former.is_none(), "a thread has one ring");
        Here {
            under_way: UnderWay::default(),
            _thread: PhantomData,
        }
    }

    /// The next read that was asked for: its number and its command. What the command points to lives until `completed` was
    /// told of the number, or for ever.
    pub fn to_submit(&mut self) -> Option<(usize, squeue::Entry)> {
        let (read, command) = ASKED.with_borrow_mut(|asked| asked.as_mut()?.pop_front())?;
        Some((self.under_way.add(read), command))
    }

    /// With what the completion says: bytes read, or a negative errno.
    ///
    /// # Safety
    /// The kernel has completed the command that `to_submit` gave with this number: it does not write any more.
    pub unsafe fn completed(&mut self, number: usize, result: i32) {
        match self.under_way.end(number) {
            Some(read) => read.finish(outcome(result)),
            None => debug_assert!(false, "a completion of no read"),
        }
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        for (never_seen, _) in ASKED.take().unwrap_or_default() {
            never_seen.finish(Err(io::ErrorKind::Interrupted.into()));
        }
    }
}

thread_local! {
    static WAITERS: RefCell<Option<Arc<Waiters>>> = const { RefCell::new(None) };
}

/// Threads that do the same work, so that some of them may wait for a device while others go on.
pub struct Waiters {
    waiting: AtomicUsize,
    most: usize,
}

/// A thread that waits, until this is dropped.
pub struct Waiting {
    _wait: Wait,
    _place: Place,
}

/// One of the most.
struct Place(Arc<Waiters>);

impl Waiters {
    /// At most so many wait at a time.
    pub fn new(most: usize) -> Arc<Waiters> {
        Arc::new(Waiters {
            waiting: AtomicUsize::new(0),
            most,
        })
    }

    /// The calling thread is one of them, for the rest of its life.
    pub fn join(self: &Arc<Self>) {
        WAITERS.set(Some(self.clone()));
    }
}

/// Whether the calling thread may wait for a device now: then that is shorter than to have somebody else do it. Not while a ring
/// reads for it: that ends on the thread that asked for it.
pub fn may_wait_here() -> Option<Waiting> {
    WAITERS.with_borrow(|waiters| {
        let waiters = waiters.as_ref().filter(|_| Mine::are_none())?;
        let more = |waiting| (waiting < waiters.most).then_some(waiting + 1);
        let waits = waiters
            .waiting
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        let place = waits.ok().map(|_| Place(waiters.clone()))?;
        Some(Waiting {
            _wait: Wait::begin()?,
            _place: place,
        })
    })
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}
