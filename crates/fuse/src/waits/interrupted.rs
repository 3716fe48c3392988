//! Telling a waiting handler that its program got a signal.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::Waits;
use crate::Unique;

/// Ready when the program that waits for the answer got a signal. The request must still be answered: with EINTR, or
/// with whatever was done. A killed program cannot end before that.
///
/// Over io_uring the kernel forgets a signal that comes while the request is on its way into the ring: who may wait for ever
/// needs an end of its own besides.
pub struct Interrupted {
    unique: Unique,
    registry: Arc<Waits>,
    held: Option<u64>,
}

impl Interrupted {
    pub(crate) fn new(unique: Unique, registry: Arc<Waits>) -> Interrupted {
        Interrupted {
            unique,
            registry,
            held: None,
        }
    }
}

impl Future for Interrupted {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let mut shard = this.registry.shard(this.unique);
        let id = match this.held {
            Some(id) => id,
            None => {
                let slot = shard.hold(this.unique);
                let id = slot.next_waker;
                slot.next_waker += 1;
                *this.held.insert(id)
            }
        };
        let Some(slot) = shard.waiting.get_mut(&this.unique) else {
            unreachable!("a slot stays while someone holds it")
        };
        if slot.interrupted {
            return Poll::Ready(());
        }
        match slot.wakers.iter_mut().find(|(known, _)| *known == id) {
            Some((_, waker)) => waker.clone_from(context.waker()),
            None => slot.wakers.push((id, context.waker().clone())),
        }
        Poll::Pending
    }
}

impl Drop for Interrupted {
    fn drop(&mut self) {
        if let Some(id) = self.held {
            self.registry
                .shard(self.unique)
                .release(self.unique, Some(id));
        }
    }
}
