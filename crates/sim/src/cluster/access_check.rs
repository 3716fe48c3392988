//! # access_check: which requests object servers accept, compared with those that they may accept
//!
//! Owns   which sessions have ended, which session capabilities have expired, which session has the write lease of which file;
//!        which members their writers have left out; the credentials that clients showed lately.
//! Never  verifies a MAC: the attacker tests whether object servers refuse forged ones.
//! Enter  at `AccessCheck::request_arrives` and `AccessCheck::check_reply` for a request, at `AccessCheck::session_ended`,
//!        `AccessCheck::take_lease` and `AccessCheck::release_lease` for actions of the metadata server.

use gupfs_proto::capability::{
    CapabilityFault, DataCredentials, ObjectCapability, SessionCapability,
};
use gupfs_proto::data::{DataOp, DataReply, DataReplyBody, DataRequest};
use gupfs_proto::{FsError, InodeId, ObjectId, OstId, SessionId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Number of shown credentials that the attacker may replay.
const SHOWN_KEPT: usize = 256;

#[derive(Default)]
pub struct AccessCheck {
    /// Number of the newest event.
    now: u64,
    /// Object servers that have confirmed a session's fence, with the event: they execute no request of that session any more.
    fenced: BTreeMap<(u64, SessionId), u64>,
    /// Ended sessions, with the event. An object server that starts later must not accept them.
    ended: BTreeMap<SessionId, u64>,
    /// The event in which the process of each object server started.
    started: BTreeMap<u64, u64>,
    session_capabilities: BTreeMap<(u64, SessionId), SessionCapability>,
    /// The sessions with write leases of each file, and the events in which they got them.
    holders: BTreeMap<InodeId, BTreeMap<SessionId, u64>>,
    /// Members that are stale and not fenced since. A change that a client gave up may still arrive at them.
    left_out: BTreeSet<ObjectId>,
    /// Members that a client left out while a resync was copying to them: the fence of that copying was before, the next one is awaited.
    left_out_meanwhile: BTreeSet<ObjectId>,
    shown: VecDeque<ShownCredentials>,
}

/// Credentials that a client showed for a file and an object server accepted.
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
    /// Time on the metadata server's clock; it decides whether a session capability has expired.
    millis: u64,
    object: Option<ObjectId>,
    changes: bool,
    fences: Option<SessionId>,
    fences_object: Option<ObjectId>,
    op: &'static str,
}

impl AccessCheck {
    fn event(&mut self) -> u64 {
        self.now += 1;
        self.now
    }

    /// An object server's process has started: it has not learned of any session yet.
    pub fn server_started(&mut self, host: u64) {
        let now = self.event();
        self.started.insert(host, now);
    }

    pub fn session_ended(&mut self, session: SessionId) {
        let now = self.event();
        self.ended.entry(session).or_insert(now);
    }

    /// `concurrent`: other sessions keep theirs.
    pub fn take_lease(&mut self, ino: InodeId, session: SessionId, concurrent: bool) {
        let now = self.event();
        let holders = self.holders.entry(ino).or_default();
        if !concurrent {
            holders.retain(|holder, _| *holder == session);
        }
        holders.entry(session).or_insert(now);
    }

    pub fn release_lease(&mut self, ino: InodeId, session: SessionId) {
        if let Some(holders) = self.holders.get_mut(&ino) {
            holders.remove(&session);
        }
    }

    /// A client was told that a member is stale. `is_being_copied`: a resync has fenced it and copies to it, since it was stale before.
    pub fn leave_out(&mut self, member: ObjectId, is_being_copied: bool) {
        match is_being_copied {
            true => self.left_out_meanwhile.insert(member),
            false => self.left_out.insert(member),
        };
    }

    /// A resync has synced what it copied to this member: it must fence it before it copies again.
    pub fn copy_ended(&mut self, member: ObjectId) {
        if self.left_out_meanwhile.remove(&member) {
            self.left_out.insert(member);
        }
    }

    /// The shown credentials, the newest last.
    pub fn shown_credentials(
        &self,
    ) -> impl DoubleEndedIterator<Item = &ShownCredentials> + ExactSizeIterator {
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
            fences_object: match request.op {
                DataOp::FenceObject { object, .. } => Some(object),
                _ => None,
            },
            op: request.op.name(),
        }
    }

    /// Returns the rare event that this request was, if any.
    ///
    /// # Errors
    /// The request that the object server must not have executed.
    pub fn check_reply(
        &mut self,
        arrived: &ArrivedRequest,
        reply: &DataReply,
    ) -> Result<Option<&'static str>, String> {
        let own = match reply {
            Ok(DataReplyBody::WrittenMembers {
                own: Err(error), ..
            }) => Err(error.clone()),
            other => other.clone(),
        };
        let reply = &own;
        if let (Some(object), Ok(_)) = (arrived.fences_object, reply) {
            self.left_out.remove(&object);
            self.left_out_meanwhile.remove(&object);
        }
        if let (Some(session), Ok(_)) = (arrived.fences, reply) {
            let now = self.event();
            self.fenced.insert((arrived.host, session), now);
            self.ended.entry(session).or_insert(now);
        }
        let DataCredentials::Client {
            session_capability,
            object_capability,
        } = arrived.credentials
        else {
            return self.check_server(arrived, reply);
        };
        if let Err(FsError::Capability(fault)) = reply {
            return Ok(match fault {
                CapabilityFault::Expired if session_capability.until <= arrived.millis => {
                    Some("expired session capability refused")
                }
                CapabilityFault::Expired => Some("capability of a former lease holder refused"),
                CapabilityFault::Fenced => Some("request of an ended session refused"),
                CapabilityFault::Forged | CapabilityFault::Rights | CapabilityFault::Missing => {
                    None
                }
            });
        }
        // This is the request handler's own reply: the connection ended before the server accepted the request.
        if let Err(FsError::TimedOut(_)) = reply {
            return Ok(None);
        }
        // Its client has given it up, or the object server was started again.
        if arrived.op == "relayed_write" && *reply == Err(FsError::Stale) {
            return Ok(Some("relayed write without its ticket refused"));
        }
        self.check_allowed(arrived, &session_capability)?;
        let known = self
            .session_capabilities
            .insert((arrived.host, arrived.session), session_capability);
        let renewed = known.is_some_and(|known| {
            known.epoch == session_capability.epoch && known.until < session_capability.until
        });
        if let (Some(object), Some(object_capability)) = (arrived.object, object_capability) {
            self.keep_shown(ShownCredentials {
                ost: arrived.ost,
                session: arrived.session,
                object,
                session_capability,
                object_capability,
            });
        }
        Ok(renewed.then_some("renewed session capability"))
    }

    /// A request of the metadata server.
    fn check_server(
        &self,
        arrived: &ArrivedRequest,
        reply: &DataReply,
    ) -> Result<Option<&'static str>, String> {
        let changed = arrived.object.filter(|_| arrived.changes && reply.is_ok());
        match changed.filter(|object| self.left_out.contains(object)) {
            // A removed object is gone, and a repair undoes no write.
            Some(object) if !matches!(arrived.op, "remove" | "set_aside" | "repair") => {
                Err(format!(
                    "oss{} did a {} of {object} before it was fenced, although its writer had left it out",
                    arrived.host, arrived.op
                ))
            }
            _ => Ok(None),
        }
    }

    fn check_allowed(
        &self,
        arrived: &ArrivedRequest,
        session_capability: &SessionCapability,
    ) -> Result<(), String> {
        let (host, session, op) = (arrived.host, arrived.session, arrived.op);
        let violation =
            |why: &str| Err(format!("oss{host} did a {op} of session {session}: {why}"));
        if session_capability.until < arrived.millis {
            return violation("its session capability had expired");
        }
        // This applies also to a request that arrived before the fence, because a fence waits for the requests in flight.
        if self.fenced.contains_key(&(host, session)) {
            return violation("the object server had confirmed the session's fence");
        }
        let started_at = self.started.get(&host).copied().unwrap_or(0);
        if self
            .ended
            .get(&session)
            .is_some_and(|ended| *ended < started_at)
        {
            return violation("the session had ended before the object server started");
        }
        if let Some(object) = arrived.object.filter(|_| arrived.changes)
            && !self.left_out.contains(&object)
            && let Some(holders) = self.holders.get(&object.ino)
            && !holders.contains_key(&session)
            && holders.values().any(|since| *since < arrived.event)
        {
            return violation("another session has the file's write lease");
        }
        Ok(())
    }

    fn keep_shown(&mut self, shown: ShownCredentials) {
        if self.shown.back() == Some(&shown) {
            return;
        }
        if self.shown.len() == SHOWN_KEPT {
            self.shown.pop_front();
        }
        self.shown.push_back(shown);
    }
}

fn object_of(op: &DataOp) -> Option<ObjectId> {
    match op {
        DataOp::Write { object, .. }
        | DataOp::NumberedWrite { object, .. }
        | DataOp::ReservedWrite { object, .. }
        | DataOp::MirroredWrite { object, .. }
        | DataOp::RelayedWrite { object, .. }
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
