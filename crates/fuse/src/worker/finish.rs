//! Finishes a request whose handler was pending at its first poll.

use std::sync::Arc;

use crate::op::{self, FileLock, LockKind};
use crate::pending::{PendingGuard, RequestOrder, Undo};
use crate::reply::Reply;
use crate::wire::{Groups, LockFlags, ReleaseFlags};
use crate::{Call, FileHandle, FileSystem, LockOwner, NodeId};

use super::{ReplyFuture, Worker};

impl<F: FileSystem> Worker<F> {
    /// Waits until the handler may begin, runs it to its end, and sends the reply. If the kernel has already had an early
    /// reply, undoes what the handler's result gives out.
    pub(super) async fn finish(self: Arc<Self>, handler: ReplyFuture, guard: PendingGuard) {
        if !guard.wait_to_begin().await {
            return;
        }
        let reply = handler.await;
        match (guard.take_responder(), guard.order()) {
            (Some(responder), _) => responder.reply(reply),
            (None, Some(order)) => self.undo_reply(&order, &reply).await,
            (None, None) => {}
        }
    }

    /// The kernel has had another reply: releases at once the lookup reference, open handle or lock that this reply would have
    /// given out.
    async fn undo_reply(&self, order: &RequestOrder, reply: &Reply) {
        if reply.is_error() {
            return;
        }
        match order.undo {
            Undo::Nothing => {}
            Undo::Entry => self.forget_nodes(vec![reply.first_node()]).await,
            Undo::Listing => self.forget_nodes(reply.listed_nodes()).await,
            Undo::Opened { directory, flags } => {
                let handle = reply.opened_handle();
                self.release_handle(order, order.header.node, directory, handle, flags)
                    .await;
            }
            Undo::Created { flags } => {
                let (node, handle) = (reply.first_node(), reply.created_handle());
                self.release_handle(order, node, false, handle, flags).await;
                self.forget_nodes(vec![node]).await;
            }
            Undo::Lock(lock) => {
                let kind = LockKind::Unlock;
                let lock = op::Lock {
                    lock: FileLock { kind, ..lock.lock },
                    flags: lock.flags & LockFlags::FLOCK,
                    ..lock
                };
                let call = self.call_for(order, order.header.node);
                let _ = self.fs.setlk(call, lock).await;
            }
        }
    }

    async fn forget_nodes(&self, nodes: Vec<NodeId>) {
        let referenced = nodes.into_iter().filter(|node| *node != NodeId::NONE);
        let batch: Vec<_> = referenced
            .map(|node| op::Forget { node, lookups: 1 })
            .collect();
        if !batch.is_empty() {
            self.fs.forget(batch).await;
        }
    }

    async fn release_handle(
        &self,
        order: &RequestOrder,
        node: NodeId,
        directory: bool,
        fh: FileHandle,
        open_flags: u32,
    ) {
        let release = op::Release {
            fh,
            open_flags,
            flags: ReleaseFlags::empty(),
            lock_owner: LockOwner(0),
        };
        let call = self.call_for(order, node);
        // As with every RELEASE, no program receives the error.
        let _ = match directory {
            true => self.fs.releasedir(call, release).await,
            false => self.fs.release(call, release).await,
        };
    }

    /// A call with the credentials of the original request.
    fn call_for(&self, order: &RequestOrder, node: NodeId) -> Call {
        let mut header = order.header;
        header.node = node;
        Call::new(&header, Groups::new(), self.call_context.clone(), None)
    }
}
