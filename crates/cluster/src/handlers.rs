//! Handlers of requests from other processes: they check the owner of the session and squash root before the server handles a
//! request.

use gupfs_mds::Mds;
use gupfs_proto::limits::{SESSIONS_MAX, SESSIONS_PER_CLIENT_MAX};
use gupfs_proto::meta::{self, MetaOp, MetaReplyBody};
use gupfs_proto::wire::ReplyMessage;
use gupfs_proto::{Caller, FsError, SessionId, cluster};
use gupfs_rpc::{ClientKeyId, ConnectedPeer, ConnectionObserver, PeerHandler, ProvenKey, Service};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// The uid and gid that replace root's if root of the host is squashed: no file belongs to them.
const NOBODY: u32 = 65_534;

/// Whether the server squashes root of the host that sent a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum RootSquash {
    Off,
    On,
}

/// Handles metadata requests of other processes.
pub struct MetaHandler {
    mds: Arc<Mds>,
    /// Squash root of hosts, unless their key says otherwise.
    squash: bool,
    sessions: Mutex<Sessions>,
    /// The number of `OpenSession` requests that are running, by process id.
    opening: Mutex<BTreeMap<u128, usize>>,
}

type Sessions = BTreeMap<SessionId, SessionOwner>;

/// The process that owns a session, and the connection over which it last used it.
#[derive(Clone, PartialEq, Eq)]
struct SessionOwner {
    process_id: u128,
    connection: u64,
    /// The client key of its host; None for a host with the cluster key.
    client_key: Option<ClientKeyId>,
}

impl MetaHandler {
    pub fn new(mds: Arc<Mds>, squash: bool) -> Arc<MetaHandler> {
        Arc::new(MetaHandler {
            mds,
            squash,
            sessions: Mutex::default(),
            opening: Mutex::default(),
        })
    }

    /// Depends only on the peer, never on the request.
    fn root_squash_of(&self, from: &ConnectedPeer) -> RootSquash {
        match self.squash && !from.identity().key.is_root_trusted() {
            true => RootSquash::On,
            false => RootSquash::Off,
        }
    }

    /// A session belongs to the process that opened it; a session from before this server's start belongs to the first process
    /// that uses it. A request of an unknown session passes: the metadata server refuses it.
    fn check_owner(&self, from: &Arc<ConnectedPeer>, session: SessionId) -> Result<(), FsError> {
        let now = SessionOwner::of(from);
        let mut sessions = self.sessions.lock();
        match sessions.get(&session) {
            Some(owner) if *owner == now => return Ok(()),
            Some(owner) if owner.process_id != now.process_id => {
                tracing::warn!(%session, from = from.address(), "request from a process that does not own the session; refused");
                return Err(FsError::Denied);
            }
            // A late request of an older connection.
            Some(owner) if owner.connection > now.connection => return Ok(()),
            Some(_) => {}
            None => match self.mds.client_of(session) {
                None => return Ok(()),
                // A session from before this server's start, opened with a client key: a host with another key must not reclaim
                // it.
                Some(client)
                    if recorded_client_key(&client)
                        != now.client_key.as_ref().map(client_key_suffix).as_deref() =>
                {
                    tracing::warn!(%session, from = from.address(), "a host tries to reclaim a session of a host with another key; refused");
                    return Err(FsError::Denied);
                }
                Some(_) => {}
            },
        }
        self.attach_session(&mut sessions, from, session);
        Ok(())
    }

    /// Reserves one more session for this process, within the limits per process and per server.
    ///
    /// # Errors
    /// `Overloaded`. The client tries again later.
    fn reserve_session(self: &Arc<Self>, from: &ConnectedPeer) -> Result<OpeningSession, FsError> {
        let process_id = from.identity().process_id;
        let mut opening = self.opening.lock();
        let mut sessions = self.sessions.lock();
        // Removes sessions that ended without a `CloseSession`.
        sessions.retain(|session, _| self.mds.has_session(*session));
        let own = sessions
            .values()
            .filter(|owner| owner.process_id == process_id)
            .count();
        let own = own + opening.get(&process_id).copied().unwrap_or(0);
        let all = sessions.len() + opening.values().sum::<usize>();
        if own >= SESSIONS_PER_CLIENT_MAX || all >= SESSIONS_MAX {
            tracing::warn!(
                from = from.address(),
                own,
                all,
                "OpenSession refused: too many sessions of this process or in all"
            );
            return Err(FsError::Overloaded);
        }
        *opening.entry(process_id).or_default() += 1;
        Ok(OpeningSession {
            handler: self.clone(),
            process_id,
        })
    }

    /// Ends the sessions of hosts with revoked keys; their connections are closed already.
    pub async fn end_revoked_sessions(&self, is_revoked: &(dyn Fn(&ClientKeyId) -> bool + Sync)) {
        let ended: Vec<SessionId> = {
            let mut sessions = self.sessions.lock();
            let revoked = |owner: &SessionOwner| owner.client_key.as_ref().is_some_and(is_revoked);
            let ended = sessions.iter().filter(|(_, owner)| revoked(owner));
            let ended = ended.map(|(session, _)| *session).collect();
            sessions.retain(|_, owner| !revoked(owner));
            ended
        };
        for session in ended {
            tracing::warn!(%session, "session ended: the key of its host is revoked");
            self.mds.end_session(session).await;
        }
    }

    /// Runs under the table's lock, so that callbacks always use the connection that the table has.
    fn attach_session(
        &self,
        sessions: &mut Sessions,
        from: &Arc<ConnectedPeer>,
        session: SessionId,
    ) {
        if from.is_closed() {
            return;
        }
        sessions.insert(session, SessionOwner::of(from));
        self.mds.attach(session, from.peer());
    }
}

/// Counts a running `OpenSession` until it is dropped: until then the session is in no table.
struct OpeningSession {
    handler: Arc<MetaHandler>,
    process_id: u128,
}

impl Drop for OpeningSession {
    fn drop(&mut self) {
        let mut opening = self.handler.opening.lock();
        if let Some(count) = opening.get_mut(&self.process_id) {
            *count -= 1;
            if *count == 0 {
                opening.remove(&self.process_id);
            }
        }
    }
}

impl SessionOwner {
    fn of(peer: &ConnectedPeer) -> SessionOwner {
        SessionOwner {
            process_id: peer.identity().process_id,
            connection: peer.number(),
            client_key: match &peer.identity().key {
                ProvenKey::Client { id, .. } => Some(id.clone()),
                _ => None,
            },
        }
    }
}

/// Begins the suffix of a session's recorded client name if the session was opened with a client key.
const CLIENT_KEY_PREFIX: &str = " [key ";

fn client_key_suffix(key: &ClientKeyId) -> String {
    format!("{key}]")
}

/// The client key with which a session was opened, from its recorded client name. Only the last suffix counts: the host chose the
/// text before it.
fn recorded_client_key(client: &str) -> Option<&str> {
    let (_, tag) = client.rsplit_once(CLIENT_KEY_PREFIX)?;
    tag.ends_with(']').then_some(tag)
}

impl PeerHandler<meta::MetaRequest, meta::MetaReply> for MetaHandler {
    async fn handle(
        self: Arc<Self>,
        from: Arc<ConnectedPeer>,
        mut request: meta::MetaRequest,
    ) -> meta::MetaReply {
        let opens = matches!(request.op, MetaOp::OpenSession { .. });
        let closes = matches!(request.op, MetaOp::CloseSession);
        let session = request.session;
        let admitted = match opens {
            true => self.reserve_session(&from).map(Some),
            false => self.check_owner(&from, session).map(|()| None),
        };
        let _opening = match admitted {
            Ok(opening) => opening,
            Err(error) => return meta::MetaReply::from_error(error),
        };
        match self.root_squash_of(&from) {
            RootSquash::Off => {}
            RootSquash::On => squash_root(&mut request),
        }
        if let (MetaOp::OpenSession { client }, Some(key)) =
            (&mut request.op, &SessionOwner::of(&from).client_key)
        {
            client.push_str(CLIENT_KEY_PREFIX);
            client.push_str(&client_key_suffix(key));
        }
        let reply = self.mds.clone().handle(request).await;
        match &reply.result {
            Ok(MetaReplyBody::Session { session, .. }) => {
                self.attach_session(&mut self.sessions.lock(), &from, *session);
            }
            Err(FsError::SessionEnded) => drop(self.sessions.lock().remove(&session)),
            Ok(_) if closes => drop(self.sessions.lock().remove(&session)),
            _ => {}
        }
        reply
    }
}

impl ConnectionObserver for MetaHandler {
    fn disconnected(&self, peer: &Arc<ConnectedPeer>) {
        let gone = SessionOwner::of(peer);
        let sessions = self.sessions.lock();
        for (session, _) in sessions.iter().filter(|(_, owner)| **owner == gone) {
            self.mds.detach(*session);
        }
    }
}

/// Squashes root in the credentials of a request: uid 0, gid 0 and the supplementary group 0 become `NOBODY`. The kind of request
/// does not matter; a client authorizes what it does for open files by open capabilities
/// (`gupfs_proto::capability::OpenCapability`).
fn squash_root(request: &mut meta::MetaRequest) {
    squash_caller(&mut request.caller);
    // Replayed operations have the credentials of their original requests. (A request with open capabilities cannot contain a
    // replay, so no credentials are hidden in one.)
    if let MetaOp::Replay { records, .. } = &mut request.op {
        for change in records {
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

type StatusFuture = Pin<Box<dyn Future<Output = cluster::ClusterReply> + Send>>;

/// Handles cluster requests: replies with the status, and passes the rest to the metadata server, if this process has one.
pub struct ClusterHandler {
    pub mds: Option<Arc<Mds>>,
    pub status: Box<dyn Fn() -> StatusFuture + Send + Sync>,
}

impl Service<cluster::ClusterRequest, cluster::ClusterReply> for ClusterHandler {
    async fn handle(self: Arc<Self>, request: cluster::ClusterRequest) -> cluster::ClusterReply {
        match (request, &self.mds) {
            (cluster::ClusterRequest::Status, _) => (self.status)().await,
            (request, Some(mds)) => mds.clone().handle(request).await,
            (_, None) => Err(FsError::NotSupported),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gupfs_proto::meta::{
        AccessMode, AppliedChange, OpenMode, ReplayRecord, SetAttr, SetTime, SlotSeq, WritePosition,
    };
    use gupfs_proto::{InodeId, OwnerEpoch, Seq, Slot, Timestamp, wire};

    fn request(caller: Caller, op: MetaOp) -> meta::MetaRequest {
        meta::MetaRequest {
            session: SessionId(1),
            slot_seq: None,
            caller,
            job: 0,
            instance: OwnerEpoch(0),
            last_seen: Seq(0),
            op,
        }
    }

    /// Operations of all kinds, including all that a client sends for its own bookkeeping.
    fn operations() -> Vec<MetaOp> {
        let ino = InodeId(9);
        let open = |access, truncate| MetaOp::Open {
            ino,
            open: OpenMode {
                access,
                truncate,
                kill_privileges: false,
            },
        };
        let set = |mode, atime: Option<i64>, ctime: Option<i64>| MetaOp::SetAttr {
            ino,
            set: SetAttr {
                mode,
                atime: atime.map(|at| SetTime::To(Timestamp::new(at, 0))),
                ctime: ctime.map(|at| Timestamp::new(at, 0)),
                ..SetAttr::default()
            },
        };
        let truncate = |by_handle| MetaOp::Truncate {
            ino,
            to: 0,
            by_handle,
            kill_privileges: false,
        };
        let written = wire::encode_op(&MetaOp::GetAttr { ino });
        vec![
            open(AccessMode::empty(), false),
            open(AccessMode::empty(), true),
            open(AccessMode::READ, false),
            set(Some(0o4777), None, Some(5)),
            set(None, Some(5), Some(5)),
            truncate(true),
            truncate(false),
            MetaOp::WriteInline {
                ino,
                at: WritePosition::End,
                data: Default::default(),
                kill_privileges: false,
            },
            MetaOp::BeginWrite {
                ino,
                kill_privileges: false,
            },
            MetaOp::KillPrivileges { ino },
            MetaOp::GetAttr { ino },
            MetaOp::StatFs,
            MetaOp::Renew,
            MetaOp::CloseSession,
            MetaOp::OpenSession { client: "c".into() },
            MetaOp::WithOpenCapability {
                open_capabilities: vec![],
                op: written,
            },
        ]
    }

    #[test]
    fn root_and_its_group_of_another_host_are_squashed_in_every_request() {
        let squashed = |caller: Caller, op: MetaOp| {
            let mut request = request(caller, op.clone());
            squash_root(&mut request);
            assert_eq!(request.op, op);
            request.caller
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
    fn root_and_its_group_of_another_host_are_squashed_in_replayed_operations() {
        let replayed = |caller: Caller, op: &MetaOp| ReplayRecord {
            change: AppliedChange {
                seq: Seq(1),
                at: Timestamp::default(),
            },
            slot_seq: SlotSeq {
                slot: Slot(0),
                sequence: 1,
            },
            caller,
            op: wire::encode_op(op),
            created: None,
            layout: None,
        };
        let mut request = request(
            Caller::root(),
            MetaOp::Replay {
                instance: OwnerEpoch(1),
                records: operations()
                    .iter()
                    .map(|op| replayed(Caller::new(0, 0, [0]), op))
                    .collect(),
                locks: vec![],
                last: true,
            },
        );
        squash_root(&mut request);
        let MetaOp::Replay { records, .. } = request.op else {
            unreachable!()
        };
        let nobody = Caller::new(NOBODY, NOBODY, [NOBODY]);
        assert!(records.iter().all(|change| change.caller == nobody));
    }
}
