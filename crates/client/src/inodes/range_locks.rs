//! Range locks of one file inside this client: a read sees a write whole or not at all.
//!
//! Conflicting requests are served first in, first out: a waiting request is not overtaken by a later conflicting one, so a
//! truncate gets the lock under a stream of reads.

use gupfs_proto::FileOffset;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// The end of every file, for locks that reach to the end.
pub const END: FileOffset = FileOffset::MAX;

#[derive(Default)]
pub struct RangeLocks(Mutex<RangeLockQueue>);

#[derive(Default)]
struct RangeLockQueue {
    held: Vec<RangeLock>,
    waiting: VecDeque<RangeWaiter>,
    next: u64,
}

#[derive(Clone, Copy)]
struct RangeLock {
    id: u64,
    from: FileOffset,
    to: FileOffset,
    exclusive: bool,
}

struct RangeWaiter {
    lock: RangeLock,
    waker: Waker,
}

impl RangeLocks {
    /// A shared lock: compatible with other shared locks.
    pub fn shared(&self, range: Range<FileOffset>) -> RangeLockFuture<'_> {
        self.lock(range, false)
    }

    /// An exclusive lock of the range.
    pub fn exclusive(&self, range: Range<FileOffset>) -> RangeLockFuture<'_> {
        self.lock(range, true)
    }

    /// An exclusive lock of the whole file.
    pub fn whole(&self) -> RangeLockFuture<'_> {
        self.lock(FileOffset(0)..END, true)
    }

    /// Whether an exclusive lock is held: the file is being changed.
    pub fn is_changing(&self) -> bool {
        self.0.lock().held.iter().any(|lock| lock.exclusive)
    }

    /// Returns when the changes have ended that are under way.
    pub async fn wait_for_changes(&self) {
        drop(self.shared(FileOffset(0)..END).await);
    }

    fn lock(&self, range: Range<FileOffset>, exclusive: bool) -> RangeLockFuture<'_> {
        RangeLockFuture {
            ranges: self,
            lock: RangeLock {
                id: 0,
                from: range.start,
                to: range.end,
                exclusive,
            },
            progress: LockProgress::New,
        }
    }

    fn unlock(&self, id: u64) {
        let woken = {
            let mut queue = self.0.lock();
            queue.remove(id);
            queue.grant_waiting()
        };
        woken.into_iter().for_each(Waker::wake);
    }
}

impl RangeLock {
    fn conflicts(&self, other: &RangeLock) -> bool {
        (self.exclusive || other.exclusive) && self.from < other.to && other.from < self.to
    }
}

impl RangeLockQueue {
    fn can_grant(&self, lock: &RangeLock) -> bool {
        !self.held.iter().any(|held| held.conflicts(lock))
            && !self.waiting.iter().any(|w| w.lock.conflicts(lock))
    }

    fn remove(&mut self, id: u64) {
        if let Some(index) = self.held.iter().position(|lock| lock.id == id) {
            self.held.swap_remove(index);
        } else {
            self.waiting.retain(|waiting| waiting.lock.id != id);
        }
    }

    /// Grants each waiting lock that conflicts with no held lock and no earlier waiter.
    fn grant_waiting(&mut self) -> Vec<Waker> {
        let mut woken = Vec::new();
        let mut index = 0;
        while index < self.waiting.len() {
            let lock = self.waiting[index].lock;
            let blocked = self.held.iter().any(|held| held.conflicts(&lock))
                || self
                    .waiting
                    .range(..index)
                    .any(|earlier| earlier.lock.conflicts(&lock));
            if blocked {
                index += 1;
            } else if let Some(waiting) = self.waiting.remove(index) {
                self.held.push(waiting.lock);
                woken.push(waiting.waker);
            }
        }
        woken
    }
}

/// Waits for a lock; dropping it leaves the queue.
pub struct RangeLockFuture<'a> {
    ranges: &'a RangeLocks,
    lock: RangeLock,
    progress: LockProgress,
}

#[derive(PartialEq, Eq)]
enum LockProgress {
    New,
    Queued,
    Granted,
}

impl<'a> Future for RangeLockFuture<'a> {
    type Output = RangeLockGuard<'a>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<RangeLockGuard<'a>> {
        let ranges = self.ranges;
        let mut queue = ranges.0.lock();
        match self.progress {
            LockProgress::New => {
                queue.next += 1;
                self.lock.id = queue.next;
                if queue.can_grant(&self.lock) {
                    queue.held.push(self.lock);
                } else {
                    let waiting = RangeWaiter {
                        lock: self.lock,
                        waker: cx.waker().clone(),
                    };
                    queue.waiting.push_back(waiting);
                    self.progress = LockProgress::Queued;
                    return Poll::Pending;
                }
            }
            LockProgress::Queued => {
                let id = self.lock.id;
                if let Some(waiting) = queue.waiting.iter_mut().find(|w| w.lock.id == id) {
                    waiting.waker.clone_from(cx.waker());
                    return Poll::Pending;
                }
            }
            LockProgress::Granted => {
                unreachable!("the future was polled after it returned the lock")
            }
        }
        self.progress = LockProgress::Granted;
        Poll::Ready(RangeLockGuard {
            ranges,
            id: self.lock.id,
        })
    }
}

impl Drop for RangeLockFuture<'_> {
    fn drop(&mut self) {
        if self.progress == LockProgress::Queued {
            self.ranges.unlock(self.lock.id);
        }
    }
}

/// A range that is locked until this is dropped.
pub struct RangeLockGuard<'a> {
    ranges: &'a RangeLocks,
    id: u64,
}

impl Drop for RangeLockGuard<'_> {
    fn drop(&mut self) {
        self.ranges.unlock(self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Poll;

    fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
        Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
    }

    fn take<'a>(mut claiming: RangeLockFuture<'a>) -> RangeLockGuard<'a> {
        match poll(&mut claiming) {
            Poll::Ready(held) => held,
            Poll::Pending => panic!("should be free"),
        }
    }

    fn bytes(range: Range<u64>) -> Range<FileOffset> {
        FileOffset(range.start)..FileOffset(range.end)
    }

    #[test]
    fn readers_share_and_a_writer_of_another_range_does_not_wait() {
        let ranges = RangeLocks::default();
        let _one = take(ranges.shared(bytes(0..10)));
        let _two = take(ranges.shared(bytes(5..15)));
        let _three = take(ranges.exclusive(bytes(15..20)));
        assert!(poll(&mut ranges.exclusive(bytes(9..11))).is_pending());
    }

    #[test]
    fn a_waiting_writer_is_not_passed_by_later_readers() {
        let ranges = RangeLocks::default();
        let reader = take(ranges.shared(bytes(0..10)));
        let mut writer = ranges.whole();
        assert!(poll(&mut writer).is_pending());
        let mut late = ranges.shared(bytes(0..10));
        assert!(poll(&mut late).is_pending());
        drop(reader);
        let Poll::Ready(writing) = poll(&mut writer) else {
            panic!("the writer is first")
        };
        assert!(poll(&mut late).is_pending());
        drop(writing);
        assert!(poll(&mut late).is_ready());
    }

    #[test]
    fn a_dropped_waiter_lets_the_next_waiter_in() {
        let ranges = RangeLocks::default();
        let reader = take(ranges.shared(bytes(0..10)));
        let mut writer = ranges.exclusive(bytes(0..10));
        assert!(poll(&mut writer).is_pending());
        let mut late = ranges.shared(bytes(0..10));
        assert!(poll(&mut late).is_pending());
        drop(writer);
        assert!(poll(&mut late).is_ready());
        drop(reader);
        drop(late);
        let _all = take(ranges.whole());
    }

    #[test]
    fn a_granted_lock_whose_future_is_dropped_is_unlocked() {
        let ranges = RangeLocks::default();
        let first = take(ranges.whole());
        let mut second = ranges.whole();
        assert!(poll(&mut second).is_pending());
        drop(first); // grants the second, whose future is not polled again
        drop(second);
        let _third = take(ranges.whole());
    }
}
