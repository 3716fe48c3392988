//! A host with a session, and the requests that it sends.

use crate::client::{MAKE, name};
use crate::fixture::{ServerInstance, Simulated};
use gupfs_mds::Mds;
use gupfs_mds::osts::OstPeer;
use gupfs_proto::capability::OpenCapability;
use gupfs_proto::lock::{
    AdvisoryLock, LockFamily, LockHolder, LockMode, LockRange, LockRequest, LockSeq,
};
use gupfs_proto::meta::{
    AccessMode, CreateMode, MetaOp, MetaReply, MetaReplyBody, MetaRequest, OpenInfo, OpenMode,
    ReplayRecord, SlotSeq, WritePosition,
};
use gupfs_proto::{Caller, FsError, InodeId, OwnerEpoch, Seq, SessionId, Slot, wire};
use gupfs_rpc::{DialOss, Service};
use std::sync::Arc;

/// The credentials of root on a host whose root has no rights.
pub fn nobody() -> Caller {
    Caller::new(65_534, 65_534, [])
}

pub fn owner() -> Caller {
    Caller::new(1000, 1000, [])
}

/// A session of another process, whose client does what it likes.
pub struct Host {
    pub mds: Arc<Mds>,
    session: SessionId,
    changes: u64,
}

/// Remote servers may report, so sessions get capabilities. None does.
struct NoRemoteOss;

impl DialOss for NoRemoteOss {
    fn dial(&self, address: &str) -> OstPeer {
        panic!("no server at {address} reported")
    }
}

pub async fn start(fixture: &Simulated) -> ServerInstance {
    let platform = fixture.platform();
    let mut options = fixture.start_options(&platform);
    options.dial = Some(Arc::new(NoRemoteOss));
    options.keep_sessions = true;
    let mds = fixture.start_as(options).await.unwrap();
    ServerInstance { platform, mds }
}

impl Host {
    pub async fn enter(mds: &Arc<Mds>) -> Host {
        let mut host = Host {
            mds: mds.clone(),
            session: SessionId(0),
            changes: 0,
        };
        let client = "a host".to_string();
        match host.send(&nobody(), MetaOp::OpenSession { client }).await {
            Ok(MetaReplyBody::Session { session, .. }) => host.session = session,
            other => panic!("{other:?}"),
        }
        host
    }

    pub async fn send(&mut self, caller: &Caller, op: MetaOp) -> Result<MetaReplyBody, FsError> {
        self.reply(caller, op).await.1.result
    }

    pub async fn reply(&mut self, caller: &Caller, op: MetaOp) -> (Option<SlotSeq>, MetaReply) {
        let changes = match &op {
            MetaOp::WithOpenCapability { op, .. } => wire::decode_op(op).unwrap().changes(),
            op => op.changes(),
        };
        let slot_seq = changes.then(|| {
            self.changes += 1;
            SlotSeq {
                slot: Slot(0),
                sequence: self.changes,
            }
        });
        let request = MetaRequest {
            session: self.session,
            slot_seq,
            caller: caller.clone(),
            job: gupfs_proto::JobId(0),
            instance: self.mds.owner_epoch(),
            last_seen: Seq(0),
            op,
        };
        (slot_seq, self.mds.clone().handle(request).await)
    }

    pub async fn create(&mut self, what: &str) -> OpenInfo {
        match self.send(&owner(), creation(what)).await {
            Ok(MetaReplyBody::Opened(opened)) => opened,
            other => panic!("{other:?}"),
        }
    }

    pub async fn bytes(&mut self, ino: InodeId) -> Vec<u8> {
        match self.send(&owner(), open(ino, AccessMode::READ)).await {
            Ok(MetaReplyBody::Opened(opened)) => opened.inline.unwrap().to_vec(),
            other => panic!("{other:?}"),
        }
    }
}

pub fn creation(what: &str) -> MetaOp {
    MetaOp::Create {
        dir: InodeId::ROOT,
        name: name(what),
        create_mode: CreateMode {
            mode: 0o600,
            ..MAKE
        },
        exclusive: true,
        open: open_mode(AccessMode::READ | AccessMode::WRITE),
    }
}

pub fn open_mode(access: AccessMode) -> OpenMode {
    OpenMode {
        access,
        truncate: false,
        kill_privileges: false,
    }
}

pub fn open(ino: InodeId, access: AccessMode) -> MetaOp {
    let open = open_mode(access);
    MetaOp::Open { ino, open }
}

pub fn write(ino: InodeId, data: &'static [u8]) -> MetaOp {
    MetaOp::WriteInline {
        ino,
        at: WritePosition::Offset(0),
        data: bytes::Bytes::from_static(data),
        kill_privileges: false,
    }
}

pub fn lock(ino: InodeId) -> AdvisoryLock {
    AdvisoryLock {
        holder: LockHolder {
            ino,
            family: LockFamily::Record,
            owner: 1,
        },
        range: LockRange::WHOLE,
        mode: LockMode::Exclusive,
        pid: 1,
    }
}

pub fn take(ino: InodeId, number: u64) -> MetaOp {
    MetaOp::Lock(LockRequest::Acquire {
        seq: LockSeq {
            number,
            replied_below: number,
        },
        lock: lock(ino),
        wait: false,
    })
}

pub fn with_open_capability(capability: OpenCapability, op: &MetaOp) -> MetaOp {
    MetaOp::WithOpenCapability {
        open_capabilities: vec![capability],
        op: wire::encode_op(op),
    }
}

pub fn open_capability_of(opened: &OpenInfo, access: AccessMode) -> OpenCapability {
    let capability = opened.capability.as_ref();
    let capability = capability.and_then(|it| it.open_capability(opened.attr.ino, access));
    capability.expect("the reply to an open has an open capability")
}

/// Lets everybody write to the root directory of the tests.
pub async fn open_root(instance: &ServerInstance) {
    let mut host = Host::enter(&instance.mds).await;
    let set = gupfs_proto::meta::SetAttr {
        mode: Some(0o777),
        ..Default::default()
    };
    let ino = InodeId::ROOT;
    host.send(&Caller::root(), MetaOp::SetAttr { ino, set })
        .await
        .unwrap();
    host.send(&nobody(), MetaOp::CloseSession).await.unwrap();
}

pub const BOTH: AccessMode = AccessMode::READ.union(AccessMode::WRITE);

/// The replay request of a session: its changes and its locks.
pub fn replay_request(
    of: OwnerEpoch,
    records: Vec<ReplayRecord>,
    locks: Vec<AdvisoryLock>,
) -> MetaOp {
    let last = true;
    MetaOp::Replay {
        instance: of,
        records,
        locks,
        last,
    }
}

pub fn replay_record(
    caller: Caller,
    op: &MetaOp,
    slot_seq: Option<SlotSeq>,
    reply: &MetaReply,
) -> ReplayRecord {
    let created = match &reply.result {
        Ok(MetaReplyBody::Opened(opened)) if opened.created => Some(opened.attr.ino),
        _ => None,
    };
    ReplayRecord {
        change: reply.change.unwrap(),
        slot_seq: slot_seq.unwrap(),
        caller,
        op: wire::encode_op(op),
        created,
        layout: None,
    }
}
