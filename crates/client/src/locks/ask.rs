//! A question about locks, asked until it is answered whatever becomes of the caller: both sides then know the same.

use crate::answer;
use crate::limits::FREE_AGAIN;
use crate::service::Client;
use gupfs_proto::lock::{Ask, Extent, Holder, Order, Word};
use gupfs_proto::meta::{Answer, Op};
use gupfs_proto::{Caller, Refusal};
use std::sync::Arc;
use tokio::sync::oneshot;

impl Client {
    /// The request's number, and what was said to it. What was to be freed is asked for again until it is, or lost, also if the
    /// caller was told an error: he does not come back for it.
    pub(super) async fn ask_lock(
        self: &Arc<Self>,
        ask: impl Fn(Order) -> Ask,
    ) -> Result<(u64, Word), Refusal> {
        let (number, ask) = self.locks.number(ask).await;
        let client = self.clone();
        let (tell, told) = oneshot::channel();
        self.platform.tasks.spawn("ask about a lock", async move {
            let op = Op::Lock(ask);
            let answer = client.ask(&Caller::root(), op.clone()).await;
            let is_freed = is_over(&op, &answer);
            if is_freed {
                client.locks.answered(number);
            }
            // Nobody hears it if the caller is gone.
            let _ = tell.send(answer);
            if !is_freed {
                client.free_later(number, &op).await;
            }
        });
        let answer = told
            .await
            .unwrap_or_else(|ended| Err(Refusal::TimedOut(ended.to_string())));
        match answer {
            Ok(Answer::Lock(said)) => said.word.map(|word| (number, word)),
            Ok(_) => answer::unexpected("lock"),
            Err(Refusal::SessionEnded) => Err(Refusal::Stale),
            Err(refusal) => Err(refusal),
        }
    }

    async fn free_later(&self, number: u64, op: &Op) {
        loop {
            self.platform.clock.sleep(FREE_AGAIN).await;
            if !self.locks.is_open(number) {
                // It was asked in a session that is no more.
                return;
            }
            let answer = self.ask(&Caller::root(), op.clone()).await;
            if is_over(op, &answer) {
                return self.locks.answered(number);
            }
        }
    }

    pub(super) async fn free_lock(
        self: &Arc<Self>,
        holder: Holder,
        extent: Extent,
    ) -> Result<(), Refusal> {
        let free = |order| Ask::Free {
            order,
            holder,
            extent,
        };
        self.ask_lock(free).await.map(|_| ())
    }
}

/// Whether the server has done it, or will never.
fn is_over(op: &Op, answer: &Result<Answer, Refusal>) -> bool {
    let frees = matches!(op, Op::Lock(Ask::Free { .. } | Ask::Cancel { .. }));
    let lost = matches!(
        answer,
        Err(Refusal::SessionEnded | Refusal::Stale | Refusal::Malformed(_))
    );
    !frees || answer.is_ok() || lost
}
