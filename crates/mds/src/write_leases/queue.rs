//! Queue of requests that need another session's write lease released. First in, first out.
//!
//! Without the queue, two sessions that write the same file alternately could take the lease from each other again and again,
//! past a third.
//!
//! A request that a client sends again after its connection broke waits behind its first copy. When the first copy has obtained
//! the lease for the session, the second must not wait in the queue: the next request in the queue has the lease revoked from
//! this session, and the session's client answers that callback after its own request.

use gupfs_proto::{InodeId, SessionId};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::{Notify, OwnedMutexGuard};

#[derive(Default)]
pub struct LeaseQueues(Mutex<BTreeMap<InodeId, LeaseQueue>>);

/// A fair lock, with the requests that hold it or wait for it.
#[derive(Default)]
struct LeaseQueue {
    lock: Arc<tokio::sync::Mutex<()>>,
    requests: BTreeMap<u64, (SessionId, Arc<Notify>)>,
    next: u64,
}

impl LeaseQueues {
    /// Whether a request holds or awaits the queue of this file.
    pub fn has_waiters(&self, ino: InodeId) -> bool {
        self.0.lock().contains_key(&ino)
    }

    /// Joins the queue for this file.
    pub fn enqueue(&self, ino: InodeId, session: SessionId) -> QueueTicket<'_> {
        tracing::trace!(target: "walk", file = file!(), "enqueue");
        let granted = Arc::<Notify>::default();
        let mut queues = self.0.lock();
        let queue = queues.entry(ino).or_default();
        queue.next += 1;
        queue
            .requests
            .insert(queue.next, (session, granted.clone()));
        QueueTicket {
            queues: self,
            ino,
            number: queue.next,
            lock: queue.lock.clone(),
            lease_granted: granted,
        }
    }

    /// The session has obtained the lease: none of its requests waits in the queue any more.
    pub fn lease_granted(&self, ino: InodeId, session: SessionId) {
        if let Some(queue) = self.0.lock().get(&ino) {
            let of_session = queue.requests.values().filter(|(of, _)| *of == session);
            // Also for a request that begins its wait later.
            of_session.for_each(|(_, granted)| granted.notify_one());
        }
    }
}

/// A request's position in the queue; dropping it leaves the queue.
pub struct QueueTicket<'a> {
    queues: &'a LeaseQueues,
    ino: InodeId,
    number: u64,
    lock: Arc<tokio::sync::Mutex<()>>,
    lease_granted: Arc<Notify>,
}

impl<'a> QueueTicket<'a> {
    /// Waits for the head of the queue; None if the session obtains the lease before.
    pub async fn acquire(self) -> Option<QueueGuard<'a>> {
        let head = tokio::select! {
            biased;
            head = self.lock.clone().lock_owned() => head,
            () = self.lease_granted.notified() => return None,
        };
        Some(QueueGuard {
            ticket: self,
            _held: head,
        })
    }
}

impl Drop for QueueTicket<'_> {
    fn drop(&mut self) {
        let mut queues = self.queues.0.lock();
        if let Some(queue) = queues.get_mut(&self.ino) {
            queue.requests.remove(&self.number);
            if queue.requests.is_empty() {
                queues.remove(&self.ino);
            }
        }
    }
}

/// The head of the queue, until this is dropped.
pub struct QueueGuard<'a> {
    ticket: QueueTicket<'a>,
    _held: OwnedMutexGuard<()>,
}

impl QueueGuard<'_> {
    pub fn ino(&self) -> InodeId {
        self.ticket.ino
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::{Context, Waker};

    #[tokio::test]
    async fn the_queue_is_in_order_and_skips_dropped_requests() {
        let queues = LeaseQueues::default();
        let (one, two) = (InodeId(1), InodeId(2));
        let take = |ino, session| queues.enqueue(ino, SessionId(session)).acquire();
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
            "the second request comes first"
        );
        drop(second);
        let third = third.await;
        assert!(queues.has_waiters(one));
        drop(third);
        assert!(!queues.has_waiters(one) && queues.has_waiters(two));
    }

    #[tokio::test]
    async fn a_session_with_the_lease_does_not_wait_in_the_queue() {
        let queues = LeaseQueues::default();
        let (file, two) = (InodeId(1), SessionId(2));
        let first = queues.enqueue(file, SessionId(1)).acquire().await;
        let mut repeated = Box::pin(queues.enqueue(file, two).acquire());
        let mut third = Box::pin(queues.enqueue(file, SessionId(3)).acquire());
        let mut cx = Context::from_waker(Waker::noop());
        assert!(repeated.as_mut().poll(&mut cx).is_pending());
        assert!(third.as_mut().poll(&mut cx).is_pending());
        queues.lease_granted(file, two);
        assert!(repeated.await.is_none());
        assert!(third.as_mut().poll(&mut cx).is_pending());
        let late = queues.enqueue(file, two);
        queues.lease_granted(file, two);
        assert!(
            late.acquire().await.is_none(),
            "the grant came before the wait"
        );
        drop(first);
        assert!(third.await.is_some());
    }
}
