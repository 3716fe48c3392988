//! Replays changes in their order, with their first results.

use super::ReplayPosition;
use crate::core::Core;
use crate::drive::{ReplayContext, Requester};
use crate::waits::RequestOrigin;
use gupfs_namespace::rights::OpenRights;
use gupfs_namespace::{Operation, OriginalResult};
use gupfs_proto::meta::{self, ReplayRecord};
use gupfs_proto::{FsError, SessionId, wire};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering::Relaxed;

impl Core {
    /// Makes all changes again and durable; returns the sessions whose changes failed.
    ///
    /// # Errors
    /// `StoreFailed`.
    pub(super) async fn replay_all(
        &self,
        records: BTreeMap<ReplayPosition, ReplayRecord>,
    ) -> Result<BTreeSet<SessionId>, FsError> {
        let (mut failed, mut replayed) = (BTreeSet::new(), 0_u64);
        for ((_, seq, session), change) in records {
            match self.replay_one(session, change).await {
                Ok(changed) => replayed += u64::from(changed),
                Err(error @ FsError::StoreFailed(_)) => return Err(error),
                Err(error) => {
                    tracing::warn!(%session, %seq, %error, "the replay of a change that a power loss undid failed; the server ends the session");
                    failed.insert(session);
                }
            }
        }
        if replayed > 0 {
            tracing::warn!(
                replayed,
                "a power loss undid changes; the server replayed them from their clients' records"
            );
            self.stats.replayed_changes.store(replayed, Relaxed);
        }
        self.durable(RequestOrigin::server("replay"), self.kv.last_seq())
            .await?;
        Ok(failed)
    }

    /// Returns whether it changed anything: mostly the change was not lost.
    async fn replay_one(&self, session: SessionId, change: ReplayRecord) -> Result<bool, FsError> {
        let op =
            wire::decode_op(&change.op).map_err(|error| FsError::Malformed(error.to_string()))?;
        let (op, opens) = match op {
            meta::MetaOp::WithOpenCapability {
                open_capabilities,
                op,
            } => self.verify_open_capabilities(session, &open_capabilities, &op)?,
            op => (op, OpenRights::default()),
        };
        if !op.changes() {
            let why = format!(
                "a replay record has the operation {}, which changes nothing",
                op.name()
            );
            return Err(FsError::Malformed(why));
        }
        let recorded = OriginalResult {
            created: change.created,
            layout: change.layout,
        };
        let origin = RequestOrigin {
            session,
            op: op.name(),
        };
        let requester = Requester {
            origin,
            is_server: false,
            slot_seq: Some(change.slot_seq),
            caller: &change.caller,
            opens: &opens,
            replay: Some(ReplayContext {
                changed_at: change.change.at,
                recorded: &recorded,
            }),
        };
        let applied = self.drive(requester, Operation::Client(&op)).await?;
        if let Some(truncate) = applied.truncate
            && let Err(error) = self.run_truncate(origin, truncate).await
        {
            // The promise stands, and a background task completes it.
            tracing::info!(%session, %error, "a replayed truncate is delayed; a background task finishes it");
        }
        if let Some(session) = applied.ended_session {
            self.clean_up_session(session).await;
        }
        applied.result.map(|_| applied.changed)
    }
}
