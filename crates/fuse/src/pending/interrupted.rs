//! Tells a waiting handler that the calling program received a signal.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::PendingRequests;
use crate::Unique;

/// Ready when the program that waits for the reply has received a signal. The handler must still reply: with EINTR, or with the
/// result of what was done. A killed program cannot exit before that.
///
/// Over io_uring the kernel drops a signal that arrives while the request is on its way into the ring: a handler that may wait
/// without bound needs another way to end.
pub struct Interrupted {
    unique: Unique,
    registry: Arc<PendingRequests>,
    waker_id: Option<u64>,
}

impl Interrupted {
    pub(crate) fn new(unique: Unique, registry: Arc<PendingRequests>) -> Interrupted {
        Interrupted {
            unique,
            registry,
            waker_id: None,
        }
    }
}

impl Future for Interrupted {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let mut shard = this.registry.shard(this.unique);
        let id = match this.waker_id {
            Some(id) => id,
            None => {
                let entry = shard.add_ref(this.unique);
                let id = entry.next_waker;
                entry.next_waker += 1;
                *this.waker_id.insert(id)
            }
        };
        let Some(entry) = shard.entries.get_mut(&this.unique) else {
            unreachable!("an entry exists while a reference to it exists")
        };
        if entry.interrupted {
            return Poll::Ready(());
        }
        match entry.wakers.iter_mut().find(|(known, _)| *known == id) {
            Some((_, waker)) => waker.clone_from(context.waker()),
            None => entry.wakers.push((id, context.waker().clone())),
        }
        Poll::Pending
    }
}

impl Drop for Interrupted {
    fn drop(&mut self) {
        if let Some(id) = self.waker_id {
            self.registry
                .shard(self.unique)
                .drop_ref(self.unique, Some(id));
        }
    }
}
