//! Making changes again, in their order, as they were.

use super::Place;
use crate::core::Core;
use crate::drive::{Asker, Before};
use crate::waits::Who;
use gupfs_namespace::rights::Opens;
use gupfs_namespace::{Again, Op};
use gupfs_proto::meta::{self, Kept};
use gupfs_proto::{Refusal, SessionId, wire};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering::Relaxed;

impl Core {
    /// Makes all of them durable; returns whose changes could not be made.
    ///
    /// # Errors
    /// `StoreFailed`.
    pub(super) async fn make_again(
        &self,
        kept: BTreeMap<Place, Kept>,
    ) -> Result<BTreeSet<SessionId>, Refusal> {
        let (mut failed, mut made) = (BTreeSet::new(), 0_u64);
        for ((_, seq, session), change) in kept {
            match self.make_one_again(session, change).await {
                Ok(changed) => made += u64::from(changed),
                Err(refusal @ Refusal::StoreFailed(_)) => return Err(refusal),
                Err(refusal) => {
                    tracing::warn!(%session, %seq, %refusal, "a change that a power cut undid could not be made again");
                    failed.insert(session);
                }
            }
        }
        if made > 0 {
            tracing::warn!(
                made,
                "a power cut undid changes; their clients had kept them, and they are made again"
            );
            self.stats.made_again.store(made, Relaxed);
        }
        self.durable(Who::own("changes said again"), self.kv.last_seq())
            .await?;
        Ok(failed)
    }

    /// Whether it changed anything: mostly it was not lost.
    async fn make_one_again(&self, session: SessionId, change: Kept) -> Result<bool, Refusal> {
        let op = wire::op_of(&change.op).map_err(|error| Refusal::Malformed(error.to_string()))?;
        let (op, opens) = match op {
            meta::Op::Proven { proofs, op } => self.proven(session, &proofs, &op)?,
            op => (op, Opens::default()),
        };
        if !op.changes() {
            let why = format!("{} changes nothing that could be said again", op.name());
            return Err(Refusal::Malformed(why));
        }
        let again = Again {
            made: change.made,
            layout: change.layout,
        };
        let who = Who {
            session,
            op: op.name(),
        };
        let asker = Asker {
            who,
            own: false,
            lane: Some(change.lane),
            caller: &change.caller,
            opens: &opens,
            before: Some(Before {
                at: change.change.at,
                again: &again,
            }),
        };
        let applied = self.drive(asker, Op::Client(&op)).await?;
        if let Some(cut) = applied.cut
            && let Err(refusal) = self.carry_out(who, cut).await
        {
            // The promise stands, and a chore keeps it.
            tracing::info!(%session, %refusal, "a cut that was promised again is done later");
        }
        if let Some(session) = applied.ended {
            self.end_session(session).await;
        }
        applied.answer.map(|_| applied.changed)
    }
}
