//! Whose turn it is at a file that must be given back: first come, first served.
//!
//! Were it not so, two that write the same file in turn could take it from each other for ever, past a third.

use gupfs_proto::InodeId;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::OwnedMutexGuard;

#[derive(Default)]
pub struct Turns(Mutex<BTreeMap<InodeId, Queue>>);

/// A fair lock, and how many have it or wait for it.
#[derive(Default)]
struct Queue {
    lock: Arc<tokio::sync::Mutex<()>>,
    users: usize,
}

impl Turns {
    /// Whether somebody has the turn at this file.
    pub fn is_taken(&self, ino: InodeId) -> bool {
        self.0.lock().contains_key(&ino)
    }

    pub async fn take(&self, ino: InodeId) -> Turn<'_> {
        let lock = {
            let mut queues = self.0.lock();
            let queue = queues.entry(ino).or_default();
            queue.users += 1;
            queue.lock.clone()
        };
        // Counted before the wait: given up half way, it is counted off.
        let place = Place { turns: self, ino };
        let held = lock.lock_owned().await;
        Turn { place, _held: held }
    }
}

struct Place<'a> {
    turns: &'a Turns,
    ino: InodeId,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut queues = self.turns.0.lock();
        if let Some(queue) = queues.get_mut(&self.ino) {
            queue.users -= 1;
            if queue.users == 0 {
                queues.remove(&self.ino);
            }
        }
    }
}

/// The turn, until this is dropped.
pub struct Turn<'a> {
    place: Place<'a>,
    _held: OwnedMutexGuard<()>,
}

impl Turn<'_> {
    pub fn ino(&self) -> InodeId {
        self.place.ino
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::{Context, Waker};

    #[tokio::test]
    async fn turns_come_in_order_and_who_gives_up_is_passed() {
        let turns = Turns::default();
        let (one, two) = (InodeId(1), InodeId(2));
        let first = turns.take(one).await;
        let _other = turns.take(two).await;
        let mut cx = Context::from_waker(Waker::noop());
        let mut second = Box::pin(turns.take(one));
        let mut third = Box::pin(turns.take(one));
        assert!(second.as_mut().poll(&mut cx).is_pending());
        assert!(third.as_mut().poll(&mut cx).is_pending());
        drop(first);
        assert!(
            third.as_mut().poll(&mut cx).is_pending(),
            "the second is first"
        );
        drop(second);
        let third = third.await;
        assert!(turns.is_taken(one));
        drop(third);
        assert!(!turns.is_taken(one) && turns.is_taken(two));
    }
}
