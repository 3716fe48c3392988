//! What becomes of a request that was not answered by the thread that read it.

use std::sync::Arc;

use crate::answer::Answer;
use crate::op::{self, FileLock, LockKind};
use crate::waits::{Order, Undo, Waiting};
use crate::wire::{Groups, LockFlags, ReleaseFlags};
use crate::{Call, FileSystem, Handle, LockOwner, NodeId};

use super::{Lane, Work};

impl<F: FileSystem> Lane<F> {
    /// Waits until the handler may begin, runs it to its end, and answers, or takes back what nobody got.
    pub(super) async fn finish(self: Arc<Self>, work: Work, waiting: Waiting) {
        if !waiting.may_begin().await {
            return;
        }
        let answer = work.await;
        match (waiting.take_ticket(), waiting.order()) {
            (Some(ticket), _) => ticket.answer(answer),
            (None, Some(order)) => self.undo(&order, &answer).await,
            (None, None) => {}
        }
    }

    /// The kernel has had another answer: what this one would have handed out goes back at once.
    async fn undo(&self, order: &Order, answer: &Answer) {
        if answer.is_error() {
            return;
        }
        match order.undo {
            Undo::Nothing => {}
            Undo::Entry => self.forget(vec![answer.first_node()]).await,
            Undo::Listing => self.forget(answer.listed_nodes()).await,
            Undo::Opened { directory, flags } => {
                let handle = answer.opened_handle();
                self.release(order, order.header.node, directory, handle, flags)
                    .await;
            }
            Undo::Created { flags } => {
                let (node, handle) = (answer.first_node(), answer.created_handle());
                self.release(order, node, false, handle, flags).await;
                self.forget(vec![node]).await;
            }
            Undo::Lock(lock) => {
                let kind = LockKind::Unlock;
                let lock = op::Lock {
                    lock: FileLock { kind, ..lock.lock },
                    flags: lock.flags & LockFlags::FLOCK,
                    ..lock
                };
                let call = self.call(order, order.header.node);
                let _ = self.fs.setlk(call, lock).await;
            }
        }
    }

    async fn forget(&self, nodes: Vec<NodeId>) {
        let given = nodes.into_iter().filter(|node| *node != NodeId::NONE);
        let batch: Vec<_> = given.map(|node| op::Forget { node, lookups: 1 }).collect();
        if !batch.is_empty() {
            self.fs.forget(batch).await;
        }
    }

    async fn release(
        &self,
        order: &Order,
        node: NodeId,
        directory: bool,
        fh: Handle,
        open_flags: u32,
    ) {
        let release = op::Release {
            fh,
            open_flags,
            flags: ReleaseFlags::empty(),
            lock_owner: LockOwner(0),
        };
        let call = self.call(order, node);
        // As with every release, nobody can be told of an error.
        let _ = match directory {
            true => self.fs.releasedir(call, release).await,
            false => self.fs.release(call, release).await,
        };
    }

    /// On behalf of who had asked.
    fn call(&self, order: &Order, node: NodeId) -> Call {
        let mut header = order.header;
        header.node = node;
        Call::new(&header, Groups::new(), self.desk.kit.clone(), None)
    }
}
