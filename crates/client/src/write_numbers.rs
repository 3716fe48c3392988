//! # write_numbers: numbers by which a target recognises a repeated write
//!
//! Owns   the slots of each target: which are free, and the last number of each.
//! Never  sends a request.
//! Enter  at `WriteNumbers::begin_write`.

use gupfs_proto::OstId;
use gupfs_proto::data::WriteNumber;
use gupfs_proto::limits::WRITE_SLOTS;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

#[derive(Default)]
pub struct WriteNumbers(Mutex<BTreeMap<OstId, Arc<TargetSlots>>>);

/// The slots of one target.
struct TargetSlots {
    /// As many permits as free slots.
    permits: Arc<Semaphore>,
    slots: Mutex<Slots>,
}

struct Slots {
    /// The last one is used next: a client uses as few slots as it has writes under way.
    free: Vec<u16>,
    /// By slot. Numbers rise for the life of the process, also when the session changes.
    last: Vec<u64>,
}

/// A slot with a write under way. The next write of the slot has the next number. If this is dropped before the write is answered, the
/// connection ends too, and the object server accepts the next connection only when the write has ended.
pub struct NumberedWriteGuard {
    pub number: WriteNumber,
    target: Arc<TargetSlots>,
    _permit: OwnedSemaphorePermit,
}

impl WriteNumbers {
    /// A number for a write to a target; waits while all slots have a write under way.
    pub async fn begin_write(&self, ost: OstId) -> NumberedWriteGuard {
        let target = self.0.lock().entry(ost).or_default().clone();
        let permit = target.permits.clone().acquire_owned().await;
        let permit = permit.expect("the semaphore is never closed");
        let number = target.slots.lock().next_number();
        NumberedWriteGuard {
            number,
            target,
            _permit: permit,
        }
    }
}

impl Default for TargetSlots {
    fn default() -> TargetSlots {
        TargetSlots {
            permits: Arc::new(Semaphore::new(usize::from(WRITE_SLOTS))),
            slots: Mutex::new(Slots {
                free: (0..WRITE_SLOTS).rev().collect(),
                last: vec![0; usize::from(WRITE_SLOTS)],
            }),
        }
    }
}

impl Slots {
    fn next_number(&mut self) -> WriteNumber {
        let slot = self.free.pop().expect("a permit is a free slot");
        let last = &mut self.last[usize::from(slot)];
        *last += 1;
        WriteNumber {
            slot,
            number: *last,
        }
    }
}

impl Drop for NumberedWriteGuard {
    fn drop(&mut self) {
        // Before the permit is released, which is dropped after this.
        self.target.slots.lock().free.push(self.number.slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::{Context, Waker};

    const OST: OstId = OstId(3);

    #[tokio::test]
    async fn no_two_writes_of_a_slot_have_the_same_number_and_few_slots_are_used() {
        let numbers = WriteNumbers::default();
        let first = numbers.begin_write(OST).await;
        let second = numbers.begin_write(OST).await;
        let another_target = numbers.begin_write(OstId(4)).await;
        let of = |guard: &NumberedWriteGuard| (guard.number.slot, guard.number.number);
        assert_eq!([of(&first), of(&second)], [(0, 1), (1, 1)]);
        assert_eq!(of(&another_target), (0, 1));
        drop(second);
        assert_eq!(of(&numbers.begin_write(OST).await), (1, 2));
        drop(first);
        assert_eq!(of(&numbers.begin_write(OST).await), (0, 2));
    }

    #[tokio::test]
    async fn a_write_waits_while_all_slots_are_used() {
        let numbers = WriteNumbers::default();
        let mut guards = Vec::new();
        for _ in 0..WRITE_SLOTS {
            guards.push(numbers.begin_write(OST).await);
        }
        let mut waiting = pin!(numbers.begin_write(OST));
        let mut context = Context::from_waker(Waker::noop());
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        guards.swap_remove(7);
        assert_eq!(waiting.await.number, WriteNumber { slot: 7, number: 2 });
    }
}
