//! One client's request, from its arrival to its reply.

use crate::access_check::AccessCheck;
use crate::capability_replies::CapabilityReplies;
use crate::client_operation::{ClientOperations, ReplyPosition};
use crate::grace::Grace;
use crate::in_flight::InFlightRequests;
use crate::limits::CONVERSION_WAIT;
use crate::locks::LockService;
use crate::metadata_leases::LeaseService;
use crate::origin::RequestOrigin;
use crate::osts::Targets;
use crate::pending_work::ConversionQueue;
use crate::replay::Replay;
use crate::serving::ServingState;
use crate::session_registry::SessionRegistry;
use crate::shard_driver::ReplyLeases;
use crate::stats::{MdsStats, OpKind};
use crate::store::MetadataStore;
use gupfs_accounting::{FinishedCall, JobTable};
use gupfs_namespace::rights::OpenRights;
use gupfs_platform::Clock;
use gupfs_proto::jobs::{CallClass, JobKey};
use gupfs_proto::layout::ConversionState;
use gupfs_proto::lease::LeaseReply;
use gupfs_proto::lock::LockRequest;
use gupfs_proto::meta::{self, MetaReply, MetaReplyBody, MetaRequest};
use gupfs_proto::{FsError, InodeId, JobId, OwnerEpoch, Seq, wire};
use std::sync::Arc;

/// Handles the requests of clients.
pub struct RequestHandler {
    pub store: Arc<MetadataStore>,
    pub serving: Arc<ServingState>,
    pub in_flight: Arc<InFlightRequests>,
    pub stats: Arc<MdsStats>,
    pub targets: Arc<Targets>,
    pub registry: Arc<SessionRegistry>,
    pub grace: Arc<Grace>,
    pub replay: Arc<Replay>,
    pub access: Arc<AccessCheck>,
    pub locks: Arc<LockService>,
    pub leases: Arc<LeaseService>,
    pub operations: ClientOperations,
    pub capability_replies: Arc<CapabilityReplies>,
    pub conversions: Arc<ConversionQueue>,
    pub owner_epoch: OwnerEpoch,
    pub jobs: Arc<JobTable>,
    pub clock: Clock,
}

impl RequestHandler {
    pub async fn handle_request(&self, request: MetaRequest) -> MetaReply {
        tracing::trace!(target: "walk", file = file!(), "handle_request");
        let _in_flight = self.in_flight.enter();
        let begun = self.clock.boot();
        let mut position = ReplyPosition {
            seq: self.store.committed_seq(),
            change: None,
            leases: ReplyLeases::default(),
        };
        let (key, mut bytes_written) = (job_key(&request), request.op.bytes_written());
        let mut class = request.op.class();
        let outer_kind = OpKind::of(&request.op);
        let is_wrapped = matches!(request.op, meta::MetaOp::WithOpenCapability { .. });
        let (kind, result) = match self.access.unwrap_open_capabilities(request) {
            Ok((request, opens)) => {
                let kind = if is_wrapped {
                    (class, bytes_written) = (request.op.class(), request.op.bytes_written());
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
        // What a client does for itself, between the calls of programs.
        if key.job != JobId::UNKNOWN || class != CallClass::Client {
            self.jobs.count(FinishedCall {
                key,
                class,
                ost: None,
                has_failed: result.is_err(),
                bytes_read: result.as_ref().map_or(0, inline_bytes),
                bytes_written: if result.is_ok() { bytes_written } else { 0 },
                took,
            });
        }
        let change = position.change.filter(|_| result.is_ok());
        MetaReply {
            seq: position.seq,
            durable: self.store.durable_seq(),
            map_epoch: self.targets.epoch(),
            change,
            result: with_leases(result, position.leases),
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
                let replay = &self.replay;
                Box::pin(replay.reclaim_locks(request, opens, locks, *last)).await?;
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
            meta::MetaOp::NameJobs { labels } => {
                self.jobs.add_labels(labels.clone());
                Ok(MetaReplyBody::Done)
            }
            meta::MetaOp::AcceptLeases => self.leases.accept(request.session),
            meta::MetaOp::Lock(lock_request) => {
                self.access
                    .check_right(request.session, &request.caller, opens, &request.op)
                    .await?;
                if let LockRequest::Acquire { lock, .. } = lock_request {
                    let ino = lock.holder.ino;
                    self.operations.record_lock(origin, ino).await?;
                }
                self.locks.lock(origin, lock_request).await
            }
            meta::MetaOp::ConvertLayout { ino, .. } => {
                let decided = self.operations.execute(request, opens, position).await?;
                self.convert(*ino, decided).await
            }
            _ => self.operations.execute(request, opens, position).await,
        }
    }

    /// Has a file converted, if the state machine has decided that it needs that; replies how far it is after a moment.
    async fn convert(
        &self,
        ino: InodeId,
        decided: MetaReplyBody,
    ) -> Result<MetaReplyBody, FsError> {
        let MetaReplyBody::Conversion(ConversionState::Needed(layout)) = decided else {
            return Ok(decided);
        };
        let queue = &self.conversions;
        let state = queue.convert(ino, layout, &self.clock, CONVERSION_WAIT);
        Ok(MetaReplyBody::Conversion(state.await))
    }

    /// A client's sequence numbers count in one instance of the server.
    fn check_instance(&self, request: &MetaRequest) -> Result<(), FsError> {
        let opens = matches!(request.op, meta::MetaOp::OpenSession { .. });
        if opens || request.instance == self.owner_epoch {
            return Ok(());
        }
        if request.session.group() != self.owner_epoch.group() {
            // This owner knows nothing of the session, not even whether it has ended.
            return Err(FsError::OtherInstance(self.owner_epoch));
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
        tracing::trace!(target: "walk", file = file!(), "sync");
        if upto > newest {
            return Err(FsError::Malformed(format!(
                "the request syncs up to change {upto}, but the newest is {newest}"
            )));
        }
        self.store.durable(origin, upto).await?;
        Ok(MetaReplyBody::Synced)
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

fn job_key(request: &MetaRequest) -> JobKey {
    JobKey {
        session: request.session,
        job: request.job,
    }
}

/// The bytes of a file that the reply carries.
fn inline_bytes(body: &MetaReplyBody) -> u64 {
    let (MetaReplyBody::Opened(opened) | MetaReplyBody::WriteBegun { opened, .. }) = body else {
        return 0;
    };
    opened.inline.as_ref().map_or(0, |bytes| bytes.len() as u64)
}

/// The result of a request, with the leases that go with it. An error carries leases only if it says what they cover: any other may not be
/// what the operation decided.
fn with_leases(
    result: Result<MetaReplyBody, FsError>,
    leases: ReplyLeases,
) -> Result<MetaReplyBody, FsError> {
    let says_what_is_leased = matches!(
        result,
        Ok(_) | Err(FsError::NotFound | FsError::Denied | FsError::NoAttribute)
    );
    if leases.is_empty() || !says_what_is_leased {
        return result;
    }
    Ok(MetaReplyBody::LeaseReply(LeaseReply {
        outcome: wire::encode_outcome(&result),
        grants: leases.grants,
        changed: leases.changed,
    }))
}
