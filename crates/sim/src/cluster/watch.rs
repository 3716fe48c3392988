//! Wrappers of the servers' request handlers: they notice requests that arrive twice, replies from a replay record,
//! and requests that are accepted.

use super::rights::{Rights, Shown};
use crate::rare_events::RareEvents;
use gupfs_client::ClientCallbacks;
use gupfs_mds::MetaHandler;
use gupfs_oss::DataHandler;
use gupfs_platform::fake::FakeClock;
use gupfs_proto::{FsError, SessionId, Slot, callback, data, meta};
use gupfs_rpc::{ConnectedPeer, PeerHandler, Service};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Milliseconds since the clock's beginning.
pub fn millis(clock: &FakeClock) -> u64 {
    clock.boot().0 / 1_000_000
}

pub struct Watch {
    seen: Mutex<Seen>,
    clock: FakeClock,
}

#[derive(Default)]
struct Seen {
    rare_events: RareEvents,
    /// Counts the instances of the metadata server.
    life: u64,
    /// The last change that was answered in each slot, and in which instance.
    answered: BTreeMap<(SessionId, Slot), (u64, u64)>,
    /// Object writes that arrived: from which session, where, and their first bytes.
    written: BTreeSet<(u64, u64, u64, u64, Vec<u8>)>,
    rights: Rights,
    /// Sessions that a host was told have ended: the host and its request, and the time of the first such reply.
    ended: BTreeMap<SessionId, (String, u64)>,
    /// Sessions whose clients have closed them, or are dead: a waiting request of such a session may be answered
    /// later.
    closed: BTreeSet<SessionId>,
    /// Sessions with requests from each host since its process began.
    sessions: BTreeMap<String, BTreeSet<SessionId>>,
    /// Broken promises, noted where no caller can receive an error.
    broken: Vec<String>,
}

impl Watch {
    /// By this clock it says when something was.
    pub fn new(clock: &FakeClock) -> Watch {
        Watch {
            seen: Mutex::default(),
            clock: clock.clone(),
        }
    }

    pub fn count(&self, what: &'static str) {
        self.seen.lock().rare_events.count(what);
    }

    pub fn rare_events(&self) -> RareEvents {
        self.seen.lock().rare_events.clone()
    }

    pub fn metadata_begins_again(&self) {
        self.seen.lock().life += 1;
    }

    /// The process of an object server begins.
    pub fn objects_begin_again(&self, host: u64) {
        self.seen.lock().rights.begins(host);
    }

    /// Credentials that clients showed and object servers accepted, the newest last.
    pub fn shown(&self) -> Vec<Shown> {
        self.seen.lock().rights.shown().copied().collect()
    }

    pub fn breaks(&self, promise: String) {
        self.seen.lock().broken.push(promise);
    }

    /// Promises that were broken.
    pub fn broken(&self) -> Vec<String> {
        self.seen.lock().broken.clone()
    }

    /// When a reply first said that the session had ended.
    pub fn ended(&self, session: SessionId) -> Option<u64> {
        let seen = self.seen.lock();
        seen.ended.get(&session).map(|(_, when)| *when)
    }

    /// All sessions that a reply called ended: the host and its request, and the time of the first such reply.
    pub fn all_ended(&self) -> Vec<(SessionId, String, u64)> {
        let seen = self.seen.lock();
        let ended = seen.ended.iter();
        ended
            .map(|(session, (host, when))| (*session, host.clone(), *when))
            .collect()
    }

    fn life(&self) -> u64 {
        self.seen.lock().life
    }

    /// A client's process has ended: no task there learns that its sessions have ended.
    pub fn client_dies(&self, host: &str) {
        let mut seen = self.seen.lock();
        let sessions = seen.sessions.remove(host).unwrap_or_default();
        seen.closed.extend(sessions);
    }

    fn asked(&self, host: &str, request: &meta::MetaRequest) {
        let mut seen = self.seen.lock();
        let sessions = seen.sessions.entry(host.to_string()).or_default();
        sessions.insert(request.session);
        drop(seen);
        if let meta::MetaOp::EndWrite {
            ino,
            keep_lease: false,
            ..
        } = request.op
        {
            let mut seen = self.seen.lock();
            seen.rights.gives_back(ino, request.session);
        }
        if matches!(request.op, meta::MetaOp::CloseSession) {
            // The change may be made, and its reply lost.
            self.seen.lock().closed.insert(request.session);
        }
        let Some(lane) = request.slot_seq else { return };
        let mut seen = self.seen.lock();
        let life = seen.life;
        let Some((sequence, of)) = seen.answered.get(&(request.session, lane.slot)).copied() else {
            return;
        };
        if sequence == lane.sequence {
            seen.rare_events.count(match of == life {
                true => "answered change asked again",
                false => "change answered by a former life asked again",
            });
        }
    }

    fn answered(&self, host: &str, request: &meta::MetaRequest, reply: &meta::MetaReply) {
        let now = millis(&self.clock);
        let mut seen = self.seen.lock();
        let session = request.session;
        let closes = matches!(request.op, meta::MetaOp::CloseSession);
        let is_told = reply.result == Err(FsError::SessionEnded);
        if is_told || (closes && reply.result.is_ok()) {
            seen.rights.ended(session);
        }
        if is_told && !seen.closed.contains(&session) {
            seen.rare_events.count("session ended");
            let told = (format!("{host} {}", request.op.name()), now);
            seen.ended.entry(session).or_insert(told);
        }
        if let (meta::MetaOp::BeginWrite { ino, .. }, Ok(_)) = (&request.op, &reply.result) {
            seen.rights.holds(*ino, session);
        }
        let Some(lane) = request.slot_seq.filter(|_| reply.result.is_ok()) else {
            return;
        };
        let life = seen.life;
        let key = (request.session, lane.slot);
        seen.answered.insert(key, (lane.sequence, life));
    }

    fn wrote(&self, request: &data::DataRequest) {
        let data::DataOp::Write {
            object, at, data, ..
        } = &request.op
        else {
            return;
        };
        let begins = data[..data.len().min(16)].to_vec();
        let (ino, stripe) = (object.ino.0, u64::from(object.stripe));
        let mut seen = self.seen.lock();
        let new = (seen.written).insert((request.session.0, ino, stripe, at.0, begins));
        seen.rare_events
            .count_if(!new, "object write delivered twice");
    }
}

/// The metadata server's request handler.
pub struct WatchedMeta {
    pub door: Arc<MetaHandler>,
    pub watch: Arc<Watch>,
}

impl PeerHandler<meta::MetaRequest, meta::MetaReply> for WatchedMeta {
    async fn handle(
        self: Arc<Self>,
        from: Arc<ConnectedPeer>,
        request: meta::MetaRequest,
    ) -> meta::MetaReply {
        let host = from.address().to_string();
        self.watch.asked(&host, &request);
        let reply = self.door.clone().handle(from, request.clone()).await;
        self.watch.answered(&host, &request, &reply);
        reply
    }
}

/// An object server's request handler.
pub struct WatchedData {
    pub door: Arc<DataHandler>,
    pub number: u64,
    /// The metadata server's clock.
    pub clock: FakeClock,
    pub watch: Arc<Watch>,
}

impl PeerHandler<data::DataRequest, data::DataReply> for WatchedData {
    async fn handle(
        self: Arc<Self>,
        from: Arc<ConnectedPeer>,
        request: data::DataRequest,
    ) -> data::DataReply {
        self.watch.wrote(&request);
        let arrived = {
            let mut seen = self.watch.seen.lock();
            let now = millis(&self.clock);
            seen.rights.arrives(self.number, &request, now)
        };
        let reply = self.door.clone().handle(from, request).await;
        let mut guard = self.watch.seen.lock();
        let seen = &mut *guard;
        match seen.rights.answered(&arrived, &reply) {
            Ok(Some(rare_events)) => seen.rare_events.count(rare_events),
            Ok(None) => {}
            Err(wrong) => seen.broken.push(wrong),
        }
        drop(guard);
        reply
    }
}

/// Handler of the callbacks that the metadata server sends to a client.
pub struct WatchedRecall {
    pub recalled: Arc<ClientCallbacks>,
    pub watch: Arc<Watch>,
}

impl Service<callback::CallbackRequest, callback::CallbackReply> for WatchedRecall {
    async fn handle(
        self: Arc<Self>,
        question: callback::CallbackRequest,
    ) -> callback::CallbackReply {
        let before = self.watch.life();
        self.watch.count(match question {
            callback::CallbackRequest::Glimpse { .. } => "client asked to tell",
            callback::CallbackRequest::Revoke { .. } => "client asked to give back",
            callback::CallbackRequest::CheckOpen { .. } => "client asked what it has open",
            callback::CallbackRequest::LockGranted { .. } => "client told of a lock",
        });
        let reply = self.recalled.clone().handle(question).await;
        if self.watch.life() != before {
            self.watch.count("recall crossed a restart");
        }
        reply
    }
}
