//! # rights: which requests object servers accept, compared with those they may accept
//!
//! Owns   which sessions were ended, which session capabilities have expired, which session has the write lease of which file;
//!        the credentials shown lately.
//! Never  verifies a MAC: the attacker tries whether an object server refuses a forged one.
//! Enter  at `Rights::arrives` and `Arrived::answered` for a request, at `Rights::ended` and `Rights::holds` for what the
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
pub struct Rights {
    /// Rises with each event.
    now: u64,
    /// Object servers that have confirmed a session's fence: they do nothing for that session any more.
    fenced: BTreeMap<(u64, SessionId), u64>,
    /// Ended sessions, with the event after which no server may accept them.
    ended: BTreeMap<SessionId, u64>,
    /// When the process of each object server began.
    lives: BTreeMap<u64, u64>,
    passes: BTreeMap<(u64, SessionId), SessionCapability>,
    /// The session with the write lease of each file, and since which event.
    holders: BTreeMap<InodeId, (SessionId, u64)>,
    shown: VecDeque<Shown>,
}

/// The credentials that a client showed for a file and that an object server accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shown {
    pub ost: OstId,
    pub session: SessionId,
    pub object: ObjectId,
    pub pass: SessionCapability,
    pub grant: ObjectCapability,
}

/// A request that arrived at an object server.
pub struct Arrived {
    host: u64,
    event: u64,
    session: SessionId,
    ost: OstId,
    warrant: DataCredentials,
    /// Time on the metadata server's clock, which decides when a session capability expires.
    millis: u64,
    object: Option<ObjectId>,
    changes: bool,
    fences: Option<SessionId>,
    op: &'static str,
}

impl Rights {
    fn event(&mut self) -> u64 {
        self.now += 1;
        self.now
    }

    /// An object server's process begins: it has not yet learnt anything about sessions.
    pub fn begins(&mut self, host: u64) {
        let now = self.event();
        self.lives.insert(host, now);
    }

    pub fn ended(&mut self, session: SessionId) {
        let now = self.event();
        self.ended.entry(session).or_insert(now);
    }

    pub fn holds(&mut self, ino: InodeId, session: SessionId) {
        let now = self.event();
        let (holder, since) = self.holders.entry(ino).or_insert((session, now));
        if *holder != session {
            (*holder, *since) = (session, now);
        }
    }

    pub fn gives_back(&mut self, ino: InodeId, session: SessionId) {
        if self
            .holders
            .get(&ino)
            .is_some_and(|(holder, _)| *holder == session)
        {
            self.holders.remove(&ino);
        }
    }

    /// The credentials shown, the newest last.
    pub fn shown(&self) -> impl DoubleEndedIterator<Item = &Shown> + ExactSizeIterator {
        self.shown.iter()
    }

    pub fn arrives(&mut self, host: u64, request: &DataRequest, millis: u64) -> Arrived {
        Arrived {
            host,
            event: self.event(),
            session: request.session,
            ost: request.ost,
            warrant: request.credentials,
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
    pub fn answered(
        &mut self,
        arrived: &Arrived,
        reply: &DataReply,
    ) -> Result<Option<&'static str>, String> {
        if let (Some(session), Ok(_)) = (arrived.fences, reply) {
            let now = self.event();
            self.fenced.insert((arrived.host, session), now);
            self.ended.entry(session).or_insert(now);
        }
        let DataCredentials::Client {
            session_capability: pass,
            object_capability: grant,
        } = arrived.warrant
        else {
            return Ok(None);
        };
        if let Err(FsError::Capability(fault)) = reply {
            return Ok(match fault {
                CapabilityFault::Expired if pass.until <= arrived.millis => {
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
        self.may_be_done(arrived, &pass)?;
        let known = self.passes.insert((arrived.host, arrived.session), pass);
        let renewed =
            known.is_some_and(|known| known.epoch == pass.epoch && known.until < pass.until);
        if let (Some(object), Some(grant)) = (arrived.object, grant) {
            self.keep(Shown {
                ost: arrived.ost,
                session: arrived.session,
                object,
                pass,
                grant,
            });
        }
        Ok(renewed.then_some("renewed session capability"))
    }

    fn may_be_done(&self, arrived: &Arrived, pass: &SessionCapability) -> Result<(), String> {
        let (host, session, op) = (arrived.host, arrived.session, arrived.op);
        let wrong = |why: &str| Err(format!("oss{host} did a {op} of session {session}: {why}"));
        if pass.until < arrived.millis {
            return wrong("its session capability had expired");
        }
        // Also a request that arrived before the fence: a fence waits for the requests under way.
        if self.fenced.contains_key(&(host, session)) {
            return wrong("the object server had confirmed the session's fence");
        }
        let begun = self.lives.get(&host).copied().unwrap_or(0);
        if self.ended.get(&session).is_some_and(|ended| *ended < begun) {
            return wrong("the session had ended before the object server started");
        }
        if let Some(object) = arrived.object.filter(|_| arrived.changes)
            && let Some((holder, since)) = self.holders.get(&object.ino)
            && (*holder != session && *since < arrived.event)
        {
            return wrong("another session has the file's write lease");
        }
        Ok(())
    }

    fn keep(&mut self, shown: Shown) {
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
