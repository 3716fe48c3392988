//! One client's request, from its arrival to its reply.

use crate::core::Core;
use crate::drive::{AppliedOp, Requester};
use crate::stats::OpKind;
use crate::waits::{RequestOrigin, WaitReason};
use gupfs_namespace::Operation;
use gupfs_namespace::rights::OpenRights;
use gupfs_proto::meta::{self, AppliedChange, MetaReply, MetaReplyBody, MetaRequest};
use gupfs_proto::{FsError, Seq, SessionId};
use std::sync::atomic::Ordering::SeqCst;

impl Core {
    pub async fn handle_request(&self, request: MetaRequest) -> MetaReply {
        let _in_flight = InFlightRequest::enter(self);
        let begun = self.platform.clock.boot();
        let (mut seq, mut change) = (self.kv.committed_seq(), None);
        let outer_kind = OpKind::of(&request.op);
        let is_wrapped = matches!(request.op, meta::MetaOp::WithOpenCapability { .. });
        let (kind, result) = match self.unwrap_open_capabilities(request) {
            Ok((request, opens)) => {
                let kind = if is_wrapped {
                    OpKind::of(&request.op)
                } else {
                    outer_kind
                };
                (
                    kind,
                    self.execute(&request, &opens, &mut seq, &mut change).await,
                )
            }
            Err(error) => (outer_kind, Err(error)),
        };
        let took = self.platform.clock.boot().since(begun);
        self.stats.finished(kind, took, result.is_err());
        MetaReply {
            seq,
            durable: self.kv.durable_seq(),
            map_epoch: self.targets.epoch(),
            change: change.filter(|_| result.is_ok()),
            result,
        }
    }

    /// Sets `seq` to the newest batch that the reply, or the error, depends on; it is committed. Sets `change` to the change that
    /// the request made.
    async fn execute(
        &self,
        request: &MetaRequest,
        opens: &OpenRights,
        seq: &mut Seq,
        change: &mut Option<AppliedChange>,
    ) -> Result<MetaReplyBody, FsError> {
        if self.failure().is_some() || self.stopping.load(SeqCst) {
            return Err(self.not_serving_error());
        }
        let origin = RequestOrigin {
            session: request.session,
            op: request.op.name(),
        };
        self.check_instance(request)?;
        match &request.op {
            meta::MetaOp::Renew => {
                let session_capability = self.renew(request.session)?;
                return Ok(MetaReplyBody::Renewed { session_capability });
            }
            meta::MetaOp::Replay {
                instance: of,
                records,
                locks,
                last,
            } => {
                self.renew(request.session)?;
                Box::pin(self.reclaim_locks(request, opens, locks, *last)).await?;
                return Box::pin(self.replay_session(request.session, *of, records, *last)).await;
            }
            _ => self.wait_for_grace(origin).await?,
        }
        if let meta::MetaOp::IssueCapability { ino, .. } = &request.op {
            return self.issue_capability(request, opens, *ino).await;
        }
        let newest = self.kv.last_seq();
        if request.last_seen > newest {
            return Err(FsError::StoreFailed(format!(
                "the client has seen change {}, but the log ends at {newest}: the store lost changes",
                request.last_seen
            )));
        }
        match &request.op {
            meta::MetaOp::Sync { upto } => return self.sync(origin, *upto, newest).await,
            meta::MetaOp::Lock(lock_request) => {
                self.check_right(request.session, &request.caller, opens, &request.op)
                    .await?;
                return self.lock(origin, lock_request).await;
            }
            _ => {}
        }
        let requester = Requester {
            origin,
            is_server: false,
            slot_seq: request.slot_seq,
            caller: &request.caller,
            opens,
            replay: None,
        };
        if request.op.changes() {
            self.wait_index_caught_up(origin).await?;
        }
        let applied = self.drive_when_placeable(requester, request).await?;
        let mut cleanup = applied.ended_session.map(|session| SessionCleanup {
            core: self,
            session,
            is_done: false,
        });
        self.committed(origin, applied.seq).await?;
        *seq = applied.seq.max(*seq);
        *change = applied.change;
        if applied.used_callbacks {
            // Attribute reports that arrived meanwhile are committed, and the reply depends on them.
            *seq = self.kv.committed_seq().max(*seq);
        }
        let result = self.complete(origin, &request.op, applied, seq).await;
        if let Some(cleanup) = &mut cleanup {
            cleanup.is_done = true;
        }
        self.add_capabilities(request, result?)
    }

    /// Drives an operation. Does not fail for lack of space while no target's server has reported: after a start
    /// they report within a second or two. Nor if the operation chose among targets as they were before a report: placement
    /// learns of a report after its contents are durable.
    async fn drive_when_placeable(
        &self,
        requester: Requester<'_>,
        request: &MetaRequest,
    ) -> Result<AppliedOp, FsError> {
        let mut is_newest = false;
        loop {
            let applied = self
                .drive(requester, Operation::Client(&request.op))
                .await?;
            if !matches!(applied.result, Err(FsError::NoSpace)) {
                return Ok(applied);
            }
            if self.targets.is_waiting_for_first() {
                let usable = self.targets.wait_for_usable();
                self.waits
                    .wait(requester.origin, WaitReason::Targets, usable)
                    .await?;
                is_newest = false;
            } else if is_newest {
                return Ok(applied);
            } else {
                is_newest = true;
            }
            self.update_placement();
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
            self.renew(request.session)?;
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
        self.durable(origin, upto).await?;
        Ok(MetaReplyBody::Synced)
    }

    /// Completes what must happen besides the commit before the reply may leave.
    async fn complete(
        &self,
        origin: RequestOrigin,
        op: &meta::MetaOp,
        applied: AppliedOp,
        seq: &mut Seq,
    ) -> Result<MetaReplyBody, FsError> {
        // The new size is committed. If an OST keeps the truncate from being done, the requester gets the OST's error: the
        // promise stands, a background task completes it, and until then every use of the file's bytes fails with the same error.
        // A replay of the request comes here without the truncate and must find it.
        let truncate = match op {
            meta::MetaOp::Truncate { ino, .. } => {
                applied.truncate.or_else(|| self.pending_truncates.of(*ino))
            }
            _ => applied.truncate,
        };
        if let Some(truncate) = truncate {
            Box::pin(self.run_truncate(origin, truncate)).await?;
            // `seq` covers that it is done, too: a sync of what the client writes next must cover it, or the start after a power
            // loss would find the promise and truncate those bytes.
            *seq = self.kv.committed_seq().max(*seq);
        }
        if let Some(session) = applied.ended_session {
            Box::pin(self.clean_up_session(session)).await;
        }
        // A session that a power loss makes forgotten would get its number again for another client.
        let names_a_session = matches!(op, meta::MetaOp::OpenSession { .. }) && applied.changed;
        if applied.durable || names_a_session {
            self.durable(origin, applied.seq).await?;
        }
        applied.result
    }

    /// Why the server serves nothing.
    fn not_serving_error(&self) -> FsError {
        let why = self.failure().unwrap_or("the metadata server is stopped");
        FsError::StoreFailed(why.into())
    }
}

/// Cleans up after a session that has ended, also when its client disconnects before the reply.
struct SessionCleanup<'a> {
    core: &'a Core,
    session: SessionId,
    is_done: bool,
}

impl Drop for SessionCleanup<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            self.core
                .unfinished
                .add(self.session, &FsError::Interrupted);
        }
    }
}

/// Counts a request while it is in flight.
struct InFlightRequest<'a>(&'a Core);

impl InFlightRequest<'_> {
    fn enter(core: &Core) -> InFlightRequest<'_> {
        core.in_flight.fetch_add(1, SeqCst);
        InFlightRequest(core)
    }
}

impl Drop for InFlightRequest<'_> {
    fn drop(&mut self) {
        if self.0.in_flight.fetch_sub(1, SeqCst) == 1 && self.0.stopping.load(SeqCst) {
            self.0.drained.notify_waiters();
        }
    }
}
