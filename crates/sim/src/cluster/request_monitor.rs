//! # request_monitor: wrappers of the servers' request handlers
//!
//! Owns   the counts of rare events; resent requests, ended sessions, and broken promises of object servers.
//! Never  changes a request or a reply; it delays some (`message_delays`).
//! Enter  at `MonitoredMeta`, `MonitoredData` and `MonitoredCallbacks`.

use super::access_check::{AccessCheck, ShownCredentials};
use super::message_delays::{ArrivedMessage, MessageDelays};
use super::owner_clocks::OwnerClocks;
pub use super::owner_clocks::millis;
use super::repeated_writes::{ArrivedWrite, RepeatedWrites};
use crate::rare_events::RareEvents;
use gupfs_client::ClientCallbacks;
use gupfs_mds::MetaHandler;
use gupfs_oss::DataHandler;
use gupfs_platform::fake::{FakeClock, FakeRandom};
use gupfs_proto::capability::DataCredentials;
use gupfs_proto::{FsError, InodeId, ObjectId, OstId, SessionId, Slot, callback, data, meta, wire};
use gupfs_rpc::{ConnectedPeer, PeerHandler, SendDeadline, Service};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// So long after a refused write a small disk counts as full, in milliseconds.
const FULL_FOR: u64 = 100;

pub struct RequestMonitor {
    state: Mutex<MonitorState>,
    clock: FakeClock,
    delays: MessageDelays,
}

#[derive(Default)]
struct MonitorState {
    rare_events: RareEvents,
    /// Counts the instances of the metadata server.
    instance_number: u64,
    /// The sequence number of the last answered change of each slot, and the server instance that answered it.
    last_replies: BTreeMap<(SessionId, Slot), (u64, u64)>,
    /// Object writes that arrived: session, inode, stripe, offset, first bytes.
    written: BTreeSet<(u64, u64, u64, u64, Vec<u8>)>,
    written_files: BTreeSet<InodeId>,
    access_check: AccessCheck,
    repeated_writes: RepeatedWrites,
    /// Objects that were fenced so that bytes are copied to them, and not synced there since. The source of a move has the same number on
    /// another target.
    being_copied: BTreeSet<(ObjectId, OstId)>,
    /// No fault takes reserved space away: each write into it finds it.
    requires_reserved_space: bool,
    /// When each target last refused a write because its small disk was full.
    full_at: BTreeMap<OstId, u64>,
    /// Sessions that a reply called ended: the host and request of the first such reply, and its time.
    session_ends: BTreeMap<SessionId, (String, u64)>,
    /// Sessions whose clients closed them or were killed. A waiting request of such a session may get a reply later.
    closed: BTreeSet<SessionId>,
    /// Sessions in requests from each host since its process started.
    sessions: BTreeMap<String, BTreeSet<SessionId>>,
    /// Broken promises. They are recorded here because the handlers' callers cannot receive an error.
    broken_promises: Vec<String>,
}

impl MonitorState {
    fn note_copy_step(&mut self, copy_step: &CopyStep, ost: OstId) {
        match copy_step {
            CopyStep::Fence(object) => {
                self.rare_events.count("resync of a member");
                let is_new = self.being_copied.insert((*object, ost));
                (self.rare_events).count_if(!is_new, "resync of a member cut short");
            }
            CopyStep::Sync(objects) => {
                for object in objects {
                    if self.being_copied.remove(&(*object, ost)) {
                        self.access_check.copy_ended(*object);
                    }
                }
            }
        }
    }

    /// A target has answered a request, and says that its disk is full or not. Returns the rare event that this was, if any.
    ///
    /// # Errors
    /// A write into reserved space found the disk full.
    fn check_reserved_space(
        &mut self,
        ost: OstId,
        is_reserved: bool,
        is_full: bool,
        now: u64,
    ) -> Result<Option<&'static str>, String> {
        if !self.requires_reserved_space {
            return Ok(None);
        }
        match (is_full, is_reserved) {
            (true, true) => Err(format!(
                "ost{ost} has no space for a write into reserved space"
            )),
            (true, false) => {
                self.full_at.insert(ost, now);
                Ok(Some("write refused by a small disk"))
            }
            (false, true) => {
                let full_at = self.full_at.get(&ost);
                let was_full = full_at.is_some_and(|at| now <= at + FULL_FOR);
                Ok(was_full.then_some("write into reserved space of a full disk"))
            }
            (false, false) => Ok(None),
        }
    }
}

/// A request of the metadata server that begins or ends the copying of bytes to an object.
enum CopyStep {
    Fence(ObjectId),
    Sync(Vec<ObjectId>),
}

impl CopyStep {
    fn of(request: &data::DataRequest) -> Option<CopyStep> {
        match &request.op {
            data::DataOp::FenceObject { object, .. } => Some(CopyStep::Fence(*object)),
            data::DataOp::Sync { objects }
                if !matches!(request.credentials, DataCredentials::Client { .. }) =>
            {
                Some(CopyStep::Sync(objects.clone()))
            }
            _ => None,
        }
    }
}

impl RequestMonitor {
    /// `clock`: the clock for the times in reports. `delays`: delays some messages, if set.
    pub fn new(clock: &FakeClock, delays: Option<FakeRandom>) -> RequestMonitor {
        RequestMonitor {
            state: Mutex::default(),
            delays: MessageDelays::new(delays, clock),
            clock: clock.clone(),
        }
    }

    /// Delays a message that has arrived; counts it if a later one of its lane overtakes it.
    async fn delay(&self, message: ArrivedMessage, what: &'static str) {
        if self.delays.wait(message).await {
            self.count(what);
        }
    }

    /// An object server leaves the requests of a client waiting for so long.
    pub fn stall(&self, client: usize, oss: usize, time: Duration) {
        self.delays.stall(format!("c{client} to oss{oss}"), time);
    }

    pub fn count(&self, what: &'static str) {
        self.state.lock().rare_events.count(what);
    }

    /// The files of which some session has had the write lease.
    pub fn written_files(&self) -> Vec<InodeId> {
        self.state.lock().written_files.iter().copied().collect()
    }

    pub fn rare_events(&self) -> RareEvents {
        self.state.lock().rare_events.clone()
    }

    pub fn metadata_server_starts(&self) {
        self.state.lock().instance_number += 1;
    }

    /// From now on a write into reserved space that finds the disk full is a broken promise.
    pub fn require_reserved_space(&self) {
        self.state.lock().requires_reserved_space = true;
    }

    /// The process of an object server starts.
    pub fn object_server_starts(&self, host: u64) {
        self.state.lock().access_check.server_started(host);
    }

    /// Credentials that clients showed and object servers accepted, the newest last.
    pub fn shown_credentials(&self) -> Vec<ShownCredentials> {
        self.state
            .lock()
            .access_check
            .shown_credentials()
            .copied()
            .collect()
    }

    pub fn note_broken_promise(&self, promise: String) {
        self.state.lock().broken_promises.push(promise);
    }

    /// Promises that were broken.
    pub fn broken_promises(&self) -> Vec<String> {
        self.state.lock().broken_promises.clone()
    }

    /// The time of the first reply which said that the session had ended.
    pub fn session_end(&self, session: SessionId) -> Option<u64> {
        let state = self.state.lock();
        state
            .session_ends
            .get(&session)
            .map(|(_, reported_at)| *reported_at)
    }

    /// All sessions that a reply called ended: the host and request of the first such reply, and its time.
    pub fn all_session_ends(&self) -> Vec<(SessionId, String, u64)> {
        let state = self.state.lock();
        let session_ends = state.session_ends.iter();
        session_ends
            .map(|(session, (host, reported_at))| (*session, host.clone(), *reported_at))
            .collect()
    }

    fn instance_number(&self) -> u64 {
        self.state.lock().instance_number
    }

    /// A client's process has ended; a reply about the end of its sessions reaches no program.
    pub fn client_killed(&self, host: &str) {
        let mut state = self.state.lock();
        let sessions = state.sessions.remove(host).unwrap_or_default();
        state.closed.extend(sessions);
    }

    fn note_request(&self, host: &str, request: &meta::MetaRequest) {
        let mut state = self.state.lock();
        let sessions = state.sessions.entry(host.to_string()).or_default();
        sessions.insert(request.session);
        drop(state);
        if matches!(request.op, meta::MetaOp::CloseSession) {
            // The server may close the session although its reply is lost.
            self.state.lock().closed.insert(request.session);
        }
        let Some(slot_seq) = request.slot_seq else {
            return;
        };
        let mut state = self.state.lock();
        let instance_number = state.instance_number;
        let Some((sequence, answered_in)) = state
            .last_replies
            .get(&(request.session, slot_seq.slot))
            .copied()
        else {
            return;
        };
        if sequence == slot_seq.sequence {
            state
                .rare_events
                .count(match answered_in == instance_number {
                    true => "answered change resent to the same instance",
                    false => "answered change resent to a later instance",
                });
        }
    }

    fn note_reply(&self, host: &str, request: &meta::MetaRequest, reply: &meta::MetaReply) {
        let now = millis(&self.clock);
        let mut state = self.state.lock();
        let session = request.session;
        let closes = matches!(request.op, meta::MetaOp::CloseSession);
        let reports_session_end = reply.result == Err(FsError::SessionEnded);
        if reports_session_end || (closes && reply.result.is_ok()) {
            state.access_check.session_ended(session);
        }
        if reports_session_end && !state.closed.contains(&session) {
            state.rare_events.count("session ended");
            let report = (format!("{host} {}", request.op.name()), now);
            state.session_ends.entry(session).or_insert(report);
        }
        match (plain_op(&request.op), plain_outcome(reply)) {
            (
                meta::MetaOp::EndWrite {
                    ino,
                    keep_lease: false,
                    ..
                }
                | meta::MetaOp::ReportWrites {
                    ino,
                    keep_lease: false,
                    ..
                },
                Ok(_),
            ) => state.access_check.release_lease(ino, session),
            (meta::MetaOp::BeginWrite { ino, .. } | meta::MetaOp::UpgradeWrite { ino }, Ok(_)) => {
                state.written_files.insert(ino);
                state.access_check.take_lease(ino, session, false);
            }
            (
                meta::MetaOp::BeginWriteAt { ino, .. },
                Ok(meta::MetaReplyBody::WriteBegun { is_concurrent, .. }),
            ) => {
                let concurrent = is_concurrent;
                state.access_check.take_lease(ino, session, concurrent);
                (state.rare_events).count_if(concurrent, "concurrent write lease granted");
            }
            (
                meta::MetaOp::CreateForWriting { .. },
                Ok(meta::MetaReplyBody::WriteBegun { opened, .. }),
            ) => {
                let ino = opened.attr.ino;
                state.written_files.insert(ino);
                state.access_check.take_lease(ino, session, false);
                (state.rare_events).count("write lease granted with a new file");
            }
            (meta::MetaOp::MarkStale { ino, objects }, Ok(meta::MetaReplyBody::Opened(opened)))
                if !objects.is_empty() =>
            {
                // The client answers the change that these members lack.
                if reply
                    .change
                    .is_some_and(|change| change.seq > reply.durable)
                {
                    let promise = format!(
                        "inode {ino}: {host} was told before the record of stale members was durable"
                    );
                    state.broken_promises.push(promise);
                }
                for (component, index) in objects {
                    let component = &opened.layout.components[component as usize];
                    let member = component.object(ino, index as usize);
                    let of_member = (member, OstId(0))..=(member, OstId(u16::MAX));
                    let is_being_copied = state.being_copied.range(of_member).next().is_some();
                    state.access_check.leave_out(member, is_being_copied);
                }
                (state.rare_events).count("member left out by its writer");
            }
            _ => {}
        }
        let Some(slot_seq) = request.slot_seq.filter(|_| reply.result.is_ok()) else {
            return;
        };
        let instance_number = state.instance_number;
        let key = (request.session, slot_seq.slot);
        state
            .last_replies
            .insert(key, (slot_seq.sequence, instance_number));
    }

    fn note_write(&self, request: &data::DataRequest) {
        let (data::DataOp::Write {
            object, at, data, ..
        }
        | data::DataOp::NumberedWrite {
            object, at, data, ..
        }
        | data::DataOp::ReservedWrite {
            object, at, data, ..
        }
        | data::DataOp::MirroredWrite {
            object, at, data, ..
        }
        | data::DataOp::RelayedWrite {
            object, at, data, ..
        }) = &request.op
        else {
            return;
        };
        let first_bytes = data[..data.len().min(16)].to_vec();
        let (ino, stripe) = (object.ino.0, u64::from(object.stripe));
        let mut state = self.state.lock();
        let new = (state.written).insert((request.session.0, ino, stripe, at.0, first_bytes));
        state
            .rare_events
            .count_if(!new, "object write delivered twice");
        let is_relayed = matches!(request.op, data::DataOp::RelayedWrite { .. });
        state.rare_events.count_if(is_relayed, "relayed write");
    }
}

/// The operation, without open capabilities.
fn plain_op(op: &meta::MetaOp) -> meta::MetaOp {
    match op {
        meta::MetaOp::WithOpenCapability { op, .. } => {
            wire::decode_op(op).expect("the client has encoded it")
        }
        op => op.clone(),
    }
}

/// The outcome of an operation, without leases.
fn plain_outcome(reply: &meta::MetaReply) -> Result<meta::MetaReplyBody, FsError> {
    match &reply.result {
        Ok(meta::MetaReplyBody::LeaseReply(leases)) => {
            wire::decode_outcome(&leases.outcome).expect("the server has encoded it")
        }
        outcome => outcome.clone(),
    }
}

/// The metadata server's request handler.
pub struct MonitoredMeta {
    pub handler: Arc<MetaHandler>,
    pub monitor: Arc<RequestMonitor>,
    /// The process sends replies only until then.
    pub send_deadline: SendDeadline,
}

impl PeerHandler<meta::MetaRequest, meta::MetaReply> for MonitoredMeta {
    async fn handle(
        self: Arc<Self>,
        from: Arc<ConnectedPeer>,
        request: meta::MetaRequest,
    ) -> meta::MetaReply {
        let host = from.address().to_string();
        let monitor = &self.monitor;
        let arrived = monitor.delays.begin(format!("{host} to mds"));
        monitor.delay(arrived, "metadata request overtaken").await;
        monitor.note_request(&host, &request);
        let reply = self.handler.clone().handle(from, request.clone()).await;
        // What a former owner replies reaches no client.
        if self.send_deadline.may_send() {
            monitor.note_reply(&host, &request, &reply);
        }
        let answered = monitor.delays.begin(format!("mds to {host}"));
        monitor.delay(answered, "metadata reply overtaken").await;
        reply
    }
}

/// An object server's request handler.
pub struct MonitoredData {
    pub handler: Arc<DataHandler>,
    pub number: u64,
    /// They say when session capabilities expire.
    pub clocks: Arc<OwnerClocks>,
    pub monitor: Arc<RequestMonitor>,
}

impl PeerHandler<data::DataRequest, data::DataReply> for MonitoredData {
    async fn handle(
        self: Arc<Self>,
        from: Arc<ConnectedPeer>,
        request: data::DataRequest,
    ) -> data::DataReply {
        let (host, number) = (from.address().to_string(), self.number);
        let arrived = self.monitor.delays.begin(format!("{host} to oss{number}"));
        self.monitor
            .delay(arrived, "object request overtaken")
            .await;
        self.monitor.note_write(&request);
        let numbered_write = ArrivedWrite::of(&request);
        let is_reserved = matches!(
            request.op,
            data::DataOp::ReservedWrite { .. }
                | data::DataOp::RelayedWrite {
                    is_reserved: true,
                    ..
                }
        );
        let copy_step = CopyStep::of(&request);
        let ost = request.ost;
        let credentials = request.credentials;
        let arrived = {
            let mut state = self.monitor.state.lock();
            let now = self.clocks.millis_for(&credentials);
            state
                .access_check
                .request_arrives(self.number, &request, now)
        };
        let reply = self.handler.clone().handle(from, request).await;
        {
            let mut guard = self.monitor.state.lock();
            let state = &mut *guard;
            let is_full = reply == Err(FsError::NoSpace);
            if let (Some(copy_step), Ok(_)) = (&copy_step, &reply) {
                state.note_copy_step(copy_step, ost);
            }
            let now = millis(&self.monitor.clock);
            let checks = [
                state.check_reserved_space(ost, is_reserved, is_full, now),
                state.access_check.check_reply(&arrived, &reply),
                numbered_write.map_or(Ok(None), |write| {
                    state.repeated_writes.check_reply(&write, &reply)
                }),
            ];
            for check in checks {
                match check {
                    Ok(Some(rare_event)) => state.rare_events.count(rare_event),
                    Ok(None) => {}
                    Err(violation) => state.broken_promises.push(violation),
                }
            }
        }
        let answered = self.monitor.delays.begin(format!("oss{number} to {host}"));
        self.monitor.delay(answered, "object reply overtaken").await;
        reply
    }
}

/// Handler of the callbacks that the metadata server sends to a client.
pub struct MonitoredCallbacks {
    pub callbacks: Arc<ClientCallbacks>,
    /// The client's host.
    pub host: String,
    pub monitor: Arc<RequestMonitor>,
}

impl Service<callback::CallbackRequest, callback::CallbackReply> for MonitoredCallbacks {
    async fn handle(
        self: Arc<Self>,
        request: callback::CallbackRequest,
    ) -> callback::CallbackReply {
        let before = self.monitor.instance_number();
        let arrived = self.monitor.delays.begin(format!("mds to {}", self.host));
        self.monitor.delay(arrived, "callback overtaken").await;
        self.monitor.count(match request {
            callback::CallbackRequest::Glimpse { .. } => "glimpse callback",
            callback::CallbackRequest::Downgrade { .. } => "downgrade callback",
            callback::CallbackRequest::LeaveOut { .. } => "leave out callback",
            callback::CallbackRequest::TargetsStop { .. } => "stop callback",
            callback::CallbackRequest::Revoke { .. } => "revoke callback",
            callback::CallbackRequest::CheckOpen { .. } => "open check callback",
            callback::CallbackRequest::LockGranted { .. } => "lock callback",
            callback::CallbackRequest::RevokeLeases { .. } => "lease callback",
        });
        let reply = self.callbacks.clone().handle(request).await;
        let answered = self.monitor.delays.begin(format!("{} to mds", self.host));
        self.monitor
            .delay(answered, "callback reply overtaken")
            .await;
        if self.monitor.instance_number() != before {
            self.monitor
                .count("callback crossed a restart of the metadata server");
        }
        reply
    }
}
