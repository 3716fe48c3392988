//! # metadata_parts: what every simulated metadata server has, with copies or without
//!
//! Owns   the options of its store and of its parts; the search in its records.
//! Never  starts or ends a process.
//! Enter  at `mds_options` for a start, at `ServedMetadata` for the running server.

use super::CLUSTER;
use bytes::Bytes;
use gupfs_mds::{Mds, MdsOptions};
use gupfs_namespace::{
    FileBody, Inode, InodeBody, KeyRange, ParsedKey, Record, RecordKey, RecordKind,
};
use gupfs_platform::{Disk, Platform};
use gupfs_proto::meta::{self, MetaOp, MetaReplyBody, SetAttr, SlotSeq};
use gupfs_proto::{
    Caller, Incarnation, InodeId, Seq, SessionId, Slot, VirtualShard, VirtualShards,
};
use gupfs_rpc::{OssConnections, ProcessIdentity, Service};
use gupfs_store::kv::{Kv, KvRecovery};
use gupfs_store::log::{LogOptions, StoreId};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Number of virtual shards.
pub const SHARDS: VirtualShards = VirtualShards(4);

/// More than the number of records of one kind in a shard of a simulated cluster.
const RECORDS_MAX: usize = 10_000;

/// In bytes. Zeroing larger segments is most of what a simulated start costs.
const LOG_SEGMENT: u64 = 256 << 10;

const STORE: StoreId = StoreId {
    cluster: CLUSTER,
    incarnation: Incarnation(0x1c),
};

pub fn log_options() -> LogOptions {
    LogOptions {
        segment_bytes: LOG_SEGMENT,
        ..LogOptions::new(STORE)
    }
}

/// What a server on an open store is started with.
pub fn mds_options(
    store: (Arc<Kv>, KvRecovery),
    disk: Disk,
    platform: Platform,
    (identity, oss_connections): (&ProcessIdentity, Arc<OssConnections>),
) -> MdsOptions {
    let mut options = MdsOptions::new(store, disk, platform, CLUSTER, STORE.incarnation);
    options.shards = SHARDS;
    options.dial = Some(oss_connections);
    options.keep_sessions = true;
    // Each shard has its turn while the cluster is simulated.
    options.scrub_period = Some(Duration::from_secs(600));
    options.key = identity.cluster_key();
    options
}

/// A running server, and its store for checks of the records.
#[derive(Clone)]
pub struct ServedMetadata {
    pub mds: Arc<Mds>,
    pub records: Weak<Kv>,
}

impl ServedMetadata {
    /// All regular files, as the server's newest records have them; None if its store is closed.
    pub fn files(&self) -> Option<Vec<(InodeId, FileBody)>> {
        let mut files = Vec::new();
        for (key, value) in self.records_of(RecordKind::Inode)? {
            let Some(ParsedKey::Inode(ino)) = key.parse() else {
                continue;
            };
            let inode = Inode::decode(&value).expect("the server has encoded it");
            if let InodeBody::File(file) = inode.body {
                files.push((ino, file));
            }
        }
        Some(files)
    }

    /// The files that the server must resync, by its records; None if its store is closed.
    pub fn expected_resyncs(&self) -> Option<Vec<InodeId>> {
        let records = self.records_of(RecordKind::StaleMembers)?;
        let inode_of = |key: &RecordKey| match key.parse() {
            Some(ParsedKey::StaleMembers(ino)) => Some(ino),
            _ => None,
        };
        Some(
            records
                .iter()
                .filter_map(|(key, _)| inode_of(key))
                .collect(),
        )
    }

    fn records_of(&self, kind: RecordKind) -> Option<Vec<(RecordKey, Bytes)>> {
        let store = self.records.upgrade()?;
        let mut found = Vec::new();
        for shard in (0..SHARDS.0).map(VirtualShard) {
            let range = KeyRange::of_kind(shard, kind);
            let [from, to] =
                [&range.from, &range.to].map(|key| Bytes::copy_from_slice(key.as_bytes()));
            let records = store.scan(from, to, RECORDS_MAX).ok()?;
            found.extend(
                records
                    .into_iter()
                    .map(|(key, value)| (RecordKey::from_bytes(&key), value)),
            );
        }
        Some(found)
    }

    /// Gives the root directory to this user, as an operator does before the clients start.
    pub async fn give_root_directory_to(&self, user: &Caller) {
        let mds = &self.mds;
        let mut request = meta::MetaRequest {
            session: SessionId(0),
            slot_seq: None,
            caller: Caller::root(),
            job: gupfs_proto::JobId(0),
            instance: mds.owner_epoch(),
            last_seen: Seq(0),
            op: MetaOp::OpenSession {
                client: "an operator".into(),
            },
        };
        let opened = mds.clone().handle(request.clone()).await.result;
        let Ok(MetaReplyBody::Session { session, .. }) = opened else {
            panic!("{opened:?}");
        };
        request.session = session;
        let set = SetAttr {
            uid: Some(user.uid),
            gid: Some(user.gid),
            ..SetAttr::default()
        };
        let ino = InodeId::ROOT;
        for (sequence, op) in (1..).zip([MetaOp::SetAttr { ino, set }, MetaOp::CloseSession]) {
            let slot = Slot(0);
            (request.slot_seq, request.op) = (Some(SlotSeq { slot, sequence }), op);
            let done = mds.clone().handle(request.clone()).await.result;
            done.expect("no fault is injected before the start");
        }
    }
}
