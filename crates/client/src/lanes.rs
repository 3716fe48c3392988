//! Lanes of the session: which (slot, sequence) a changing request carries.
//!
//! At most one request is under way in a lane; with all lanes in use the next change waits for one, first come first
//! served. Lanes are used like a stack, so a quiet client touches few of the server's stored replies.

use gupfs_proto::Slot;
use gupfs_proto::limits::SLOTS;
use gupfs_proto::meta::Lane;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit};

pub struct Lanes {
    free: Mutex<Vec<Lane>>,
    room: Semaphore,
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
        }
    }
}

impl Lanes {
    pub async fn take(&self) -> Taken<'_> {
        let permit = self
            .room
            .acquire()
            .await
            .expect("the semaphore is never closed");
        let lane = self.free.lock().pop();
        Taken {
            lanes: self,
            lane: lane.expect("there are as many permits as lanes"),
            _permit: permit,
        }
    }

    pub fn in_use(&self) -> usize {
        usize::from(SLOTS) - self.free.lock().len()
    }
}

/// A lane in use; dropping it makes the next sequence of the lane free. A request that was given up has used its
/// sequence all the same: nobody knows whether the server saw it.
pub struct Taken<'a> {
    lanes: &'a Lanes,
    lane: Lane,
    // Fields drop after `drop` below, so the lane is back on the stack before the permit is.
    _permit: SemaphorePermit<'a>,
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
}
