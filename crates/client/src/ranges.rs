//! Locks on byte ranges of one file: reads see a write whole or not at all.
//!
//! First come, first served among those that conflict: whoever waits is not passed by a later conflicting claim, so
//! a truncate gets its turn under a stream of reads.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// The end of every file, for claims to the end.
pub const END: u64 = u64::MAX;

#[derive(Default)]
pub struct Ranges(Mutex<Queue>);

#[derive(Default)]
struct Queue {
    held: Vec<Claim>,
    waiting: VecDeque<Waiting>,
    next: u64,
}

#[derive(Clone, Copy)]
struct Claim {
    id: u64,
    from: u64,
    to: u64,
    exclusive: bool,
}

struct Waiting {
    claim: Claim,
    waker: Waker,
}

impl Ranges {
    /// Beside other shared claims.
    pub fn shared(&self, range: Range<u64>) -> Claiming<'_> {
        self.claim(range, false)
    }

    /// Alone in the range.
    pub fn exclusive(&self, range: Range<u64>) -> Claiming<'_> {
        self.claim(range, true)
    }

    /// Alone in the whole file.
    pub fn whole(&self) -> Claiming<'_> {
        self.claim(0..END, true)
    }

    fn claim(&self, range: Range<u64>, exclusive: bool) -> Claiming<'_> {
        Claiming {
            ranges: self,
            claim: Claim {
                id: 0,
                from: range.start,
                to: range.end,
                exclusive,
            },
            progress: Progress::New,
        }
    }

    fn give_back(&self, id: u64) {
        let woken = {
            let mut queue = self.0.lock();
            queue.drop_claim(id);
            queue.promote()
        };
        woken.into_iter().for_each(Waker::wake);
    }
}

impl Claim {
    fn conflicts(&self, other: &Claim) -> bool {
        (self.exclusive || other.exclusive) && self.from < other.to && other.from < self.to
    }
}

impl Queue {
    fn is_free_for(&self, claim: &Claim) -> bool {
        !self.held.iter().any(|held| held.conflicts(claim))
            && !self.waiting.iter().any(|w| w.claim.conflicts(claim))
    }

    fn drop_claim(&mut self, id: u64) {
        if let Some(index) = self.held.iter().position(|claim| claim.id == id) {
            self.held.swap_remove(index);
        } else {
            self.waiting.retain(|waiting| waiting.claim.id != id);
        }
    }

    /// Grants what nothing held and nobody earlier in the queue conflicts with.
    fn promote(&mut self) -> Vec<Waker> {
        let mut woken = Vec::new();
        let mut index = 0;
        while index < self.waiting.len() {
            let claim = self.waiting[index].claim;
            let blocked = self.held.iter().any(|held| held.conflicts(&claim))
                || self
                    .waiting
                    .range(..index)
                    .any(|earlier| earlier.claim.conflicts(&claim));
            if blocked {
                index += 1;
            } else if let Some(waiting) = self.waiting.remove(index) {
                self.held.push(waiting.claim);
                woken.push(waiting.waker);
            }
        }
        woken
    }
}

/// A claim on its way; dropping it gives up its place.
pub struct Claiming<'a> {
    ranges: &'a Ranges,
    claim: Claim,
    progress: Progress,
}

#[derive(PartialEq, Eq)]
enum Progress {
    New,
    Queued,
    Given,
}

impl<'a> Future for Claiming<'a> {
    type Output = Held<'a>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Held<'a>> {
        let ranges = self.ranges;
        let mut queue = ranges.0.lock();
        match self.progress {
            Progress::New => {
                queue.next += 1;
                self.claim.id = queue.next;
                if queue.is_free_for(&self.claim) {
                    queue.held.push(self.claim);
                } else {
                    let waiting = Waiting {
                        claim: self.claim,
                        waker: cx.waker().clone(),
                    };
                    queue.waiting.push_back(waiting);
                    self.progress = Progress::Queued;
                    return Poll::Pending;
                }
            }
            Progress::Queued => {
                let id = self.claim.id;
                if let Some(mine) = queue.waiting.iter_mut().find(|w| w.claim.id == id) {
                    mine.waker.clone_from(cx.waker());
                    return Poll::Pending;
                }
            }
            Progress::Given => unreachable!("a claim is polled after it was given"),
        }
        self.progress = Progress::Given;
        Poll::Ready(Held {
            ranges,
            id: self.claim.id,
        })
    }
}

impl Drop for Claiming<'_> {
    fn drop(&mut self) {
        if self.progress == Progress::Queued {
            self.ranges.give_back(self.claim.id);
        }
    }
}

/// A range that is held until this is dropped.
pub struct Held<'a> {
    ranges: &'a Ranges,
    id: u64,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.ranges.give_back(self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Poll;

    fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
        Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
    }

    fn take<'a>(mut claiming: Claiming<'a>) -> Held<'a> {
        match poll(&mut claiming) {
            Poll::Ready(held) => held,
            Poll::Pending => panic!("should be free"),
        }
    }

    #[test]
    fn readers_share_and_a_writer_of_another_range_does_not_wait() {
        let ranges = Ranges::default();
        let _one = take(ranges.shared(0..10));
        let _two = take(ranges.shared(5..15));
        let _three = take(ranges.exclusive(15..20));
        assert!(poll(&mut ranges.exclusive(9..11)).is_pending());
    }

    #[test]
    fn a_waiting_writer_is_not_passed_by_later_readers() {
        let ranges = Ranges::default();
        let reader = take(ranges.shared(0..10));
        let mut writer = ranges.whole();
        assert!(poll(&mut writer).is_pending());
        let mut late = ranges.shared(0..10);
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
    fn who_gives_up_waiting_lets_the_next_in() {
        let ranges = Ranges::default();
        let reader = take(ranges.shared(0..10));
        let mut writer = ranges.exclusive(0..10);
        assert!(poll(&mut writer).is_pending());
        let mut late = ranges.shared(0..10);
        assert!(poll(&mut late).is_pending());
        drop(writer);
        assert!(poll(&mut late).is_ready());
        drop(reader);
        drop(late);
        let _all = take(ranges.whole());
    }

    #[test]
    fn a_grant_that_nobody_took_is_given_back() {
        let ranges = Ranges::default();
        let first = take(ranges.whole());
        let mut second = ranges.whole();
        assert!(poll(&mut second).is_pending());
        drop(first); // grants the second, which never looks
        drop(second);
        let _third = take(ranges.whole());
    }
}
