//! One call to a server: the request carries slot, session and the newest change seen; the reply updates them.

use crate::capabilities::needed_rights;
use crate::file::inode_table::ActiveInode;
use crate::limits::{CAPABILITY_RETRY_PAUSE, DEADLINE, REPLAY_LOG_MAX};
use crate::pending_calls::{CalledServer, ServerCall};
use crate::replay_log::RecordOutcome;
use crate::service::Client;
use gupfs_namespace::rights::{AccessRule, access_rule};
use gupfs_proto::capability::{CapabilityFault, DataCredentials, OpenCapability, Rights};
use gupfs_proto::limits::CLIENT_TERM;
use gupfs_proto::lock::LockRequest;
use gupfs_proto::meta::{MetaOp, MetaReplyBody, ReplayRecord, SlotSeq};
use gupfs_proto::{Caller, FsError, InodeId, OstId, data, meta, wire};
use std::sync::Arc;

impl Client {
    /// Calls the metadata server.
    pub(crate) async fn call_mds(
        &self,
        caller: &Caller,
        op: MetaOp,
    ) -> Result<MetaReplyBody, FsError> {
        if can_use_new_session(&op) {
            self.wait_for_session().await?;
        } else if self.session.is_lost() {
            return Err(FsError::Stale);
        }
        let slot_seq = match op.changes() {
            true if self.may_wait_for_callbacks(&op) => {
                Some(self.slots.acquire_for_waiting().await)
            }
            true => Some(self.slots.acquire().await),
            false => None,
        };
        if self.options.shared && op.changes() && self.replay_log.count() > REPLAY_LOG_MAX {
            self.sync_replay_log().await?;
        }
        let call = self.new_call(CalledServer::Mds, op.name(), inode_of(&op));
        let pending_call = self.pending_calls.begin(call);
        let slot_seq = slot_seq.as_ref().map(|guard| guard.slot_seq());
        let session = self.session();
        let open_capabilities = self.open_capabilities_for(&op);
        let mut result = self
            .call_mds_across_restarts(caller, op, open_capabilities, slot_seq)
            .await;
        drop(pending_call);
        self.observe(&call, result.is_ok());
        if let Ok(MetaReplyBody::Opened(opened)) = &mut result {
            match self.session() == session {
                // The caller takes the open capability from this reply.
                true => (self.capabilities).put_file(opened.attr.ino, opened.capability.clone()),
                false => opened.capability = None,
            }
        }
        result
    }

    /// The open capabilities that authorize the operation: it is about a file that is open here, and that gives the right to it.
    fn open_capabilities_for(&self, op: &MetaOp) -> Vec<OpenCapability> {
        if !self.options.shared {
            // With a single client no other can pass for this one: the server issues none.
            return Vec::new();
        }
        let ino = match access_rule(op) {
            AccessRule::Open(ino, _) | AccessRule::WriteOrOwner(ino) => ino,
            AccessRule::Session
            | AccessRule::Credentials
            | AccessRule::LeaseHolder(_)
            | AccessRule::PerPart => return Vec::new(),
        };
        self.open_capability(ino).into_iter().collect()
    }

    /// The open capability of a file or directory in this session.
    pub(crate) fn open_capability(&self, ino: InodeId) -> Option<OpenCapability> {
        let session = self.session();
        let of_file = |file: Arc<ActiveInode>| file.state().open_capability(session);
        let file = self.inodes.get(ino).and_then(of_file);
        file.or_else(|| self.open_dirs.open_capability(session, ino))
    }

    /// Repeats the request if the server restarts meanwhile: with the same slot and sequence the server recognises it.
    async fn call_mds_across_restarts(
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
        loop {
            let (session, (instance, last_seen)) = (self.session(), self.replay_log.position());
            // A client that is not shared ends with its server.
            let shared = self.options.shared;
            let op_to_repeat = shared.then(|| op.clone());
            let request = meta::MetaRequest {
                session,
                slot_seq,
                caller: caller.clone(),
                job: self.options.job,
                instance,
                last_seen,
                op: op_with_capability.clone().unwrap_or(op),
            };
            let reply = self.route.mds.call(request).await;
            if reply.result == Err(FsError::SessionEnded) {
                self.on_session_ended(session);
                return reply.result;
            }
            let Some(same_op) = op_to_repeat else {
                self.replay_log.record(instance, &reply, None);
                return reply.result;
            };
            let other_instance = match reply.result {
                Err(FsError::OtherInstance(instance)) => Some(instance),
                _ if !self
                    .locks
                    .apply_reply(session, instance, &same_op, &reply.result) =>
                {
                    None
                }
                _ => match self.replay_log.record(
                    instance,
                    &reply,
                    replay_record(
                        &same_op,
                        op_with_capability.as_ref(),
                        caller,
                        slot_seq,
                        &reply,
                    ),
                ) {
                    RecordOutcome::Recorded { newer_map } => {
                        if newer_map {
                            self.route.notify_newer_map();
                        }
                        return reply.result;
                    }
                    // A read was true in the former instance; a change must be made in the current one.
                    RecordOutcome::OtherInstance if reply.change.is_none() => return reply.result,
                    RecordOutcome::OtherInstance => None,
                },
            };
            match other_instance {
                Some(instance) => self.reconnect(instance).await?,
                // Another task is reconnecting the session.
                None => drop(self.reconnecting.lock().await),
            }
            if let MetaOp::Sync { .. } = same_op {
                // The reconnect made everything before it durable.
                return Ok(MetaReplyBody::Synced);
            }
            if self.session() != session {
                return Err(FsError::Stale);
            }
            op = same_op;
        }
    }

    async fn sync_replay_log(&self) -> Result<(), FsError> {
        let (us, upto) = (Caller::root(), self.replay_log.seq());
        let synced = self
            .call_mds_across_restarts(&us, MetaOp::Sync { upto }, Vec::new(), None)
            .await;
        synced.map(|_| ())
    }

    /// Whether the server may send a callback to another client before it answers. Never for a file with a write lease here, and
    /// never for this client's own reports.
    fn may_wait_for_callbacks(&self, op: &MetaOp) -> bool {
        if !self.options.shared || reports_own_state(op) {
            return false;
        }
        let file = inode_of(op).and_then(|ino| self.inodes.get(ino));
        !file.is_some_and(|file| file.state().has_write_lease)
    }

    /// Calls an OST.
    pub(crate) async fn call_ost(&self, ost: OstId, op: data::DataOp) -> data::DataReply {
        let call = self.new_call(CalledServer::Ost(ost), op.name(), inode_of_data(&op));
        let pending_call = self.pending_calls.begin(call);
        let reply = self.call_ost_with_credentials(ost, op).await;
        drop(pending_call);
        self.observe(&call, reply.is_ok());
        reply
    }

    /// Sends the request with credentials. If the OST answers that they have expired, the client fetches new ones and repeats the
    /// request.
    async fn call_ost_with_credentials(&self, ost: OstId, op: data::DataOp) -> data::DataReply {
        let mut request = data::DataRequest {
            session: self.session(),
            map_epoch: self.replay_log.map_epoch(),
            job: self.options.job,
            ost,
            credentials: DataCredentials::None,
            op,
        };
        if !self.route.uses_map() {
            let peer = self.route.peer(ost, request.map_epoch).await?;
            return peer.call(request).await;
        }
        let clock = &self.platform.clock;
        let mut given_up = clock.boot() + DEADLINE;
        loop {
            request.credentials = self.credentials_for(ost, &request.op).await?;
            let presented_at = clock.boot();
            let reply = self.call_ost_at_current_address(&request).await;
            if reply != Err(FsError::Capability(CapabilityFault::Expired)) {
                return reply;
            }
            if clock.boot().since(presented_at) >= CLIENT_TERM {
                // The OST was down while the request waited, so the credentials had expired when they arrived.
                given_up = clock.boot() + DEADLINE;
            }
            if clock.boot() >= given_up {
                return reply;
            }
            tracing::debug!(%ost, op = request.op.name(), "the credentials have expired; the client fetches new ones");
            match needed_rights(&request.op) {
                Some((ino, rights)) => self.fetch_file_capability(ino, rights).await?,
                None => self.fetch_session_capability().await?,
            }
            if self.session() != request.session {
                return Err(FsError::Stale);
            }
            // The OST may learn of a new metadata server instance later than this client: within a second or two.
            clock.sleep(CAPABILITY_RETRY_PAUSE).await;
        }
    }

    async fn credentials_for(
        &self,
        ost: OstId,
        op: &data::DataOp,
    ) -> Result<DataCredentials, FsError> {
        if let Some(credentials) = self.capabilities.credentials(ost, op) {
            return Ok(credentials);
        }
        if let Some((ino, rights)) = needed_rights(op) {
            self.fetch_file_capability(ino, rights).await?;
        }
        // Still none: the file has no object on this OST any more.
        self.capabilities.credentials(ost, op).ok_or(FsError::Stale)
    }

    async fn fetch_file_capability(&self, ino: InodeId, rights: Rights) -> Result<(), FsError> {
        match self
            .call_mds(&Caller::root(), MetaOp::IssueCapability { ino, rights })
            .await?
        {
            MetaReplyBody::CapabilityIssued {
                session_capability,
                capability,
            } => {
                self.capabilities.put_session(session_capability);
                self.capabilities.put_file(ino, capability);
                Ok(())
            }
            _ => crate::reply::unexpected("issue_capability"),
        }
    }

    async fn fetch_session_capability(&self) -> Result<(), FsError> {
        match self.call_mds(&Caller::root(), MetaOp::Renew).await? {
            MetaReplyBody::Renewed { session_capability } => {
                self.capabilities.put_session(session_capability);
                Ok(())
            }
            _ => crate::reply::unexpected("renew"),
        }
    }

    /// Sends the request again if the target moves to another address meanwhile.
    async fn call_ost_at_current_address(&self, request: &data::DataRequest) -> data::DataReply {
        let (ost, newest) = (request.ost, || self.replay_log.map_epoch());
        loop {
            let peer = self.route.peer(ost, newest()).await?;
            let was = self.route.address(ost);
            let reply = tokio::select! {
                biased;
                reply = peer.call(request.clone()) => reply,
                () = self.route.wait_until_moved(ost, newest) => continue,
            };
            let is_down = matches!(reply, Err(FsError::TargetDown { .. }));
            // The target may have moved to another server before this client received the new map.
            if !is_down || !self.route.has_moved(ost, was.as_deref()).await {
                return reply;
            }
        }
    }

    pub(crate) fn new_call(
        &self,
        server: CalledServer,
        operation: &'static str,
        ino: Option<InodeId>,
    ) -> ServerCall {
        ServerCall {
            server,
            operation,
            ino,
            since: self.platform.clock.boot(),
        }
    }

    fn observe(&self, call: &ServerCall, succeeded: bool) {
        if let Some(observer) = &self.options.observer {
            let took = self.platform.clock.boot().since(call.since);
            observer.call_finished(call, took, succeeded);
        }
    }
}

/// The record to replay if a power loss of the server undoes this request.
fn replay_record(
    op: &MetaOp,
    op_with_capability: Option<&MetaOp>,
    caller: &Caller,
    slot_seq: Option<SlotSeq>,
    reply: &meta::MetaReply,
) -> Option<ReplayRecord> {
    let (change, slot_seq) = (reply.change?, slot_seq?);
    let created = match &reply.result {
        Ok(MetaReplyBody::Entry(attr)) => Some(attr.ino),
        Ok(MetaReplyBody::Opened(opened)) if opened.created => Some(opened.attr.ino),
        _ => None,
    };
    let layout = match (op, &reply.result) {
        (MetaOp::BeginWrite { .. }, Ok(MetaReplyBody::Opened(opened))) => {
            Some(opened.layout.clone())
        }
        _ => None,
    };
    Some(ReplayRecord {
        change,
        slot_seq,
        caller: caller.clone(),
        op: wire::encode_op(op_with_capability.unwrap_or(op)),
        created,
        layout,
    })
}

/// Whether a new session may send the request: it depends on no lease and no open file, and its caller holds no lock of a file.
fn can_use_new_session(op: &MetaOp) -> bool {
    match op {
        MetaOp::Lookup { .. }
        | MetaOp::LookupParent { .. }
        | MetaOp::GetAttr { .. }
        | MetaOp::Access { .. }
        | MetaOp::Readlink { .. }
        | MetaOp::Readdir { .. }
        | MetaOp::GetXattr { .. }
        | MetaOp::ListXattr { .. }
        | MetaOp::StatFs
        | MetaOp::GetDefaultLayout { .. }
        | MetaOp::Create { .. }
        | MetaOp::Mkdir { .. }
        | MetaOp::Mknod { .. }
        | MetaOp::Symlink { .. }
        | MetaOp::TmpFile { .. }
        | MetaOp::OpenTmpFile { .. }
        | MetaOp::Link { .. }
        | MetaOp::Unlink { .. }
        | MetaOp::Rmdir { .. }
        | MetaOp::Rename { .. } => true,
        // Opens without access rights and opens with truncation run under a file's lock.
        MetaOp::Open { open, .. } => !open.access.is_empty() && !open.truncate,
        _ => false,
    }
}

/// Whether the request reports this client's own state to the server: leases, moved inline data, forgotten orphans.
fn reports_own_state(op: &MetaOp) -> bool {
    matches!(
        op,
        MetaOp::EndWrite { .. }
            | MetaOp::SpillInline { .. }
            | MetaOp::Forget { .. }
            | MetaOp::CloseSession
    )
}

/// The inode that a request is about; the directory for requests about names.
fn inode_of(op: &MetaOp) -> Option<InodeId> {
    match op {
        MetaOp::Lookup { dir, .. }
        | MetaOp::LookupParent { dir }
        | MetaOp::Readdir { dir, .. }
        | MetaOp::Create { dir, .. }
        | MetaOp::Mkdir { dir, .. }
        | MetaOp::Mknod { dir, .. }
        | MetaOp::Symlink { dir, .. }
        | MetaOp::TmpFile { dir, .. }
        | MetaOp::OpenTmpFile { dir, .. }
        | MetaOp::Link { dir, .. }
        | MetaOp::Unlink { dir, .. }
        | MetaOp::Rmdir { dir, .. }
        | MetaOp::Rename { from: dir, .. } => Some(*dir),
        MetaOp::GetAttr { ino }
        | MetaOp::Access { ino, .. }
        | MetaOp::Readlink { ino }
        | MetaOp::GetXattr { ino, .. }
        | MetaOp::ListXattr { ino }
        | MetaOp::GetDefaultLayout { ino }
        | MetaOp::SetAttr { ino, .. }
        | MetaOp::SetXattr { ino, .. }
        | MetaOp::RemoveXattr { ino, .. }
        | MetaOp::SetDefaultLayout { ino, .. }
        | MetaOp::Open { ino, .. }
        | MetaOp::Truncate { ino, .. }
        | MetaOp::WriteInline { ino, .. }
        | MetaOp::BeginWrite { ino, .. }
        | MetaOp::SpillInline { ino, .. }
        | MetaOp::EndWrite { ino, .. }
        | MetaOp::KillPrivileges { ino }
        | MetaOp::SetFlags { ino, .. }
        | MetaOp::IssueCapability { ino, .. } => Some(*ino),
        MetaOp::Lock(LockRequest::Acquire { lock, .. } | LockRequest::Test { lock }) => {
            Some(lock.holder.ino)
        }
        MetaOp::Lock(LockRequest::Release { holder, .. }) => Some(holder.ino),
        MetaOp::StatFs
        | MetaOp::OpenSession { .. }
        | MetaOp::CloseSession
        | MetaOp::Forget { .. }
        | MetaOp::Sync { .. }
        | MetaOp::Renew
        | MetaOp::Replay { .. }
        | MetaOp::WithOpenCapability { .. }
        | MetaOp::Lock(LockRequest::Cancel { .. }) => None,
    }
}

fn inode_of_data(op: &data::DataOp) -> Option<InodeId> {
    use data::DataOp;
    match op {
        DataOp::Write { object, .. }
        | DataOp::Read { object, .. }
        | DataOp::Truncate { object, .. }
        | DataOp::Allocate { object, .. }
        | DataOp::Zero { object, .. }
        | DataOp::Seek { object, .. }
        | DataOp::Stat { object }
        | DataOp::Remove { object }
        | DataOp::Quarantine { object } => Some(object.ino),
        DataOp::Sync { objects } | DataOp::Confirm { objects } => {
            objects.first().map(|object| object.ino)
        }
        DataOp::List { .. } | DataOp::Space | DataOp::Fence { .. } => None,
    }
}
