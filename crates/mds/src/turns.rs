//! Whose turn it is at a file that must be given back: first come, first served.
//!
//! Were it not so, two that write the same file in turn could take it from each other for ever, past a third.
//!
//! A request that a client sends again after its connection broke waits behind its first copy. When the first copy has made the
//! session the holder, the second must not wait for its turn: the next in the queue asks this session to give the file back,
//! and its client answers that after its own request.

use gupfs_proto::{InodeId, SessionId};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::{Notify, OwnedMutexGuard};

#[derive(Default)]
pub struct Turns(Mutex<BTreeMap<InodeId, Queue>>);

/// A fair lock, and who has it or waits for it.
#[derive(Default)]
struct Queue {
    lock: Arc<tokio::sync::Mutex<()>>,
    users: BTreeMap<u64, (SessionId, Arc<Notify>)>,
    next: u64,
}

impl Turns {
    /// Whether somebody has the turn at this file.
    pub fn is_taken(&self, ino: InodeId) -> bool {
        self.0.lock().contains_key(&ino)
    }

    /// Joins the queue for this file.
    pub fn place(&self, ino: InodeId, session: SessionId) -> Place<'_> {
        let begun = Arc::<Notify>::default();
        let mut queues = self.0.lock();
        let queue = queues.entry(ino).or_default();
        queue.next += 1;
        queue.users.insert(queue.next, (session, begun.clone()));
        Place {
            turns: self,
            ino,
            number: queue.next,
            lock: queue.lock.clone(),
            begun,
        }
    }

    /// This session holds the file from now on: none of its requests waits for a turn there.
    pub fn holds(&self, ino: InodeId, session: SessionId) {
        if let Some(queue) = self.0.lock().get(&ino) {
            let of_session = queue.users.values().filter(|(of, _)| *of == session);
            // Also for one that comes to its wait later.
            of_session.for_each(|(_, begun)| begun.notify_one());
        }
    }
}

/// A place in the queue, left when this is dropped.
pub struct Place<'a> {
    turns: &'a Turns,
    ino: InodeId,
    number: u64,
    lock: Arc<tokio::sync::Mutex<()>>,
    begun: Arc<Notify>,
}

impl<'a> Place<'a> {
    /// The turn; None if the session has come to hold the file before.
    pub async fn turn(self) -> Option<Turn<'a>> {
        let held = tokio::select! {
            biased;
            held = self.lock.clone().lock_owned() => held,
            () = self.begun.notified() => return None,
        };
        Some(Turn {
            place: self,
            _held: held,
        })
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut queues = self.turns.0.lock();
        if let Some(queue) = queues.get_mut(&self.ino) {
            queue.users.remove(&self.number);
            if queue.users.is_empty() {
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
        let take = |ino, session| turns.place(ino, SessionId(session)).turn();
        let first = take(one, 1).await;
        let _other = take(two, 1).await;
        let mut cx = Context::from_waker(Waker::noop());
        let mut second = Box::pin(take(one, 2));
        let mut third = Box::pin(take(one, 3));
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
    #[tokio::test]
    async fn a_session_that_holds_the_file_waits_for_no_turn() {
        let turns = Turns::default();
        let (file, two) = (InodeId(1), SessionId(2));
        let first = turns.place(file, SessionId(1)).turn().await;
        let mut again = Box::pin(turns.place(file, two).turn());
        let mut third = Box::pin(turns.place(file, SessionId(3)).turn());
        let mut cx = Context::from_waker(Waker::noop());
        assert!(again.as_mut().poll(&mut cx).is_pending());
        assert!(third.as_mut().poll(&mut cx).is_pending());
        turns.holds(file, two);
        assert!(again.await.is_none());
        assert!(third.as_mut().poll(&mut cx).is_pending());
        let late = turns.place(file, two);
        turns.holds(file, two);
        assert!(late.turn().await.is_none(), "it is told before it waits");
        drop(first);
        assert!(third.await.is_some());
    }
}
