//! Slots of the session (NFSv4.1): which (slot, sequence) a changing request carries.
//!
//! A slot has at most one request in progress; with all slots in use the next change waits for one, first in, first out. The
//! free slots are a stack, so a quiet client uses few of the server's stored replies.

use crate::limits::RESERVED_SLOTS;
use gupfs_proto::Slot;
use gupfs_proto::limits::SLOTS;
use gupfs_proto::meta::SlotSeq;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit};

pub struct SlotTable {
    free: Mutex<Vec<SlotSeq>>,
    permits: Semaphore,
    /// Bounds requests that may wait for a callback to another client: that client may itself wait for a report of this one,
    /// which needs a slot.
    waiting_permits: Semaphore,
}

impl Default for SlotTable {
    fn default() -> SlotTable {
        let free = (0..SLOTS).rev().map(|slot| SlotSeq {
            slot: Slot(slot),
            sequence: 1,
        });
        SlotTable {
            free: Mutex::new(free.collect()),
            permits: Semaphore::new(usize::from(SLOTS)),
            waiting_permits: Semaphore::new(usize::from(SLOTS - RESERVED_SLOTS)),
        }
    }
}

impl SlotTable {
    pub async fn acquire(&self) -> SlotGuard<'_> {
        self.acquire_after(None).await
    }

    /// For a request that the server may answer only after a callback to another client.
    pub async fn acquire_for_waiting(&self) -> SlotGuard<'_> {
        let waiting_permits = acquire(&self.waiting_permits).await;
        self.acquire_after(Some(waiting_permits)).await
    }

    async fn acquire_after<'a>(
        &'a self,
        waiting_permits: Option<SemaphorePermit<'a>>,
    ) -> SlotGuard<'a> {
        let permit = acquire(&self.permits).await;
        let slot_seq = self.free.lock().pop();
        SlotGuard {
            table: self,
            slot_seq: slot_seq.expect("there are as many permits as slots"),
            _permit: permit,
            _waiting_permit: waiting_permits,
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

/// A slot in use; dropping it frees the slot with its next sequence. A dropped request has used its sequence all the same: the
/// client does not know whether the server received it.
pub struct SlotGuard<'a> {
    table: &'a SlotTable,
    slot_seq: SlotSeq,
    // Fields drop after `drop` below, so the slot is back on the stack before the permit is released.
    _permit: SemaphorePermit<'a>,
    _waiting_permit: Option<SemaphorePermit<'a>>,
}

impl SlotGuard<'_> {
    pub fn slot_seq(&self) -> SlotSeq {
        self.slot_seq
    }
}

impl Drop for SlotGuard<'_> {
    fn drop(&mut self) {
        self.table.free.lock().push(SlotSeq {
            slot: self.slot_seq.slot,
            sequence: self.slot_seq.sequence + 1,
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
    async fn a_reused_slot_has_the_next_sequence() {
        let table = SlotTable::default();
        let first = table.acquire().await.slot_seq();
        let second = table.acquire().await.slot_seq();
        assert_eq!(
            (first.slot, first.sequence + 1),
            (second.slot, second.sequence)
        );
    }

    #[tokio::test]
    async fn when_all_slots_are_in_use_the_next_change_waits() {
        let table = SlotTable::default();
        let mut taken = Vec::new();
        for _ in 0..SLOTS {
            taken.push(table.acquire().await);
        }
        let mut slots: Vec<Slot> = taken.iter().map(|t| t.slot_seq().slot).collect();
        slots.dedup();
        assert_eq!(slots.len(), usize::from(SLOTS));
        let mut waiting = pin!(table.acquire());
        let mut cx = Context::from_waker(Waker::noop());
        assert!(waiting.as_mut().poll(&mut cx).is_pending());
        taken.pop();
        assert!(waiting.as_mut().poll(&mut cx).is_ready());
    }

    #[tokio::test]
    async fn requests_that_may_wait_for_callbacks_leave_slots_for_reports() {
        let table = SlotTable::default();
        let mut taken = Vec::new();
        for _ in 0..SLOTS - RESERVED_SLOTS {
            taken.push(table.acquire_for_waiting().await);
        }
        let mut waiting = pin!(table.acquire_for_waiting());
        let mut cx = Context::from_waker(Waker::noop());
        assert!(waiting.as_mut().poll(&mut cx).is_pending());
        taken.push(table.acquire().await);
    }
}
