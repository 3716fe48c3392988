//! What sessions bring back after a start: the locks that they held, and their records of changes that a power loss undid. The
//! changes are replayed in their order, with their first results, once the grace has all records (`grace`).

use crate::access_check::AccessCheck;
use crate::callback::CallbackTable;
use crate::drive::OperationDriver;
use crate::grace::{Grace, ReplayPosition};
use crate::locks::{LockService, ReclaimRefused};
use crate::origin::RequestOrigin;
use crate::session_end::SessionEnd;
use crate::session_registry::SessionRegistry;
use crate::shard_driver::{ReplayContext, Requester};
use crate::stats::MdsStats;
use crate::store::MetadataStore;
use crate::truncates::TruncateRunner;
use gupfs_namespace::OriginalResult;
use gupfs_namespace::rights::OpenRights;
use gupfs_proto::lock::AdvisoryLock;
use gupfs_proto::meta::{self, MetaReplyBody, MetaRequest, ReplayRecord};
use gupfs_proto::operations::access_for_lock;
use gupfs_proto::{FsError, InodeId, OwnerEpoch, SessionId, wire};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

pub struct Replay {
    store: Arc<MetadataStore>,
    grace: Arc<Grace>,
    callbacks: Arc<CallbackTable>,
    registry: Arc<SessionRegistry>,
    access: Arc<AccessCheck>,
    locks: Arc<LockService>,
    operations: Arc<OperationDriver>,
    truncates: Arc<TruncateRunner>,
    session_end: Arc<SessionEnd>,
    stats: Arc<MdsStats>,
}

/// What `Replay` uses of the server.
pub struct ReplayParts {
    pub store: Arc<MetadataStore>,
    pub grace: Arc<Grace>,
    pub callbacks: Arc<CallbackTable>,
    pub registry: Arc<SessionRegistry>,
    pub access: Arc<AccessCheck>,
    pub locks: Arc<LockService>,
    pub operations: Arc<OperationDriver>,
    pub truncates: Arc<TruncateRunner>,
    pub session_end: Arc<SessionEnd>,
    pub stats: Arc<MdsStats>,
}

impl Replay {
    pub fn new(parts: ReplayParts) -> Replay {
        Replay {
            store: parts.store,
            grace: parts.grace,
            callbacks: parts.callbacks,
            registry: parts.registry,
            access: parts.access,
            locks: parts.locks,
            operations: parts.operations,
            truncates: parts.truncates,
            session_end: parts.session_end,
            stats: parts.stats,
        }
    }

    /// Reclaims a part of the locks that a reconnecting session held. Does nothing once the session has reclaimed all: it may
    /// have released some since.
    ///
    /// # Errors
    /// `SessionEnded`: another session holds a lock that this one reclaims; the server ends this session. `Denied`: the session
    /// does not prove that it has the file open.
    pub async fn reclaim_locks(
        &self,
        request: &MetaRequest,
        opens: &OpenRights,
        locks: &[AdvisoryLock],
        last: bool,
    ) -> Result<(), FsError> {
        let session = request.session;
        if !self.locks.awaits_reclaim(session) {
            return Ok(());
        }
        for lock in locks {
            let (ino, access) = (lock.holder.ino, access_for_lock(lock));
            self.access
                .check_open(&request.caller, opens, ino, access)
                .await?;
        }
        // The former owner may not have recorded them.
        let origin = RequestOrigin {
            session,
            op: "reclaim",
        };
        let locked: BTreeSet<InodeId> = locks.iter().map(|lock| lock.holder.ino).collect();
        for ino in locked {
            self.operations.record_lock(origin, ino).await?;
        }
        match self.locks.reclaim(session, locks, last) {
            Ok(()) => Ok(()),
            Err(ReclaimRefused::SessionEnded) => Err(FsError::SessionEnded),
            Err(ReclaimRefused::Impossible(why)) => {
                tracing::error!(%session, why, "a session reclaims a lock that it cannot hold; the server ends the session");
                self.session_end.end_by_server(session).await;
                Err(FsError::SessionEnded)
            }
        }
    }

    /// Takes a part of a session's changes. After the last part, returns when the grace is over and all changes are durable.
    ///
    /// # Errors
    /// `SessionEnded` if the replay of one of its changes failed; `Malformed` for changes of another shard group.
    pub async fn replay_session(
        &self,
        session: SessionId,
        of: OwnerEpoch,
        records: &[ReplayRecord],
        last: bool,
    ) -> Result<MetaReplyBody, FsError> {
        self.registry.renew(session)?;
        if of.group() != session.group() {
            return Err(FsError::Malformed(format!(
                "{session:?} replays changes of {of:?}, the owner of another shard group"
            )));
        }
        if last {
            // Its client drops its leases before it replays.
            self.registry.note_returned(session);
        }
        // It is over if the session asks again; or it never began, because the former owner stopped in order, with everything
        // durable.
        if self.grace.is_over() {
            return Ok(MetaReplyBody::Done);
        }
        self.grace.add_records(session, of, records)?;
        if !last {
            return Ok(MetaReplyBody::Done);
        }
        self.grace.remove_missing(session);
        let origin = RequestOrigin {
            session,
            op: "return",
        };
        self.grace.wait(origin).await?;
        self.registry.renew(session).map(|_| MetaReplyBody::Done)
    }

    /// Waits for all expected sessions, replays their changes, and ends the grace.
    pub async fn finish_grace(&self) {
        self.grace.wait_for_sessions(&self.callbacks).await;
        let records = self.grace.take_records();
        match self.replay_all(records).await {
            Ok(failed) => {
                for session in failed {
                    self.session_end.end_by_server(session).await;
                }
                self.grace.end();
                tracing::info!(
                    "every session has reconnected or ended; the server serves all requests"
                );
            }
            // Only if the store failed: then the server serves nothing any more.
            Err(error) => tracing::error!(%error, "the replay of changes failed"),
        }
    }

    /// Makes all changes again and durable; returns the sessions whose changes failed.
    ///
    /// # Errors
    /// `StoreFailed`.
    async fn replay_all(
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
        self.store
            .durable(RequestOrigin::server("replay"), self.store.last_seq())
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
            } => self
                .access
                .verify_open_capabilities(session, &open_capabilities, &op)?,
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
            on_behalf_of: None,
            slot_seq: Some(change.slot_seq),
            caller: &change.caller,
            opens: &opens,
            replay: Some(ReplayContext {
                changed_at: change.change.at,
                recorded: &recorded,
            }),
        };
        let applied = self.operations.drive(&requester, &op).await?;
        if let Some(truncate) = applied.truncate
            && let Err(error) = self.truncates.run_truncate(origin, truncate).await
        {
            // The promise stands, and a background task completes it.
            tracing::info!(%session, %error, "a replayed truncate is delayed; a background task finishes it");
        }
        if let Some(session) = applied.ended_session {
            self.session_end.clean_up_session(session).await;
        }
        applied.result.map(|_| applied.changed)
    }
}
