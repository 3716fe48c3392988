//! The metadata server's host: the parts that `gupfs mds` composes, simulated.

use super::host::{Host, HostOptions, Store};
use super::request_monitor::{MonitoredMeta, RequestMonitor};
use super::{CLUSTER, MDS_ADDRESS};
use bytes::Bytes;
use gupfs_mds::{Mds, MdsOptions, MetaHandler};
use gupfs_namespace::{
    FileBody, Inode, InodeBody, KeyRange, ParsedKey, Record, RecordKey, RecordKind,
};
use gupfs_platform::fake::FakePlatform;
use gupfs_proto::meta::{self, MetaOp, MetaReplyBody, SetAttr, SlotSeq};
use gupfs_proto::{
    Caller, Incarnation, InodeId, Seq, SessionId, Slot, VirtualShard, VirtualShards, cluster,
};
use gupfs_rpc::{
    AcceptAllClientKeys, AdmitAll, Capacity, Handlers, OssConnections, Role, RpcServer,
    RpcServerOptions, SendDeadline, Service,
};
use gupfs_store::kv::{Kv, KvOptions};
use gupfs_store::log::{LogOptions, StoreId};
use parking_lot::Mutex;
use std::sync::{Arc, Weak};
use std::time::Duration;

const INCARNATION: Incarnation = Incarnation(0x1c);

/// Number of virtual shards.
const SHARDS: u16 = 4;

/// More than the number of records of one kind in a shard of a simulated cluster.
const RECORDS_MAX: usize = 10_000;

/// In bytes. Zeroing larger segments is most of what a simulated start costs.
const LOG_SEGMENT: u64 = 256 << 10;

pub struct MetadataHost {
    pub host: Host,
    pub store: Store,
    monitor: Arc<RequestMonitor>,
    process: Mutex<Option<Process>>,
    /// The running server's store, for checks of its records.
    records: Mutex<Weak<Kv>>,
}

struct Process {
    platform: FakePlatform,
    serving: Option<(Arc<Mds>, RpcServer)>,
}

impl MetadataHost {
    pub fn new(options: &HostOptions) -> MetadataHost {
        let host = options.host("mds");
        MetadataHost {
            store: host.store(),
            host,
            monitor: options.monitor.clone(),
            process: Mutex::new(None),
            records: Mutex::default(),
        }
    }

    /// # Errors
    /// When its disk fails during the start.
    pub async fn start(&self) -> Result<(), String> {
        self.monitor.metadata_server_starts();
        let platform = self.host.platform();
        *self.process.lock() = Some(Process {
            platform: platform.clone(),
            serving: None,
        });
        let serving = self.serve(&platform).await?;
        if let Some(process) = &mut *self.process.lock() {
            process.serving = Some(serving);
        }
        Ok(())
    }

    async fn serve(&self, platform: &FakePlatform) -> Result<(Arc<Mds>, RpcServer), String> {
        let identity = self.host.identity(platform);
        let listener = identity.net.listen(MDS_ADDRESS).await;
        let listener = listener.map_err(|error| error.to_string())?;
        let local_identity = identity.local_identity(Role::Mds, "store");
        let oss_connections = OssConnections::new(&identity, local_identity.clone(), CLUSTER, "");
        let platform = platform.platform();
        let log = LogOptions {
            segment_bytes: LOG_SEGMENT,
            ..LogOptions::new(StoreId {
                cluster: CLUSTER,
                incarnation: INCARNATION,
            })
        };
        let disk = self.store.handle();
        let options = KvOptions::new(log);
        let opened = Kv::open(disk.clone(), self.store.index(), options, platform.clone()).await;
        let (kv, found) = opened.map_err(|error| error.to_string())?;
        if found.log.torn_tail.is_some() {
            self.monitor.count("torn log record");
        }
        let kv = Arc::new(kv);
        *self.records.lock() = Arc::downgrade(&kv);
        let mut options =
            MdsOptions::new((kv, found), disk, platform.clone(), CLUSTER, INCARNATION);
        options.shards = VirtualShards(SHARDS);
        options.dial = Some(oss_connections);
        options.keep_sessions = true;
        // Each shard has its turn while the cluster is simulated.
        options.scrub_period = Some(Duration::from_secs(600));
        options.key = identity.cluster_key();
        let mds = Mds::start(options)
            .await
            .map_err(|error| error.to_string())?;
        // Root squash applies to other hosts: a client that acts on an open file shows the open capability.
        let handler = MetaHandler::new(mds.clone(), true);
        let monitored = Arc::new(MonitoredMeta {
            handler: handler.clone(),
            monitor: self.monitor.clone(),
        });
        let options = RpcServerOptions {
            tls: None,
            platform,
            identity: local_identity,
            cluster: CLUSTER,
            key: identity.cluster_key(),
            client_keys: Arc::new(AcceptAllClientKeys),
            handlers: Handlers::none()
                .with_peer_handler(monitored)
                .with_service::<cluster::ClusterRequest, cluster::ClusterReply, _>(mds.clone()),
            observer: handler,
            capacity: Capacity::for_clients(64),
            admission: Arc::new(AdmitAll),
            send_deadline: SendDeadline::none(),
        };
        Ok((mds, RpcServer::start(listener, options)))
    }

    /// Gives the root directory to this user, as an operator does before the clients start.
    pub async fn give_root_directory_to(&self, user: &Caller) {
        let mds = self.mds().expect("no fault is injected before the start");
        let mut request = meta::MetaRequest {
            session: SessionId(0),
            slot_seq: None,
            caller: Caller::root(),
            job: 0,
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

    /// None while the server does not run.
    pub fn mds(&self) -> Option<Arc<Mds>> {
        let process = self.process.lock();
        let serving = process.as_ref()?.serving.as_ref()?;
        Some(serving.0.clone())
    }

    /// All regular files, as the running server's newest records have them; None while it does not run.
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

    /// The files that the running server must resync, by its records; None while it does not run.
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
        self.mds()?;
        let store = self.records.lock().upgrade()?;
        let mut found = Vec::new();
        for shard in (0..SHARDS).map(VirtualShard) {
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

    /// Ends the process without a shutdown. With `power_loss`, its disk loses unsynced bytes.
    pub async fn end(&self, power_loss: bool) {
        self.store.disk.kill();
        let process = self.process.lock().take();
        if let Some(process) = process {
            self.host.end(&process.platform).await;
        }
        self.store.restart(power_loss, &self.host.random());
    }
}
