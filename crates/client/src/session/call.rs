//! One call to the metadata server: the request carries slot, session and the newest change seen; the reply updates them.

use super::MdsSession;
use super::leases::take_leases;
use super::replay_log::RecordOutcome;
use crate::limits::REPLAY_LOG_MAX;
use crate::server_call::CalledServer;
use gupfs_platform::CurrentCall;
use gupfs_proto::capability::OpenCapability;
use gupfs_proto::meta::{self, MetaOp, MetaReplyBody, ReplayRecord, SlotSeq};
use gupfs_proto::operations::{AccessRule, SessionScope};
use gupfs_proto::{Caller, FsError, OwnerEpoch, SessionId, wire};

impl MdsSession {
    /// Sends an operation, and returns its reply.
    pub async fn call(&self, caller: &Caller, op: MetaOp) -> Result<MetaReplyBody, FsError> {
        tracing::trace!(target: "walk", file = file!(), "call");
        if let Some(answer) = self.answer_by_leases(caller, &op) {
            return answer;
        }
        let op = self.lease_cache.widened(op);
        if op.operation().session == SessionScope::Any {
            self.current.wait_until_open().await?;
        } else if self.current.is_lost() {
            return Err(FsError::Stale);
        }
        let slot_seq = match op.changes() {
            true if self.may_wait_for_callbacks(&op) => {
                Some(self.slots.acquire_for_waiting().await)
            }
            true => Some(self.slots.acquire().await),
            false => None,
        };
        if self.is_shared() && op.changes() && self.replay_log.count() > REPLAY_LOG_MAX {
            self.sync_replay_log().await?;
        }
        let pending_call =
            (self.pending_calls).begin(CalledServer::Mds, op.name(), op.operation().subject);
        let slot_seq = slot_seq.as_ref().map(|guard| guard.slot_seq());
        let session = self.id();
        let open_capabilities = self.open_capabilities_for(&op);
        let mut result = self
            .call_across_restarts(caller, op, open_capabilities, slot_seq)
            .await;
        pending_call.finish(result.is_ok());
        if let Ok(MetaReplyBody::Opened(opened) | MetaReplyBody::WriteBegun { opened, .. }) =
            &mut result
        {
            match self.id() == session {
                // The caller takes the open capability from this reply.
                true => (self.capabilities).put_file(opened.attr.ino, opened.capability.clone()),
                false => opened.capability = None,
            }
        }
        result
    }

    /// The open capabilities that authorize the operation: it is about a file that is open here, and that gives the right to it.
    fn open_capabilities_for(&self, op: &MetaOp) -> Vec<OpenCapability> {
        if !self.is_shared() {
            // With a single client no other can pass for this one: the server issues none.
            return Vec::new();
        }
        let ino = match op.operation().rule {
            AccessRule::Open(ino, _) | AccessRule::WriteOrOwner(ino) => ino,
            AccessRule::Session
            | AccessRule::Credentials
            | AccessRule::LeaseHolder(_)
            | AccessRule::PerPart => return Vec::new(),
        };
        let open_capability = self.state.open_capability(self.id(), ino);
        open_capability.into_iter().collect()
    }

    /// Repeats the request if the server restarts meanwhile: with the same slot and sequence the server recognises it.
    async fn call_across_restarts(
        &self,
        caller: &Caller,
        mut op: MetaOp,
        open_capabilities: Vec<OpenCapability>,
        slot_seq: Option<SlotSeq>,
    ) -> Result<MetaReplyBody, FsError> {
        // The operation as it is sent and as it is replayed; None: the plain operation.
        let op_with_capability =
            (!open_capabilities.is_empty()).then(|| MetaOp::WithOpenCapability {
                open_capabilities,
                op: wire::encode_op(&op),
            });
        let mut leased_call = self.lease_cache.begin(&op, slot_seq.map(|at| at.slot));
        // Others see the change before this client's kernel learns of it.
        (self.kernel_attributes)
            .invalidate_affected(leased_call.affected_inodes())
            .await;
        loop {
            leased_call.start_request();
            let (session, (instance, last_seen)) = (self.id(), self.replay_log.position());
            // A client that is not shared ends with its server.
            let shared = self.is_shared();
            let op_to_repeat = shared.then(|| op.clone());
            let request = meta::MetaRequest {
                session,
                slot_seq,
                caller: caller.clone(),
                job: CurrentCall::get().job,
                instance,
                last_seen,
                op: op_with_capability.clone().unwrap_or(op),
            };
            let mut reply = self.route.mds.call(request).await;
            let leases = take_leases(&mut reply);
            if reply.result == Err(FsError::SessionEnded) {
                self.on_session_ended(session);
                return reply.result;
            }
            let Some(same_op) = op_to_repeat else {
                self.replay_log.record(instance, &reply, None);
                return reply.result;
            };
            let sent = SentRequest {
                session,
                instance,
                caller,
                slot_seq,
                op: &same_op,
                op_with_capability: op_with_capability.as_ref(),
            };
            match self.take_reply(sent, &reply) {
                NextStep::Return => {
                    leased_call.finish(caller, &same_op, &reply.result, &leases);
                    return reply.result;
                }
                NextStep::Reconnect(instance) => self.reconnect(instance).await?,
                NextStep::WaitForReconnect => drop(self.reconnecting.lock().await),
            }
            if let MetaOp::Sync { .. } = same_op {
                // The reconnect made everything before it durable.
                return Ok(MetaReplyBody::Synced);
            }
            if self.id() != session {
                return Err(FsError::Stale);
            }
            op = same_op;
        }
    }

    /// Applies a reply to the lock table and to the replay log.
    fn take_reply(&self, sent: SentRequest<'_>, reply: &meta::MetaReply) -> NextStep {
        if let Err(FsError::OtherInstance(instance)) = reply.result {
            return match instance.group() == sent.session.group() {
                true => NextStep::Reconnect(instance),
                // This server knows neither the session nor its changes: they are not replayed to it.
                false => NextStep::Return,
            };
        }
        let locks = &self.state.locks;
        if !locks.apply_reply(sent.session, sent.instance, sent.op, &reply.result) {
            return NextStep::WaitForReconnect;
        }
        let record = replay_record(&sent, reply);
        match self.replay_log.record(sent.instance, reply, record) {
            RecordOutcome::Recorded { newer_map } => {
                if newer_map {
                    self.route.notify_newer_map();
                }
                NextStep::Return
            }
            // A read was true in the former instance; a change must be made in the current one.
            RecordOutcome::OtherInstance if reply.change.is_none() => NextStep::Return,
            RecordOutcome::OtherInstance => NextStep::WaitForReconnect,
        }
    }

    async fn sync_replay_log(&self) -> Result<(), FsError> {
        let (us, upto) = (Caller::root(), self.replay_log.seq());
        let synced = self
            .call_across_restarts(&us, MetaOp::Sync { upto }, Vec::new(), None)
            .await;
        synced.map(|_| ())
    }

    /// Whether the server may send a callback to another client before it answers. Never for a file that only this client writes, and
    /// never for this client's own reports.
    fn may_wait_for_callbacks(&self, op: &MetaOp) -> bool {
        if !self.is_shared() || op.reports_client_state() {
            return false;
        }
        !op.operation()
            .subject
            .is_some_and(|ino| self.state.has_exclusive_write_lease(ino))
    }
}

/// A request of a shared client, to which a reply has arrived.
struct SentRequest<'a> {
    session: SessionId,
    instance: OwnerEpoch,
    caller: &'a Caller,
    slot_seq: Option<SlotSeq>,
    op: &'a MetaOp,
    /// None: the plain operation was sent.
    op_with_capability: Option<&'a MetaOp>,
}

/// What follows from a reply.
enum NextStep {
    /// It is the operation's result.
    Return,
    /// The server is this other instance: the client reconnects and repeats the operation.
    Reconnect(OwnerEpoch),
    /// The reply is of an instance that has ended, and another task is reconnecting the session: then repeat the operation.
    WaitForReconnect,
}

/// The record to replay if a power loss of the server undoes this request.
fn replay_record(sent: &SentRequest<'_>, reply: &meta::MetaReply) -> Option<ReplayRecord> {
    let (change, slot_seq) = (reply.change?, sent.slot_seq?);
    let created = match &reply.result {
        Ok(MetaReplyBody::Entry(attr)) => Some(attr.ino),
        Ok(MetaReplyBody::Opened(opened) | MetaReplyBody::WriteBegun { opened, .. })
            if opened.created =>
        {
            Some(opened.attr.ino)
        }
        _ => None,
    };
    let layout = match (sent.op, &reply.result) {
        (MetaOp::BeginWrite { .. }, Ok(MetaReplyBody::Opened(opened)))
        | (
            MetaOp::BeginWriteAt { .. } | MetaOp::CreateForWriting { .. },
            Ok(MetaReplyBody::WriteBegun { opened, .. }),
        ) => Some(opened.layout.clone()),
        _ => None,
    };
    Some(ReplayRecord {
        change,
        slot_seq,
        caller: sent.caller.clone(),
        op: wire::encode_op(sent.op_with_capability.unwrap_or(sent.op)),
        created,
        layout,
    })
}
