//! A session that remembers what it has leases on, as long as it may: it forgets when it answers, not when it is asked.

use super::operations::{Files, attributes, read_value};
use crate::client::{Client, send};
use gupfs_mds::Mds;
use gupfs_platform::fake::FakeRandom;
use gupfs_proto::callback::{CallbackReply, CallbackReplyBody, CallbackRequest};
use gupfs_proto::lease::{GrantNumber, LeaseKey, LeaseReply, LeaseRevocation};
use gupfs_proto::meta::{AttrReport, MetaOp, MetaReplyBody};
use gupfs_proto::{FsError, InodeId, SessionId, wire};
use gupfs_rpc::{Peer, Service};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};
use std::time::Duration;

pub struct RememberingSession {
    client: Client,
    dice: FakeRandom,
    next_slot: AtomicU16,
    memory: Mutex<Memory>,
}

/// A read, by its operation's text.
type Read = String;

#[derive(Default)]
struct Memory {
    values: BTreeMap<Read, (LeaseKey, GrantNumber, String)>,
    /// Grants up to this number are void.
    void: BTreeMap<LeaseKey, GrantNumber>,
    /// Own changes under way, and how many have begun: a read that overlaps one is not remembered.
    changes_under_way: u32,
    changes_begun: u64,
    revocations: usize,
}

impl Service<CallbackRequest, CallbackReply> for RememberingSession {
    async fn handle(self: Arc<Self>, request: CallbackRequest) -> CallbackReply {
        match request {
            CallbackRequest::RevokeLeases { revocation, .. } => {
                let delay = [0, 1, 5, 200][self.dice.u64() as usize % 4];
                tokio::time::sleep(Duration::from_millis(self.dice.u64() % (delay + 1))).await;
                self.memory.lock().forget(&revocation);
            }
            CallbackRequest::Revoke { ino } => {
                let op = MetaOp::EndWrite {
                    ino,
                    report: AttrReport::default(),
                    keep_lease: false,
                };
                let _ = self.exchange(&op).await;
            }
            CallbackRequest::LeaveOut { .. } | CallbackRequest::TargetsStop { .. } => {}
            CallbackRequest::Downgrade { ino } => {
                let report = AttrReport::default();
                let op = MetaOp::DowngradeWrite { ino, report };
                let _ = self.exchange(&op).await;
            }
            CallbackRequest::CheckOpen { inodes } => {
                return Ok(CallbackReplyBody::IsOpen(vec![false; inodes.len()]));
            }
            CallbackRequest::Glimpse { .. } | CallbackRequest::LockGranted { .. } => {}
        }
        Ok(CallbackReplyBody::Done)
    }
}

impl RememberingSession {
    pub async fn open(mds: &Arc<Mds>, dice: FakeRandom) -> Arc<RememberingSession> {
        let session = Arc::new(RememberingSession {
            client: Client::open(mds).await,
            dice,
            next_slot: AtomicU16::new(0),
            memory: Mutex::default(),
        });
        mds.attach(session.id(), Peer::local(session.clone()));
        session.client.read(MetaOp::AcceptLeases).await.unwrap();
        let renewing = session.clone();
        tokio::spawn(async move {
            while renewing.client.read(MetaOp::Renew).await.is_ok() {
                tokio::time::sleep(Duration::from_secs(5)).await;
            }
        });
        session
    }

    pub fn id(&self) -> SessionId {
        self.client.session
    }

    pub fn revocations(&self) -> usize {
        self.memory.lock().revocations
    }

    /// What it would answer from its memory.
    pub fn remembered(&self, op: &MetaOp) -> Option<(GrantNumber, String)> {
        let memory = self.memory.lock();
        if memory.changes_under_way > 0 {
            return None;
        }
        let (_, number, value) = memory.values.get(&format!("{op:?}"))?;
        Some((*number, value.clone()))
    }

    pub async fn send(&self, op: MetaOp, files: &Files) {
        let outcome = self.exchange(&op).await;
        match &outcome {
            Ok(MetaReplyBody::Entry(attr)) => files.note(attr.ino),
            Ok(MetaReplyBody::Opened(opened)) => files.note(opened.attr.ino),
            Err(FsError::TimedOut(_) | FsError::Overloaded | FsError::SessionEnded) => {
                panic!("{op:?}: {outcome:?}")
            }
            _ => {}
        }
    }

    /// Sends a request, and remembers what its reply grants.
    async fn exchange(&self, op: &MetaOp) -> Result<MetaReplyBody, FsError> {
        let begun = self.memory.lock().begin(op);
        let (outcome, reply) = self.request(op.clone()).await;
        self.memory.lock().end(op, begun, &outcome, &reply);
        outcome
    }

    async fn request(&self, op: MetaOp) -> (Result<MetaReplyBody, FsError>, LeaseReply) {
        let slot_seq = op.changes().then(|| {
            let slot = self.next_slot.fetch_add(1, Relaxed) % 64;
            self.client.next_slot_seq(slot)
        });
        match send(&self.client.mds, self.id(), slot_seq, op).await.result {
            Ok(MetaReplyBody::LeaseReply(reply)) => {
                (wire::decode_outcome(&reply.outcome).unwrap(), reply)
            }
            plain => (plain, LeaseReply::default()),
        }
    }
}

impl Memory {
    fn begin(&mut self, op: &MetaOp) -> u64 {
        if op.changes() && !is_open(op) {
            self.values.clear();
            self.changes_under_way += 1;
            self.changes_begun += 1;
        }
        self.changes_begun
    }

    fn end(
        &mut self,
        op: &MetaOp,
        begun: u64,
        outcome: &Result<MetaReplyBody, FsError>,
        reply: &LeaseReply,
    ) {
        let is_change = op.changes() && !is_open(op);
        let is_alone =
            self.changes_begun == begun && self.changes_under_way == u32::from(is_change);
        self.changes_under_way -= u32::from(is_change);
        if !is_alone {
            return;
        }
        if is_change {
            for attr in attributes_in(outcome)
                .into_iter()
                .chain(reply.changed.iter().copied())
            {
                let ino = attr.ino;
                self.remember_attributes(ino, attributes(&attr), reply);
            }
        } else if let Some(value) = read_value(op, outcome)
            && let Some(key) = key_of(op, reply)
        {
            self.put(format!("{op:?}"), key, value, reply);
        }
    }

    fn remember_attributes(&mut self, ino: InodeId, value: String, reply: &LeaseReply) {
        let read = MetaOp::GetAttr { ino };
        self.put(format!("{read:?}"), LeaseKey::Attributes(ino), value, reply);
    }

    fn put(&mut self, read: Read, key: LeaseKey, value: String, reply: &LeaseReply) {
        let grant = reply.grants.iter().find(|grant| grant.key == key);
        let Some(number) = grant.map(|grant| grant.number) else {
            return;
        };
        let void = self.void.get(&key).is_some_and(|upto| number <= *upto);
        let newer = self.values.get(&read).is_some_and(|known| known.1 > number);
        if !void && !newer {
            self.values.insert(read, (key, number, value));
        }
    }

    fn forget(&mut self, revocation: &LeaseRevocation) {
        self.revocations += 1;
        let upto = revocation.upto;
        self.values
            .retain(|_, (key, number, _)| *number > upto || !revocation.keys.contains(key));
        for key in &revocation.keys {
            let void = self.void.entry(*key).or_default();
            *void = upto.max(*void);
        }
    }
}

/// A request to open a file for reading has a slot, and changes nothing that others see.
fn is_open(op: &MetaOp) -> bool {
    matches!(op, MetaOp::Open { .. })
}

fn attributes_in(outcome: &Result<MetaReplyBody, FsError>) -> Option<gupfs_proto::Attr> {
    match outcome {
        Ok(MetaReplyBody::Attr(attr) | MetaReplyBody::Entry(attr)) => Some(*attr),
        Ok(MetaReplyBody::Opened(opened)) => Some(opened.attr),
        Ok(MetaReplyBody::Removed(removed)) => removed.attr,
        _ => None,
    }
}

/// The lease that covers the reply to a read.
fn key_of(op: &MetaOp, reply: &LeaseReply) -> Option<LeaseKey> {
    match op {
        MetaOp::GetAttr { ino } | MetaOp::GetXattr { ino, .. } => Some(LeaseKey::Attributes(*ino)),
        MetaOp::Open { ino, .. } => Some(LeaseKey::Data(*ino)),
        MetaOp::Readdir { dir, .. } => Some(LeaseKey::Names(*dir)),
        MetaOp::Lookup { .. } => {
            let keys = reply.grants.iter().map(|grant| grant.key);
            keys.into_iter()
                .find(|key| matches!(key, LeaseKey::Name { .. }))
        }
        _ => None,
    }
}
