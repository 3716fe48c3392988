//! Lock requests. Each runs on its own task until it is answered, even if the caller is dropped, so that client and server agree
//! on its outcome.

use super::Locks;
use crate::limits::UNLOCK_RETRY_PAUSE;
use crate::reply;
use gupfs_platform::CurrentCall;
use gupfs_proto::lock::{LockHolder, LockOutcome, LockRange, LockRequest, LockSeq};
use gupfs_proto::meta::{MetaOp, MetaReplyBody};
use gupfs_proto::{Caller, FsError};
use std::sync::Arc;
use tokio::sync::oneshot;

impl Locks {
    /// Sends a lock request; returns its number and outcome. A request that frees locks is repeated until they are freed or lost,
    /// also if the caller has got an error, because no caller retries it.
    pub(super) async fn request_lock(
        self: &Arc<Self>,
        request: impl Fn(LockSeq) -> LockRequest,
    ) -> Result<(u64, LockOutcome), FsError> {
        let (number, request) = self.table.register(request).await;
        let locks = self.clone();
        let (reply_tx, reply_rx) = oneshot::channel();
        let asking = CurrentCall::inherit(async move {
            let op = MetaOp::Lock(request);
            let reply = locks.mds.call(&Caller::root(), op.clone()).await;
            let is_freed = is_final(&op, &reply);
            if is_freed {
                locks.table.finish(number);
            }
            // Fails if the caller was dropped.
            let _ = reply_tx.send(reply);
            if !is_freed {
                locks.retry_free(number, &op).await;
            }
        });
        self.platform.tasks.spawn("send a lock request", asking);
        let reply = reply_rx
            .await
            .unwrap_or_else(|ended| Err(FsError::TimedOut(ended.to_string())));
        match reply {
            Ok(MetaReplyBody::Lock(reply)) => reply.outcome.map(|outcome| (number, outcome)),
            Ok(_) => reply::unexpected("lock"),
            Err(FsError::SessionEnded) => Err(FsError::Stale),
            Err(error) => Err(error),
        }
    }

    async fn retry_free(&self, number: u64, op: &MetaOp) {
        loop {
            self.platform.clock.sleep(UNLOCK_RETRY_PAUSE).await;
            if !self.table.is_pending(number) {
                // The session of the request has ended.
                return;
            }
            let reply = self.mds.call(&Caller::root(), op.clone()).await;
            if is_final(op, &reply) {
                return self.table.finish(number);
            }
        }
    }

    pub(super) async fn free_lock(
        self: &Arc<Self>,
        holder: LockHolder,
        range: LockRange,
    ) -> Result<(), FsError> {
        let free = |seq| LockRequest::Release { seq, holder, range };
        self.request_lock(free).await.map(|_| ())
    }
}

/// Whether the server has done the request, or never will.
fn is_final(op: &MetaOp, reply: &Result<MetaReplyBody, FsError>) -> bool {
    let frees = matches!(
        op,
        MetaOp::Lock(LockRequest::Release { .. } | LockRequest::Cancel { .. })
    );
    let lost = matches!(
        reply,
        Err(FsError::SessionEnded | FsError::Stale | FsError::Malformed(_))
    );
    !frees || reply.is_ok() || lost
}
