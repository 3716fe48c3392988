//! Lanes of the session: which (slot, sequence) a changing request carries.
//!
//! At most one request is under way in a lane; with all lanes in use the next change waits for one, first come first
//! served. Lanes are used like a stack, so a quiet client touches few of the server's stored replies.

use crate::limits::LANES_FOR_WORDS;
use gupfs_proto::Slot;
use gupfs_proto::limits::SLOTS;
use gupfs_proto::meta::Lane;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit};

pub struct Lanes {
    free: Mutex<Vec<Lane>>,
    room: Semaphore,
    /// For those that may wait for another client: it may itself wait for a word of ours, which needs a lane.
    patience: Semaphore,
}

impl Default for Lanes {
    fn default() -> Lanes {
        let free = (0..SLOTS).rev().map(|slot| Lane {
            slot: Slot(slot),
            sequence: 1,
        });
        Lanes {
            free: Mutex::new(free.collect()),
            room: Semaphore::new(usize::from(SLOTS)),
            patience: Semaphore::new(usize::from(SLOTS - LANES_FOR_WORDS)),
        }
    }
}

impl Lanes {
    pub async fn take(&self) -> Taken<'_> {
        self.take_after(None).await
    }

    /// For a request that may be answered only after another client has told or given something back.
    pub async fn take_patiently(&self) -> Taken<'_> {
        let patience = acquire(&self.patience).await;
        self.take_after(Some(patience)).await
    }

    async fn take_after<'a>(&'a self, patience: Option<SemaphorePermit<'a>>) -> Taken<'a> {
        let permit = acquire(&self.room).await;
        let lane = self.free.lock().pop();
        Taken {
            lanes: self,
            lane: lane.expect("there are as many permits as lanes"),
            _permit: permit,
            _patience: patience,
        }
    }

    pub fn in_use(&self) -> usize {
        usize::from(SLOTS) - self.free.lock().len()
    }
}

async fn acquire(semaphore: &Semaphore) -> SemaphorePermit<'_> {
    let permit = semaphore.acquire().await;
    permit.expect("the semaphore is never closed")
}

/// A lane in use; dropping it makes the next sequence of the lane free. A request that was given up has used its
/// sequence all the same: nobody knows whether the server saw it.
pub struct Taken<'a> {
    lanes: &'a Lanes,
    lane: Lane,
    // Fields drop after `drop` below, so the lane is back on the stack before the permit is.
    _permit: SemaphorePermit<'a>,
    _patience: Option<SemaphorePermit<'a>>,
}

impl Taken<'_> {
    pub fn lane(&self) -> Lane {
        self.lane
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.lanes.free.lock().push(Lane {
            slot: self.lane.slot,
            sequence: self.lane.sequence + 1,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Waker};

    #[tokio::test]
    async fn a_lane_used_again_has_the_next_sequence() {
        let lanes = Lanes::default();
        let first = lanes.take().await.lane();
        let second = lanes.take().await.lane();
        assert_eq!(
            (first.slot, first.sequence + 1),
            (second.slot, second.sequence)
        );
    }

    #[tokio::test]
    async fn when_all_lanes_are_in_use_the_next_change_waits() {
        let lanes = Lanes::default();
        let mut taken = Vec::new();
        for _ in 0..SLOTS {
            taken.push(lanes.take().await);
        }
        let mut slots: Vec<Slot> = taken.iter().map(|t| t.lane().slot).collect();
        slots.dedup();
        assert_eq!(slots.len(), usize::from(SLOTS));
        let mut waiting = pin!(lanes.take());
        let mut cx = Context::from_waker(Waker::noop());
        assert!(waiting.as_mut().poll(&mut cx).is_pending());
        taken.pop();
        assert!(waiting.as_mut().poll(&mut cx).is_ready());
    }

    #[tokio::test]
    async fn who_may_wait_for_others_leaves_lanes_for_words_to_them() {
        let lanes = Lanes::default();
        let mut taken = Vec::new();
        for _ in 0..SLOTS - LANES_FOR_WORDS {
            taken.push(lanes.take_patiently().await);
        }
        let mut waiting = pin!(lanes.take_patiently());
        let mut cx = Context::from_waker(Waker::noop());
        assert!(waiting.as_mut().poll(&mut cx).is_pending());
        taken.push(lanes.take().await);
    }
}
