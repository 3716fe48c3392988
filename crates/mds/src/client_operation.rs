//! One client's operation through the state machine, from its first attempt to its reply.

use crate::capability_replies::CapabilityReplies;
use crate::drive::OperationDriver;
use crate::origin::RequestOrigin;
use crate::osts::Targets;
use crate::pending_work::{PendingTruncates, UnfinishedWork};
use crate::placement::Placement;
use crate::session_end::SessionEnd;
use crate::shard_driver::{AppliedOp, ReplyLeases, Requester};
use crate::store::MetadataStore;
use crate::truncates::TruncateRunner;
use crate::waits::{WaitList, WaitReason};
use gupfs_namespace::rights::OpenRights;
use gupfs_proto::meta::{self, AppliedChange, MetaReplyBody, MetaRequest};
use gupfs_proto::{FsError, InodeId, Seq, SessionId};
use std::sync::Arc;

/// Executes the operations of clients that the state machine decides.
pub struct ClientOperations {
    pub store: Arc<MetadataStore>,
    pub driver: Arc<OperationDriver>,
    pub waits: Arc<WaitList>,
    pub targets: Arc<Targets>,
    pub placement: Arc<Placement>,
    pub truncates: Arc<TruncateRunner>,
    pub pending_truncates: Arc<PendingTruncates>,
    pub capability_replies: Arc<CapabilityReplies>,
    pub session_end: Arc<SessionEnd>,
    pub unfinished: Arc<UnfinishedWork>,
}

/// The position of a reply in the log.
pub struct ReplyPosition {
    /// The newest batch that the reply, or the error, depends on; it is committed.
    pub seq: Seq,
    /// The change that the request made.
    pub change: Option<AppliedChange>,
    /// What the session may remember of the reply.
    pub leases: ReplyLeases,
}

impl ClientOperations {
    /// See `ShardDriver::record_lock`.
    ///
    /// # Errors
    /// `SessionEnded`, or the error of the store.
    pub async fn record_lock(&self, origin: RequestOrigin, ino: InodeId) -> Result<(), FsError> {
        self.driver.record_lock(origin, ino).await
    }

    /// Executes an operation and completes what its reply promises; sets the position of the reply in the log.
    ///
    /// # Errors
    /// The error of the operation, of the store, or of an OST that the operation needs.
    pub async fn execute(
        &self,
        request: &MetaRequest,
        opens: &OpenRights,
        position: &mut ReplyPosition,
    ) -> Result<MetaReplyBody, FsError> {
        tracing::trace!(target: "walk", file = file!(), "execute");
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
        position.leases = std::mem::take(&mut applied.leases);
        self.capability_replies
            .add_capabilities(request, applied.result?)
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
            on_behalf_of: None,
            slot_seq: request.slot_seq,
            caller: &request.caller,
            opens,
            replay: None,
        };
        let mut is_newest = false;
        loop {
            let applied = self.driver.drive(&requester, &request.op).await?;
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

    /// Completes what must happen besides the commit before the reply may leave.
    async fn complete(
        &self,
        origin: RequestOrigin,
        op: &meta::MetaOp,
        applied: &mut AppliedOp,
        seq: &mut Seq,
    ) -> Result<(), FsError> {
        tracing::trace!(target: "walk", file = file!(), "complete");
        // The new size is committed. If an OST keeps the truncate from being done, the requester gets the OST's error: the
        // promise stands, a background task completes it, and until then every use of the file's bytes fails with the same error.
        // A replay of the request comes here without the truncate and must find it.
        let is_first_reply = applied.truncate.is_some();
        let truncate = match (applied.truncate.take(), op) {
            (None, meta::MetaOp::Truncate { ino, .. }) => self.pending_truncates.of(*ino),
            (truncate, _) => truncate,
        };
        if let Some(truncate) = truncate {
            Box::pin(self.truncates.run_truncate(origin, truncate)).await?;
            if is_first_reply
                && let Some(seen) = self.driver.lease_truncated(origin.session, applied)
            {
                self.store.committed(origin, seen).await?;
            }
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
            let change = applied.change.map_or(applied.seq, |change| change.seq);
            let upto = applied.seq.max(change);
            self.store.durable(origin, upto).await?;
        }
        Ok(())
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
