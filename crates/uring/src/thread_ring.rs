//! Reads over the ring of the calling thread, and permits for threads to block in a read.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::BytesMut;
use io_uring::squeue;

use crate::device_waits::{DeviceWait, ThreadRead};
use crate::ring_read::{InFlightReads, ReadFuture, ReadRequest, RingRead, completion_result};

/// A read and its submission entry.
type QueuedRead = (Arc<RingRead>, squeue::Entry);

thread_local! {
    /// Reads that this thread has not submitted to its ring yet. None on threads without a ring.
    static QUEUED: RefCell<Option<VecDeque<QueuedRead>>> = const { RefCell::new(None) };
}

pub(crate) fn read(request: ReadRequest) -> Result<ReadFuture, BytesMut> {
    QUEUED.with_borrow_mut(|queued| {
        let Some(queued) = queued else {
            return Err(request.into);
        };
        let (read, command) = request.start()?;
        queued.push_back((read.clone(), command));
        Ok(ReadFuture(read))
    })
}

/// The reads of a thread's ring: until this is dropped, [`crate::read`] on this thread uses it. The thread owns the ring itself.
pub struct ThreadRing {
    in_flight: InFlightReads,
    /// Makes the type `!Send`.
    _thread: PhantomData<*const ()>,
}

impl ThreadRing {
    /// For the calling thread, which must not have another one.
    pub fn install() -> ThreadRing {
        let former = QUEUED.replace(Some(VecDeque::new()));
        debug_assert!(former.is_none(), "a thread has one ring");
        ThreadRing {
            in_flight: InFlightReads::default(),
            _thread: PhantomData,
        }
    }

    /// The next read to submit: its number and its submission entry. The buffer and file of the entry stay valid until the caller
    /// passes the number to `complete`; without that they are never freed.
    pub fn next_to_submit(&mut self) -> Option<(usize, squeue::Entry)> {
        let (read, command) = QUEUED.with_borrow_mut(|queued| queued.as_mut()?.pop_front())?;
        Some((self.in_flight.insert(read), command))
    }

    /// Ends the read with the result of its completion: bytes read, or a negative errno.
    ///
    /// # Safety
    /// The kernel has completed the entry that `next_to_submit` returned with this number, and writes no more to its buffer.
    pub unsafe fn complete(&mut self, number: usize, result: i32) {
        match self.in_flight.remove(number) {
            Some(read) => read.complete(completion_result(result)),
            None => debug_assert!(false, "a completion without a read"),
        }
    }
}

impl Drop for ThreadRing {
    fn drop(&mut self) {
        for (unsubmitted, _) in QUEUED.take().unwrap_or_default() {
            unsubmitted.complete(Err(io::ErrorKind::Interrupted.into()));
        }
    }
}

thread_local! {
    static BLOCKING_THREADS: RefCell<Option<Arc<BlockingThreads>>> = const { RefCell::new(None) };
}

/// A group of threads that do the same work, so that some of them may block in a read while the others go on.
pub struct BlockingThreads {
    blocked: AtomicUsize,
    limit: usize,
}

/// Permit of a thread to block in a read, until this is dropped.
pub struct BlockingPermit {
    _wait: DeviceWait,
    _count: PermitCount,
}

/// One permit of the group's limit.
struct PermitCount(Arc<BlockingThreads>);

impl BlockingThreads {
    /// At most `limit` threads block at a time.
    pub fn new(limit: usize) -> Arc<BlockingThreads> {
        Arc::new(BlockingThreads {
            blocked: AtomicUsize::new(0),
            limit,
        })
    }

    /// Adds the calling thread to the group until the thread ends.
    pub fn join(self: &Arc<Self>) {
        BLOCKING_THREADS.set(Some(self.clone()));
    }
}

/// Permit for the calling thread to block in a read now, which takes less time than a hand-off to another thread. None while a
/// ring executes a read of this thread, because that read completes on this thread.
pub fn acquire_blocking_permit() -> Option<BlockingPermit> {
    BLOCKING_THREADS.with_borrow(|group| {
        let group = group.as_ref().filter(|_| ThreadRead::none_in_flight())?;
        let more = |count| (count < group.limit).then_some(count + 1);
        let counted = group
            .blocked
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        let count = counted.ok().map(|_| PermitCount(group.clone()))?;
        Some(BlockingPermit {
            _wait: DeviceWait::begin()?,
            _count: count,
        })
    })
}

impl Drop for PermitCount {
    fn drop(&mut self) {
        self.0.blocked.fetch_sub(1, Ordering::Relaxed);
    }
}
