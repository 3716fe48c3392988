//! What comes in over the net: whose session it is, what root of another host may do, who answers.

use gupfs_mds::Mds;
use gupfs_proto::limits::{SESSIONS_OF_ALL, SESSIONS_OF_ONE};
use gupfs_proto::meta::{self, Answer, Op};
use gupfs_proto::wire::Reply;
use gupfs_proto::{Caller, Refusal, SessionId, cluster, wire};
use gupfs_rpc::{Attend, Caller as From, ClientName, Host, KeyKind, Service};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// What root of another host becomes: the owner of nothing.
const NOBODY: u32 = 65_534;

/// Metadata requests of other processes.
pub struct MetaDoor {
    mds: Arc<Mds>,
    /// Root of other hosts counts as nobody.
    squash: bool,
    sessions: Mutex<Sessions>,
    /// Sessions that are being opened, by process.
    opening: Mutex<BTreeMap<u128, usize>>,
}

type Sessions = BTreeMap<SessionId, Bound>;

/// Whose a session is, and over which of his connections he was last heard.
#[derive(Clone, PartialEq, Eq)]
struct Bound {
    who: u128,
    connection: u64,
    /// The client key of its host; None for one with the cluster's.
    key: Option<ClientName>,
}

impl MetaDoor {
    pub fn new(mds: Arc<Mds>, squash: bool) -> Arc<MetaDoor> {
        Arc::new(MetaDoor {
            mds,
            squash,
            sessions: Mutex::default(),
            opening: Mutex::default(),
        })
    }

    /// A session belongs to the process that opened it; one from before our start to the first that uses it. What is asked
    /// in the name of no session goes on, to be refused by who knows sessions.
    fn admit(&self, from: &Arc<From>, session: SessionId) -> Result<(), Refusal> {
        let now = Bound::of(from);
        let mut sessions = self.sessions.lock();
        match sessions.get(&session) {
            Some(bound) if *bound == now => return Ok(()),
            Some(bound) if bound.who != now.who => {
                tracing::warn!(%session, from = from.from(), "somebody uses another's session; refused");
                return Err(Refusal::Denied);
            }
            // An older connection's last words.
            Some(bound) if bound.connection > now.connection => return Ok(()),
            Some(_) => {}
            None => match self.mds.client_of(session) {
                None => return Ok(()),
                // Before our start, it was opened with a key: another host does not come back as this one.
                Some(client) if owner(&client) != now.key.as_ref().map(tag).as_deref() => {
                    tracing::warn!(%session, from = from.from(), "a host comes back with the session of another; refused");
                    return Err(Refusal::Denied);
                }
                Some(_) => {}
            },
        }
        self.bind(&mut sessions, from, session);
        Ok(())
    }

    /// One more session for this process, if it and all together have few enough.
    ///
    /// # Errors
    /// `Overloaded`. A client asks again later.
    fn may_open(self: &Arc<Self>, from: &From) -> Result<Opening, Refusal> {
        let who = from.met().who;
        let mut opening = self.opening.lock();
        let mut sessions = self.sessions.lock();
        // Those that ended without a word of theirs.
        sessions.retain(|session, _| self.mds.has_session(*session));
        let own = sessions.values().filter(|bound| bound.who == who).count();
        let own = own + opening.get(&who).copied().unwrap_or(0);
        let all = sessions.len() + opening.values().sum::<usize>();
        if own >= SESSIONS_OF_ONE || all >= SESSIONS_OF_ALL {
            tracing::warn!(
                from = from.from(),
                own,
                all,
                "a session was refused: there are too many"
            );
            return Err(Refusal::Overloaded);
        }
        *opening.entry(who).or_default() += 1;
        Ok(Opening {
            door: self.clone(),
            who,
        })
    }

    /// Ends the sessions of hosts whose key is such; their connections are ended already.
    pub async fn end_sessions_of(&self, is_revoked: &(dyn Fn(&ClientName) -> bool + Sync)) {
        let ended: Vec<SessionId> = {
            let mut sessions = self.sessions.lock();
            let revoked = |bound: &Bound| bound.key.as_ref().is_some_and(is_revoked);
            let ended = sessions.iter().filter(|(_, bound)| revoked(bound));
            let ended = ended.map(|(session, _)| *session).collect();
            sessions.retain(|_, bound| !revoked(bound));
            ended
        };
        for session in ended {
            tracing::warn!(%session, "the key of its host is revoked; the session is ended");
            self.mds.end_session(session).await;
        }
    }

    /// Under the table's lock, so that the way back is always that of the connection in the table.
    fn bind(&self, sessions: &mut Sessions, from: &Arc<From>, session: SessionId) {
        if from.is_gone() {
            return;
        }
        sessions.insert(session, Bound::of(from));
        self.mds.attach(session, from.peer());
    }
}

/// A session that is being opened, as long as this is there: until then it is in no table.
struct Opening {
    door: Arc<MetaDoor>,
    who: u128,
}

impl Drop for Opening {
    fn drop(&mut self) {
        let mut opening = self.door.opening.lock();
        if let Some(count) = opening.get_mut(&self.who) {
            *count -= 1;
            if *count == 0 {
                opening.remove(&self.who);
            }
        }
    }
}

impl Bound {
    fn of(caller: &From) -> Bound {
        Bound {
            who: caller.met().who,
            connection: caller.number(),
            key: match &caller.met().key {
                KeyKind::Client { of, .. } => Some(of.clone()),
                _ => None,
            },
        }
    }
}

/// What a session's recorded name ends with when it was opened with a client key.
const OPENED: &str = " [key ";

fn tag(key: &ClientName) -> String {
    format!("{key}]")
}

/// The client key with which a session was opened, as its recorded name tells. Only the last one counts: what stands before it
/// the host chose itself.
fn owner(client: &str) -> Option<&str> {
    let (_, tag) = client.rsplit_once(OPENED)?;
    tag.ends_with(']').then_some(tag)
}

impl Host<meta::Request, meta::Reply> for MetaDoor {
    async fn answer(self: Arc<Self>, from: Arc<From>, mut question: meta::Request) -> meta::Reply {
        let opens = matches!(question.op, Op::OpenSession { .. });
        let closes = matches!(question.op, Op::CloseSession);
        let session = question.session;
        let admitted = match opens {
            true => self.may_open(&from).map(Some),
            false => self.admit(&from, session).map(|()| None),
        };
        let _opening = match admitted {
            Ok(opening) => opening,
            Err(refusal) => return meta::Reply::refused(refusal),
        };
        if self.squash && !from.is_local() {
            squash(&mut question);
        }
        if let (Op::OpenSession { client }, Some(key)) = (&mut question.op, &Bound::of(&from).key) {
            client.push_str(OPENED);
            client.push_str(&tag(key));
        }
        let reply = self.mds.clone().answer(question).await;
        match &reply.result {
            Ok(Answer::Session { session, .. }) => {
                self.bind(&mut self.sessions.lock(), &from, *session);
            }
            Err(Refusal::SessionEnded) => drop(self.sessions.lock().remove(&session)),
            Ok(_) if closes => drop(self.sessions.lock().remove(&session)),
            _ => {}
        }
        reply
    }
}

impl Attend for MetaDoor {
    fn left(&self, caller: &Arc<From>) {
        let gone = Bound::of(caller);
        let sessions = self.sessions.lock();
        for (session, _) in sessions.iter().filter(|(_, bound)| **bound == gone) {
            self.mds.detach(*session);
        }
    }
}

/// Root of another host is nobody in what it does for its programs. What a client does for itself (telling what was
/// written, sessions) it does as it is.
fn squash(question: &mut meta::Request) {
    if let Op::Return { kept, .. } = &mut question.op {
        // Said again as it was done.
        for change in kept {
            if let Ok(op) = wire::op_of(&change.op) {
                squash_caller(&mut change.caller, &op);
            }
        }
        return;
    }
    squash_caller(&mut question.caller, &question.op);
}

fn squash_caller(caller: &mut Caller, op: &Op) {
    if caller.is_root() && is_for_a_program(op) {
        *caller = Caller::new(NOBODY, NOBODY, Vec::new());
    }
}

fn is_for_a_program(op: &Op) -> bool {
    match op {
        Op::Open { open, .. } => !open.access.is_empty() || open.truncate,
        Op::Truncate { by_handle, .. } => !by_handle,
        // A ctime is set by clients alone: when they tell that a file was read.
        Op::SetAttr { set, .. } => set.ctime.is_none(),
        Op::GetAttr { .. }
        | Op::StatFs
        | Op::WriteInline { .. }
        | Op::BeginWrite { .. }
        | Op::Spilled { .. }
        | Op::EndWrite { .. }
        | Op::KillPrivileges { .. }
        | Op::OpenSession { .. }
        | Op::CloseSession
        | Op::Forgotten { .. }
        | Op::Sync { .. }
        | Op::Renew
        | Op::Return { .. }
        | Op::Permit { .. }
        | Op::Lock(_) => false,
        _ => true,
    }
}

type Saying = Pin<Box<dyn Future<Output = cluster::Reply> + Send>>;

/// Questions about the cluster: its status, and the rest to the metadata server, if this process has one.
pub struct ClusterDoor {
    pub mds: Option<Arc<Mds>>,
    pub status: Box<dyn Fn() -> Saying + Send + Sync>,
}

impl Service<cluster::Request, cluster::Reply> for ClusterDoor {
    async fn answer(self: Arc<Self>, question: cluster::Request) -> cluster::Reply {
        match (question, &self.mds) {
            (cluster::Request::Status, _) => (self.status)().await,
            (question, Some(mds)) => mds.clone().answer(question).await,
            (_, None) => Err(Refusal::NotSupported),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gupfs_proto::meta::{Access, OpenHow, SetAttr, SetTime};
    use gupfs_proto::{InodeId, Name, OwnerEpoch, Seq, Timestamp};

    fn caller_of(op: Op) -> u32 {
        let mut question = meta::Request {
            session: SessionId(1),
            lane: None,
            caller: Caller::root(),
            job: 0,
            life: OwnerEpoch(0),
            seen: Seq(0),
            op,
        };
        squash(&mut question);
        question.caller.uid
    }

    fn open(access: Access) -> Op {
        let open = OpenHow {
            access,
            truncate: false,
            kill_privileges: false,
        };
        Op::Open {
            ino: InodeId(9),
            open,
        }
    }

    #[test]
    fn root_of_another_host_is_nobody_and_its_client_is_not() {
        let ino = InodeId(9);
        let chmod = SetAttr {
            mode: Some(0o777),
            ..SetAttr::default()
        };
        let was_read = SetAttr {
            atime: Some(SetTime::To(Timestamp::new(5, 0))),
            ctime: Some(Timestamp::new(4, 0)),
            ..SetAttr::default()
        };
        let unlink = Op::Unlink {
            dir: ino,
            name: Name::new(b"f").unwrap(),
        };
        for op in [open(Access::READ), Op::SetAttr { ino, set: chmod }, unlink] {
            assert_eq!(caller_of(op.clone()), NOBODY, "{op:?}");
        }
        let told = Op::SetAttr { ino, set: was_read };
        for op in [
            open(Access::empty()),
            told,
            Op::GetAttr { ino },
            Op::CloseSession,
        ] {
            assert_eq!(caller_of(op.clone()), 0, "{op:?}");
        }
    }
}
