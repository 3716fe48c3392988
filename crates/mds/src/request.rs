//! One client's request, from its arrival to its reply.

use crate::access_check::AccessCheck;
use crate::capability_replies::CapabilityReplies;
use crate::drive::OperationDriver;
use crate::grace::Grace;
use crate::in_flight::InFlightRequests;
use crate::locks::{LockService, ReclaimRefused};
use crate::origin::RequestOrigin;
use crate::osts::Targets;
use crate::pending_work::{PendingTruncates, UnfinishedWork};
use crate::placement::Placement;
use crate::replay::Replay;
use crate::serving::ServingState;
use crate::session_end::SessionEnd;
use crate::session_registry::SessionRegistry;
use crate::shard_driver::{AppliedOp, Requester};
use crate::stats::{MdsStats, OpKind};
use crate::store::MetadataStore;
use crate::truncates::TruncateRunner;
use crate::waits::{WaitList, WaitReason};
use gupfs_namespace::rights::{self, OpenRights};
use gupfs_platform::Clock;
use gupfs_proto::lock::AdvisoryLock;
use gupfs_proto::meta::{self, AppliedChange, MetaReply, MetaReplyBody, MetaRequest};
use gupfs_proto::{FsError, OwnerEpoch, Seq, SessionId};
use std::sync::Arc;

/// Handles the requests of clients.
pub struct RequestHandler {
    pub store: Arc<MetadataStore>,
    pub serving: Arc<ServingState>,
    pub in_flight: Arc<InFlightRequests>,
    pub waits: Arc<WaitList>,
    pub stats: Arc<MdsStats>,
    pub targets: Arc<Targets>,
    pub placement: Arc<Placement>,
    pub registry: Arc<SessionRegistry>,
    pub grace: Arc<Grace>,
    pub replay: Arc<Replay>,
    pub access: Arc<AccessCheck>,
    pub locks: Arc<LockService>,
    pub operations: Arc<OperationDriver>,
    pub truncates: Arc<TruncateRunner>,
    pub pending_truncates: Arc<PendingTruncates>,
    pub capability_replies: CapabilityReplies,
    pub session_end: Arc<SessionEnd>,
    pub unfinished: Arc<UnfinishedWork>,
    pub owner_epoch: OwnerEpoch,
    pub clock: Clock,
}

/// The position of a reply in the log.
struct ReplyPosition {
    /// The newest batch that the reply, or the error, depends on; it is committed.
    seq: Seq,
    /// The change that the request made.
    change: Option<AppliedChange>,
}

impl RequestHandler {
    pub async fn handle_request(&self, request: MetaRequest) -> MetaReply {
        let _in_flight = self.in_flight.enter();
        let begun = self.clock.boot();
        let mut position = ReplyPosition {
            seq: self.store.committed_seq(),
            change: None,
        };
        let outer_kind = OpKind::of(&request.op);
        let is_wrapped = matches!(request.op, meta::MetaOp::WithOpenCapability { .. });
        let (kind, result) = match self.access.unwrap_open_capabilities(request) {
            Ok((request, opens)) => {
                let kind = if is_wrapped {
                    OpKind::of(&request.op)
                } else {
                    outer_kind
                };
                (kind, self.execute(&request, &opens, &mut position).await)
            }
            Err(error) => (outer_kind, Err(error)),
        };
        let took = self.clock.boot().since(begun);
        self.stats.finished(kind, took, result.is_err());
        MetaReply {
            seq: position.seq,
            durable: self.store.durable_seq(),
            map_epoch: self.targets.epoch(),
            change: position.change.filter(|_| result.is_ok()),
            result,
        }
    }

    /// The reply to a request; sets its position in the log.
    async fn execute(
        &self,
        request: &MetaRequest,
        opens: &OpenRights,
        position: &mut ReplyPosition,
    ) -> Result<MetaReplyBody, FsError> {
        if self.store.failure().is_some() || self.serving.is_stopping() {
            return Err(self.not_serving_error());
        }
        let origin = RequestOrigin {
            session: request.session,
            op: request.op.name(),
        };
        self.check_instance(request)?;
        match &request.op {
            meta::MetaOp::Renew => {
                let session_capability = self.registry.renew(request.session)?;
                return Ok(MetaReplyBody::Renewed { session_capability });
            }
            meta::MetaOp::Replay {
                instance: of,
                records,
                locks,
                last,
            } => {
                self.registry.renew(request.session)?;
                Box::pin(self.reclaim_locks(request, opens, locks, *last)).await?;
                let replay = &self.replay;
                return Box::pin(replay.replay_session(request.session, *of, records, *last)).await;
            }
            _ => self.grace.wait(origin).await?,
        }
        if let meta::MetaOp::IssueCapability { ino, .. } = &request.op {
            let capabilities = &self.capability_replies;
            return capabilities.issue_capability(request, opens, *ino).await;
        }
        let newest = self.store.last_seq();
        if request.last_seen > newest {
            return Err(FsError::StoreFailed(format!(
                "the client has seen change {}, but the log ends at {newest}: the store lost changes",
                request.last_seen
            )));
        }
        match &request.op {
            meta::MetaOp::Sync { upto } => self.sync(origin, *upto, newest).await,
            meta::MetaOp::Lock(lock_request) => {
                self.access
                    .check_right(request.session, &request.caller, opens, &request.op)
                    .await?;
                self.locks.lock(origin, lock_request).await
            }
            _ => self.operate(request, opens, position).await,
        }
    }

    /// Executes an operation of the state machine.
    async fn operate(
        &self,
        request: &MetaRequest,
        opens: &OpenRights,
        position: &mut ReplyPosition,
    ) -> Result<MetaReplyBody, FsError> {
        let origin = RequestOrigin {
            session: request.session,
            op: request.op.name(),
        };
        if request.op.changes() {
            self.store.wait_index_caught_up(origin).await?;
        }
        let mut applied = self.drive_when_placeable(origin, request, opens).await?;
        let mut cleanup = applied.ended_session.map(|session| SessionCleanup {
            unfinished: &self.unfinished,
            session,
            is_done: false,
        });
        self.store.committed(origin, applied.seq).await?;
        position.seq = applied.seq.max(position.seq);
        position.change = applied.change;
        if applied.used_callbacks {
            // Attribute reports that arrived meanwhile are committed, and the reply depends on them.
            position.seq = self.store.committed_seq().max(position.seq);
        }
        let completed = self
            .complete(origin, &request.op, &mut applied, &mut position.seq)
            .await;
        if let Some(cleanup) = &mut cleanup {
            cleanup.is_done = true;
        }
        completed?;
        self.capability_replies
            .add_capabilities(request, applied.result?)
    }

    /// Reclaims a part of the locks that a reconnecting session held. Does nothing once the session has reclaimed all: it may
    /// have released some since.
    ///
    /// # Errors
    /// `SessionEnded`: another session holds a lock that this one reclaims; the server ends this session. `Denied`: the session
    /// does not prove that it has the file open.
    async fn reclaim_locks(
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
            let (ino, access) = (lock.holder.ino, rights::access_for_lock(lock));
            self.access
                .check_open(&request.caller, opens, ino, access)
                .await?;
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

    /// Drives an operation. Does not fail for lack of space while no target's server has reported: after a start
    /// they report within a second or two. Nor if the operation chose among targets as they were before a report: placement
    /// learns of a report after its contents are durable.
    async fn drive_when_placeable(
        &self,
        origin: RequestOrigin,
        request: &MetaRequest,
        opens: &OpenRights,
    ) -> Result<AppliedOp, FsError> {
        let requester = Requester {
            origin,
            is_server: false,
            slot_seq: request.slot_seq,
            caller: &request.caller,
            opens,
            replay: None,
        };
        let mut is_newest = false;
        loop {
            let applied = self.operations.drive(&requester, &request.op).await?;
            if !matches!(applied.result, Err(FsError::NoSpace)) {
                return Ok(applied);
            }
            if self.targets.is_waiting_for_first() {
                let usable = self.targets.wait_for_usable();
                self.waits.wait(origin, WaitReason::Targets, usable).await?;
                is_newest = false;
            } else if is_newest {
                return Ok(applied);
            } else {
                is_newest = true;
            }
            self.placement.update();
        }
    }

    /// A client's sequence numbers count in one instance of the server.
    fn check_instance(&self, request: &MetaRequest) -> Result<(), FsError> {
        let opens = matches!(request.op, meta::MetaOp::OpenSession { .. });
        if opens || request.instance == self.owner_epoch {
            return Ok(());
        }
        // A session that has reconnected, and waits for others that have not, is alive.
        if !self.grace.is_missing(request.session) {
            self.registry.renew(request.session)?;
        }
        Err(FsError::OtherInstance(self.owner_epoch))
    }

    async fn sync(
        &self,
        origin: RequestOrigin,
        upto: Seq,
        newest: Seq,
    ) -> Result<MetaReplyBody, FsError> {
        if upto > newest {
            return Err(FsError::Malformed(format!(
                "the request syncs up to change {upto}, but the newest is {newest}"
            )));
        }
        self.store.durable(origin, upto).await?;
        Ok(MetaReplyBody::Synced)
    }

    /// Completes what must happen besides the commit before the reply may leave.
    async fn complete(
        &self,
        origin: RequestOrigin,
        op: &meta::MetaOp,
        applied: &mut AppliedOp,
        seq: &mut Seq,
    ) -> Result<(), FsError> {
        // The new size is committed. If an OST keeps the truncate from being done, the requester gets the OST's error: the
        // promise stands, a background task completes it, and until then every use of the file's bytes fails with the same error.
        // A replay of the request comes here without the truncate and must find it.
        let truncate = match (applied.truncate.take(), op) {
            (None, meta::MetaOp::Truncate { ino, .. }) => self.pending_truncates.of(*ino),
            (truncate, _) => truncate,
        };
        if let Some(truncate) = truncate {
            Box::pin(self.truncates.run_truncate(origin, truncate)).await?;
            // `seq` covers that it is done, too: a sync of what the client writes next must cover it, or the start after a power
            // loss would find the promise and truncate those bytes.
            *seq = self.store.committed_seq().max(*seq);
        }
        if let Some(session) = applied.ended_session {
            Box::pin(self.session_end.clean_up_session(session)).await;
        }
        // A session that a power loss makes forgotten would get its number again for another client.
        let names_a_session = matches!(op, meta::MetaOp::OpenSession { .. }) && applied.changed;
        if applied.durable || names_a_session {
            self.store.durable(origin, applied.seq).await?;
        }
        Ok(())
    }

    /// Why the server serves nothing.
    fn not_serving_error(&self) -> FsError {
        let why = self
            .store
            .failure()
            .unwrap_or("the metadata server is stopped");
        FsError::StoreFailed(why.into())
    }
}

/// Cleans up after a session that has ended, also when its client disconnects before the reply.
struct SessionCleanup<'a> {
    unfinished: &'a UnfinishedWork,
    session: SessionId,
    is_done: bool,
}

impl Drop for SessionCleanup<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            self.unfinished.add(self.session, &FsError::Interrupted);
        }
    }
}
