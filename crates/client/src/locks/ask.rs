//! A question about locks, asked until it is answered whatever becomes of the caller: both sides then know the same.

use crate::answer;
use crate::service::Client;
use gupfs_proto::lock::{Ask, Extent, Holder, Order, Word};
use gupfs_proto::meta::{Answer, Op};
use gupfs_proto::{Caller, Refusal};
use std::sync::Arc;

impl Client {
    /// The request's number, and what was said to it.
    pub(super) async fn ask_lock(
        self: &Arc<Self>,
        ask: impl Fn(Order) -> Ask,
    ) -> Result<(u64, Word), Refusal> {
        let (number, ask) = self.locks.number(ask).await;
        let client = self.clone();
        let asked = self.world.tasks.spawn("ask about a lock", async move {
            let answer = client.ask(&Caller::root(), Op::Lock(ask)).await;
            client.locks.answered(number);
            answer
        });
        let answer = asked
            .await
            .unwrap_or_else(|ended| Err(Refusal::TimedOut(ended.to_string())));
        match answer {
            Ok(Answer::Lock(said)) => said.word.map(|word| (number, word)),
            Ok(_) => answer::unexpected("lock"),
            Err(Refusal::SessionEnded) => Err(Refusal::Stale),
            Err(refusal) => Err(refusal),
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
