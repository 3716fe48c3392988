//! A session that takes leases, the connection over which it is asked to give them up, and what a reply granted to it.

use crate::client::{Client, name, send};
use crate::fixture::{ServerInstance, Simulated};
use bytes::Bytes;
use gupfs_mds::{LeaseStatus, Mds};
use gupfs_platform::fake::FakePlatform;
use gupfs_proto::attr::Attr;
use gupfs_proto::callback::{CallbackReply, CallbackReplyBody, CallbackRequest};
use gupfs_proto::lease::{GrantNumber, LeaseGrant, LeaseKey, LeaseRevocation};
use gupfs_proto::meta::{
    MetaOp, MetaReplyBody, RenameMode, SetAttr, SlotSeq, XattrMode, XattrName,
};
use gupfs_proto::{FsError, InodeId, OwnerEpoch, SessionId, wire};
use gupfs_rpc::{Peer, Service};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering::SeqCst};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// A server whose sessions have a term, as those of a cluster have.
pub async fn start(fixture: &Simulated) -> ServerInstance {
    let platform = fixture.platform();
    start_on(fixture, platform).await
}

pub async fn start_on(fixture: &Simulated, platform: FakePlatform) -> ServerInstance {
    let mut options = fixture.start_options(&platform);
    options.keep_sessions = true;
    let mds = fixture.start_as(options).await.unwrap();
    ServerInstance { platform, mds }
}

/// The receiver of a session's callbacks.
pub struct Connection {
    session: SessionId,
    instance: OwnerEpoch,
    received: watch::Sender<Vec<LeaseRevocation>>,
    answers: watch::Sender<bool>,
}

impl Service<CallbackRequest, CallbackReply> for Connection {
    async fn handle(self: Arc<Self>, request: CallbackRequest) -> CallbackReply {
        match request {
            CallbackRequest::RevokeLeases {
                session,
                instance,
                revocation,
            } => {
                assert_eq!((session, instance), (self.session, self.instance));
                self.received.send_modify(|all| all.push(revocation));
                let mut answers = self.answers.subscribe();
                answers.wait_for(|answers| *answers).await.unwrap();
                Ok(CallbackReplyBody::Done)
            }
            CallbackRequest::CheckOpen { inodes } => {
                Ok(CallbackReplyBody::IsOpen(vec![false; inodes.len()]))
            }
            _ => Ok(CallbackReplyBody::Done),
        }
    }
}

impl Connection {
    fn new(mds: &Mds, session: SessionId) -> Arc<Connection> {
        Arc::new(Connection {
            session,
            instance: mds.owner_epoch(),
            received: watch::Sender::new(Vec::new()),
            answers: watch::Sender::new(true),
        })
    }

    /// From now on it answers no revocation.
    pub fn hold_answers(&self) {
        self.answers.send_replace(false);
    }

    /// Answers all revocations, also those that have arrived.
    pub fn answer(&self) {
        self.answers.send_replace(true);
    }

    pub fn revocations(&self) -> Vec<LeaseRevocation> {
        self.received.borrow().clone()
    }

    /// Returns when so many revocations have arrived.
    pub async fn wait_for_revocations(&self, count: usize) {
        let mut received = self.received.subscribe();
        received.wait_for(|all| all.len() >= count).await.unwrap();
    }

    pub fn revoked_keys(&self) -> BTreeSet<LeaseKey> {
        let received = self.received.borrow();
        received.iter().flat_map(|one| one.keys.clone()).collect()
    }
}

pub struct LeaseSession {
    pub client: Client,
    pub connection: Arc<Connection>,
    next_slot: AtomicU16,
}

impl LeaseSession {
    /// A session with a connection that renews, and takes leases.
    pub async fn open(mds: &Arc<Mds>) -> Arc<LeaseSession> {
        let session = LeaseSession::open_silent(mds).await;
        session.keep_renewing();
        session
    }

    /// A session as above that never renews.
    pub async fn open_silent(mds: &Arc<Mds>) -> Arc<LeaseSession> {
        let session = LeaseSession::of(mds, Client::open(mds).await);
        let accepted = session.send(MetaOp::AcceptLeases).await.outcome;
        let root_squashed = false;
        assert_eq!(
            accepted,
            Ok(MetaReplyBody::LeasesAccepted { root_squashed })
        );
        session
    }

    /// A session with a connection.
    pub fn of(mds: &Arc<Mds>, client: Client) -> Arc<LeaseSession> {
        let connection = Connection::new(mds, client.session);
        mds.attach(client.session, Peer::local(connection.clone()));
        Arc::new(LeaseSession {
            client,
            connection,
            next_slot: AtomicU16::new(0),
        })
    }

    pub fn id(&self) -> SessionId {
        self.client.session
    }

    /// A connection in place of the one before.
    pub fn reconnect(&self) -> Arc<Connection> {
        let connection = Connection::new(&self.client.mds, self.id());
        let peer = Peer::local(connection.clone());
        self.client.mds.attach(self.id(), peer);
        connection
    }

    /// Renews the session's term until the task is aborted.
    pub fn keep_renewing(self: &Arc<Self>) -> JoinHandle<()> {
        let session = self.clone();
        tokio::spawn(async move {
            while session.client.read(MetaOp::Renew).await.is_ok() {
                tokio::time::sleep(Duration::from_secs(5)).await;
            }
        })
    }

    pub fn next_slot_seq(&self) -> SlotSeq {
        let slot = self.next_slot.fetch_add(1, SeqCst) % 64;
        self.client.next_slot_seq(slot)
    }

    pub async fn send(&self, op: MetaOp) -> LeasedReply {
        let slot_seq = op.changes().then(|| self.next_slot_seq());
        self.send_as(slot_seq, op).await
    }

    pub async fn send_as(&self, slot_seq: Option<SlotSeq>, op: MetaOp) -> LeasedReply {
        let reply = send(&self.client.mds, self.id(), slot_seq, op).await;
        LeasedReply::from(reply.result)
    }

    /// Sends a request, and returns before its reply.
    pub fn begin(self: &Arc<Self>, op: MetaOp) -> JoinHandle<LeasedReply> {
        let session = self.clone();
        tokio::spawn(async move { session.send(op).await })
    }

    pub async fn attr(&self, ino: InodeId) -> LeasedReply {
        self.send(MetaOp::GetAttr { ino }).await
    }

    pub async fn look_up(&self, dir: InodeId, what: &str) -> LeasedReply {
        self.send(look_up(dir, what)).await
    }

    pub async fn list(&self, dir: InodeId) -> LeasedReply {
        self.send(list(dir)).await
    }
}

/// A reply, and the leases that came with it.
#[derive(Clone, PartialEq, Debug)]
pub struct LeasedReply {
    pub outcome: Result<MetaReplyBody, FsError>,
    /// The reply was no `LeaseReply`.
    pub is_plain: bool,
    pub grants: Vec<LeaseGrant>,
    pub changed: Vec<Attr>,
}

impl From<Result<MetaReplyBody, FsError>> for LeasedReply {
    fn from(result: Result<MetaReplyBody, FsError>) -> LeasedReply {
        match result {
            Ok(MetaReplyBody::LeaseReply(reply)) => LeasedReply {
                outcome: wire::decode_outcome(&reply.outcome).unwrap(),
                is_plain: false,
                grants: reply.grants,
                changed: reply.changed,
            },
            outcome => LeasedReply {
                outcome,
                is_plain: true,
                grants: Vec::new(),
                changed: Vec::new(),
            },
        }
    }
}

impl LeasedReply {
    pub fn keys(&self) -> BTreeSet<LeaseKey> {
        self.grants.iter().map(|grant| grant.key).collect()
    }

    pub fn number_of(&self, key: LeaseKey) -> Option<GrantNumber> {
        let grant = self.grants.iter().find(|grant| grant.key == key);
        grant.map(|grant| grant.number)
    }

    /// The key of the name that a lookup asked for.
    pub fn name_key(&self) -> LeaseKey {
        let is_name = |key: &LeaseKey| matches!(key, LeaseKey::Name { .. });
        self.keys().into_iter().find(is_name).expect("a name")
    }

    pub fn attr(&self) -> Attr {
        match &self.outcome {
            Ok(MetaReplyBody::Attr(attr) | MetaReplyBody::Entry(attr)) => *attr,
            Ok(MetaReplyBody::Opened(opened)) => opened.attr,
            other => panic!("{other:?}"),
        }
    }
}

pub fn look_up(dir: InodeId, what: &str) -> MetaOp {
    let name = name(what);
    MetaOp::Lookup { dir, name }
}

pub fn list(dir: InodeId) -> MetaOp {
    MetaOp::Readdir {
        dir,
        after: 0,
        limit: 100,
        plus: true,
    }
}

pub fn chmod(ino: InodeId, mode: u32) -> MetaOp {
    let mode = Some(mode);
    let set = SetAttr {
        mode,
        ..SetAttr::default()
    };
    MetaOp::SetAttr { ino, set }
}

pub fn unlink(dir: InodeId, what: &str) -> MetaOp {
    let name = name(what);
    MetaOp::Unlink { dir, name }
}

pub fn link(ino: InodeId, dir: InodeId, what: &str) -> MetaOp {
    let name = name(what);
    MetaOp::Link { ino, dir, name }
}

pub fn rename(dir: InodeId, from: &str, to: &str) -> MetaOp {
    MetaOp::Rename {
        from: dir,
        name: name(from),
        to: dir,
        new_name: name(to),
        mode: RenameMode::Replace,
    }
}

pub fn xattr_name() -> XattrName {
    XattrName::new(b"user.colour").unwrap()
}

pub fn set_xattr(ino: InodeId, value: &'static [u8]) -> MetaOp {
    MetaOp::SetXattr {
        ino,
        name: xattr_name(),
        value: Bytes::from_static(value),
        mode: XattrMode::CreateOrReplace,
    }
}

pub fn get_xattr(ino: InodeId) -> MetaOp {
    let name = xattr_name();
    MetaOp::GetXattr { ino, name }
}

pub async fn lease_status(mds: &Mds) -> LeaseStatus {
    mds.status().await.leases
}

pub async fn seconds(count: u64) {
    tokio::time::sleep(Duration::from_secs(count)).await;
}

/// Time after which directories that were changed before are not shared.
pub async fn quiet() {
    seconds(6).await;
}
