//! What comes in over the net: whose session it is, what root of another host may do, who answers.

use gupfs_mds::Mds;
use gupfs_proto::limits::{SESSIONS_OF_ALL, SESSIONS_OF_ONE};
use gupfs_proto::meta::{self, Answer, Op};
use gupfs_proto::wire::Reply;
use gupfs_proto::{Caller, Refusal, SessionId, cluster};
use gupfs_rpc::{Attend, Caller as From, ClientName, Host, KeyKind, Service};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// What root, and its group, of a host become whose root does not count: the owner of nothing.
const NOBODY: u32 = 65_534;

/// What the root of the process that asks counts as.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Standing {
    RootCounts,
    Squashed,
}

/// Metadata requests of other processes.
pub struct MetaDoor {
    mds: Arc<Mds>,
    /// Root of hosts whose key does not say otherwise counts as nobody.
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

    /// Decided by who asks alone, never by what.
    fn standing_of(&self, from: &From) -> Standing {
        match self.squash && !from.met().key.root_counts() {
            true => Standing::Squashed,
            false => Standing::RootCounts,
        }
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
        match self.standing_of(&from) {
            Standing::RootCounts => {}
            Standing::Squashed => squash(&mut question),
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

/// Credentials of a host whose root does not count: its uid 0, its gid 0 and the group 0 become nobody's. Whatever the request
/// asks for; what a client does on behalf of open files has another proof (`gupfs_proto::capability::OpenProof`).
fn squash(question: &mut meta::Request) {
    squash_caller(&mut question.caller);
    // What is said again has the credentials of then. (Beside proofs nothing can be said again, so nothing is hidden there.)
    if let Op::Return { kept, .. } = &mut question.op {
        for change in kept {
            squash_caller(&mut change.caller);
        }
    }
}

fn squash_caller(caller: &mut Caller) {
    let squashed = |id: u32| match id {
        0 => NOBODY,
        id => id,
    };
    if caller.groups.contains(&0) {
        caller.groups = caller.groups.iter().map(|gid| squashed(*gid)).collect();
    }
    (caller.uid, caller.gid) = (squashed(caller.uid), squashed(caller.gid));
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
    use gupfs_proto::meta::{Access, Change, Kept, Lane, OpenHow, SetAttr, SetTime, WriteAt};
    use gupfs_proto::{InodeId, OwnerEpoch, Seq, Slot, Timestamp, wire};

    fn question(caller: Caller, op: Op) -> meta::Request {
        meta::Request {
            session: SessionId(1),
            lane: None,
            caller,
            job: 0,
            life: OwnerEpoch(0),
            seen: Seq(0),
            op,
        }
    }

    /// Among them all that look like a client's own bookkeeping.
    fn operations() -> Vec<Op> {
        let ino = InodeId(9);
        let open = |access, truncate| Op::Open {
            ino,
            open: OpenHow {
                access,
                truncate,
                kill_privileges: false,
            },
        };
        let set = |mode, atime: Option<i64>, ctime: Option<i64>| Op::SetAttr {
            ino,
            set: SetAttr {
                mode,
                atime: atime.map(|at| SetTime::To(Timestamp::new(at, 0))),
                ctime: ctime.map(|at| Timestamp::new(at, 0)),
                ..SetAttr::default()
            },
        };
        let truncate = |by_handle| Op::Truncate {
            ino,
            to: 0,
            by_handle,
            kill_privileges: false,
        };
        let written = wire::op_bytes(&Op::GetAttr { ino });
        vec![
            open(Access::empty(), false),
            open(Access::empty(), true),
            open(Access::READ, false),
            set(Some(0o4777), None, Some(5)),
            set(None, Some(5), Some(5)),
            truncate(true),
            truncate(false),
            Op::WriteInline {
                ino,
                at: WriteAt::End,
                data: Default::default(),
                kill_privileges: false,
            },
            Op::BeginWrite {
                ino,
                kill_privileges: false,
            },
            Op::KillPrivileges { ino },
            Op::GetAttr { ino },
            Op::StatFs,
            Op::Renew,
            Op::CloseSession,
            Op::OpenSession { client: "c".into() },
            Op::Proven {
                proofs: vec![],
                op: written,
            },
        ]
    }

    #[test]
    fn root_and_its_group_of_another_host_are_nobody_whatever_is_asked() {
        let squashed = |caller: Caller, op: Op| {
            let mut question = question(caller, op.clone());
            squash(&mut question);
            assert_eq!(question.op, op);
            question.caller
        };
        for op in operations() {
            for (from, to) in [
                (Caller::root(), Caller::new(NOBODY, NOBODY, [])),
                (
                    Caller::new(0, 5, [0, 7]),
                    Caller::new(NOBODY, 5, [NOBODY, 7]),
                ),
                (Caller::new(1000, 0, []), Caller::new(1000, NOBODY, [])),
                (
                    Caller::new(1000, 100, [4, 0]),
                    Caller::new(1000, 100, [4, NOBODY]),
                ),
                (Caller::new(1000, 100, [4]), Caller::new(1000, 100, [4])),
            ] {
                assert_eq!(squashed(from, op.clone()), to, "{op:?}");
            }
        }
    }

    #[test]
    fn so_they_are_in_what_is_said_again() {
        let said = |caller: Caller, op: &Op| Kept {
            change: Change {
                seq: Seq(1),
                at: Timestamp::default(),
            },
            lane: Lane {
                slot: Slot(0),
                sequence: 1,
            },
            caller,
            op: wire::op_bytes(op),
            made: None,
            layout: None,
        };
        let mut question = question(
            Caller::root(),
            Op::Return {
                of: OwnerEpoch(1),
                kept: operations()
                    .iter()
                    .map(|op| said(Caller::new(0, 0, [0]), op))
                    .collect(),
                locks: vec![],
                last: true,
            },
        );
        squash(&mut question);
        let Op::Return { kept, .. } = question.op else {
            unreachable!()
        };
        let nobody = Caller::new(NOBODY, NOBODY, [NOBODY]);
        assert!(kept.iter().all(|change| change.caller == nobody));
    }
}
