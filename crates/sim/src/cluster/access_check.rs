//! # rights: which requests object servers accept, compared with those they may accept
//!
//! Owns   which sessions were ended, which session capabilities have expired, which session has the write lease of which file;
//!        the credentials shown lately.
//! Never  verifies a MAC: the attacker tries whether an object server refuses a forged one.
//! Enter  at `AccessCheck::request_arrives` and `ArrivedRequest::answered` for a request, at `AccessCheck::ended` and `AccessCheck::take_lease` for what the
//!        metadata server did.

use gupfs_proto::capability::{
    CapabilityFault, DataCredentials, ObjectCapability, SessionCapability,
};
use gupfs_proto::data::{DataOp, DataReply, DataRequest};
use gupfs_proto::{FsError, InodeId, ObjectId, OstId, SessionId};
use std::collections::{BTreeMap, VecDeque};

/// Number of lately shown credentials that are kept for replay.
const SHOWN: usize = 256;

#[derive(Default)]
pub struct AccessCheck {
    /// Rises with each event.
    now: u64,
    /// Object servers that have confirmed a session's fence: they do nothing for that session any more.
    fenced: BTreeMap<(u64, SessionId), u64>,
    /// Ended sessions, with the event after which no server may accept them.
    ended: BTreeMap<SessionId, u64>,
    /// When the process of each object server began.
    started: BTreeMap<u64, u64>,
    session_capabilities: BTreeMap<(u64, SessionId), SessionCapability>,
    /// The session with the write lease of each file, and since which event.
    holders: BTreeMap<InodeId, (SessionId, u64)>,
    shown: VecDeque<ShownCredentials>,
}

/// The credentials that a client showed for a file and that an object server accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShownCredentials {
    pub ost: OstId,
    pub session: SessionId,
    pub object: ObjectId,
    pub session_capability: SessionCapability,
    pub object_capability: ObjectCapability,
}

/// A request that arrived at an object server.
pub struct ArrivedRequest {
    host: u64,
    event: u64,
    session: SessionId,
    ost: OstId,
    credentials: DataCredentials,
    /// Time on the metadata server's clock, which decides when a session capability expires.
    millis: u64,
    object: Option<ObjectId>,
    changes: bool,
    fences: Option<SessionId>,
    op: &'static str,
}

impl AccessCheck {
    fn event(&mut self) -> u64 {
        self.now += 1;
        self.now
    }

    /// An object server's process begins: it has not yet learnt anything about sessions.
    pub fn server_started(&mut self, host: u64) {
        let now = self.event();
        self.started.insert(host, now);
    }

    pub fn session_ended(&mut self, session: SessionId) {
        let now = self.event();
        self.ended.entry(session).or_insert(now);
    }

    pub fn take_lease(&mut self, ino: InodeId, session: SessionId) {
        let now = self.event();
        let (holder, since) = self.holders.entry(ino).or_insert((session, now));
        if *holder != session {
            (*holder, *since) = (session, now);
        }
    }

    pub fn release_lease(&mut self, ino: InodeId, session: SessionId) {
        if self
            .holders
            .get(&ino)
            .is_some_and(|(holder, _)| *holder == session)
        {
            self.holders.remove(&ino);
        }
    }

    /// The credentials shown, the newest last.
    pub fn shown(&self) -> impl DoubleEndedIterator<Item = &ShownCredentials> + ExactSizeIterator {
        self.shown.iter()
    }

    pub fn request_arrives(
        &mut self,
        host: u64,
        request: &DataRequest,
        millis: u64,
    ) -> ArrivedRequest {
        ArrivedRequest {
            host,
            event: self.event(),
            session: request.session,
            ost: request.ost,
            credentials: request.credentials,
            millis,
            object: object_of(&request.op),
            changes: request.op.changes(),
            fences: match request.op {
                DataOp::Fence { session } => Some(session),
                _ => None,
            },
            op: request.op.name(),
        }
    }

    /// Returns the rare event that this request was, if any.
    ///
    /// # Errors
    /// The action that the object server must not have done.
    pub fn check_reply(
        &mut self,
        request_arrived: &ArrivedRequest,
        reply: &DataReply,
    ) -> Result<Option<&'static str>, String> {
        if let (Some(session), Ok(_)) = (request_arrived.fences, reply) {
            let now = self.event();
            self.fenced.insert((request_arrived.host, session), now);
            self.ended.entry(session).or_insert(now);
        }
        let DataCredentials::Client {
            session_capability,
            object_capability,
        } = request_arrived.credentials
        else {
            return Ok(None);
        };
        if let Err(FsError::Capability(fault)) = reply {
            return Ok(match fault {
                CapabilityFault::Expired if session_capability.until <= request_arrived.millis => {
                    Some("expired session capability refused")
                }
                CapabilityFault::Expired => Some("capability of a former lease holder refused"),
                CapabilityFault::Fenced => Some("request of an ended session refused"),
                CapabilityFault::Forged | CapabilityFault::Rights | CapabilityFault::Missing => {
                    None
                }
            });
        }
        // The request handler's own reply: the connection ended before the server accepted the request.
        if let Err(FsError::TimedOut(_)) = reply {
            return Ok(None);
        }
        self.check_allowed(request_arrived, &session_capability)?;
        let known = self.session_capabilities.insert(
            (request_arrived.host, request_arrived.session),
            session_capability,
        );
        let renewed = known.is_some_and(|known| {
            known.epoch == session_capability.epoch && known.until < session_capability.until
        });
        if let (Some(object), Some(object_capability)) = (request_arrived.object, object_capability)
        {
            self.keep(ShownCredentials {
                ost: request_arrived.ost,
                session: request_arrived.session,
                object,
                session_capability,
                object_capability,
            });
        }
        Ok(renewed.then_some("renewed session capability"))
    }

    fn check_allowed(
        &self,
        request_arrived: &ArrivedRequest,
        session_capability: &SessionCapability,
    ) -> Result<(), String> {
        let (host, session, op) = (
            request_arrived.host,
            request_arrived.session,
            request_arrived.op,
        );
        let violation =
            |why: &str| Err(format!("oss{host} did a {op} of session {session}: {why}"));
        if session_capability.until < request_arrived.millis {
            return violation("its session capability had expired");
        }
        // Also a request that arrived before the fence: a fence waits for the requests under way.
        if self.fenced.contains_key(&(host, session)) {
            return violation("the object server had confirmed the session's fence");
        }
        let begun = self.started.get(&host).copied().unwrap_or(0);
        if self.ended.get(&session).is_some_and(|ended| *ended < begun) {
            return violation("the session had ended before the object server started");
        }
        if let Some(object) = request_arrived.object.filter(|_| request_arrived.changes)
            && let Some((holder, since)) = self.holders.get(&object.ino)
            && (*holder != session && *since < request_arrived.event)
        {
            return violation("another session has the file's write lease");
        }
        Ok(())
    }

    fn keep(&mut self, shown: ShownCredentials) {
        if self.shown.back() == Some(&shown) {
            return;
        }
        if self.shown.len() == SHOWN {
            self.shown.pop_front();
        }
        self.shown.push_back(shown);
    }
}

fn object_of(op: &DataOp) -> Option<ObjectId> {
    match op {
        DataOp::Write { object, .. }
        | DataOp::Read { object, .. }
        | DataOp::Truncate { object, .. }
        | DataOp::Allocate { object, .. }
        | DataOp::Zero { object, .. }
        | DataOp::Seek { object, .. }
        | DataOp::Stat { object }
        | DataOp::Remove { object } => Some(*object),
        _ => None,
    }
}
