//! The replies of an object server to a process that has the cluster key and sends requests without the right to them.

use crate::running::{can_mount, gupfs};
use crate::test_cluster::TestCluster;
use gupfs_platform::{Net, Platform};
use gupfs_proto::capability::{
    Capability, CapabilityFault, CapabilityMac, DataCredentials, ObjectCapability, Rights,
    SessionCapability,
};
use gupfs_proto::cluster;
use gupfs_proto::data::{self, BlockChecksums, ChecksumCheck, ObjectExistence, ObjectOwner};
use gupfs_proto::meta::{self, AccessMode, MetaOp, MetaReplyBody, OpenMode};
use gupfs_proto::{
    Caller, FsError, InodeId, Layout, MapEpoch, ObjectId, ObjectOffset, OstId, OwnerEpoch, Seq,
    SessionId, Slot, Timestamp,
};
use gupfs_rpc::{
    ClientConnection, ClientConnectionOptions, ClusterKey, Handlers, LocalIdentity, Role,
    SendDeadline, ServerAddresses,
};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::time::Duration;

/// A process that sends requests to the servers and does not behave like a client.
struct Stranger {
    platform: Platform,
    key: ClusterKey,
    mds: Arc<ClientConnection>,
    session: SessionId,
    pass: SessionCapability,
    /// Of the metadata server.
    life: OwnerEpoch,
    /// Changes made so far.
    changes: u64,
}

/// The layout of a file and the capability for it.
struct Found {
    layout: Layout,
    capability: Capability,
}

impl Found {
    fn object(&self, ino: InodeId) -> (OstId, ObjectId) {
        let (_, _, ost, object, _) = self.layout.objects(ino).next().unwrap();
        (ost, object)
    }
}

impl Stranger {
    async fn enter(cluster: &TestCluster) -> Stranger {
        let platform = Platform::real();
        let key = ClusterKey::new(fs::read(cluster.key()).unwrap().try_into().unwrap());
        let mds = line(&platform, &key, Role::Client, &cluster.at);
        let mut stranger = Stranger {
            platform,
            key,
            mds,
            session: SessionId(0),
            pass: SessionCapability {
                epoch: Default::default(),
                until: 0,
                mac: CapabilityMac([0; 16]),
            },
            life: OwnerEpoch(0),
            changes: 0,
        };
        let client = "stranger".to_string();
        let opened = stranger.ask(MetaOp::OpenSession { client }).await.unwrap();
        let MetaReplyBody::Session {
            session,
            instance: life,
            session_capability: Some(pass),
        } = opened
        else {
            panic!("{opened:?}");
        };
        (stranger.session, stranger.pass, stranger.life) = (session, pass, life);
        stranger
    }

    async fn ask(&mut self, op: MetaOp) -> Result<MetaReplyBody, FsError> {
        let lane = op.changes().then(|| {
            self.changes += 1;
            meta::SlotSeq {
                slot: Slot(0),
                sequence: self.changes,
            }
        });
        let request = meta::MetaRequest {
            session: self.session,
            slot_seq: lane,
            caller: Caller::root(),
            job: gupfs_proto::JobId(0),
            instance: self.life,
            last_seen: Seq(0),
            op,
        };
        let reply: meta::MetaReply = self.mds.peer().call(request).await;
        reply.result
    }

    /// Reconnects to a restarted server with false claims: the server ends the session.
    async fn comes_back_with_a_lie(&mut self) {
        let of = match self.ask(MetaOp::StatFs).await {
            Err(FsError::OtherInstance(life)) => std::mem::replace(&mut self.life, life),
            other => panic!("it was not started again: {other:?}"),
        };
        let lie = meta::ReplayRecord {
            change: meta::AppliedChange {
                seq: Seq((1 << 40) + self.session.0),
                at: Timestamp::default(),
            },
            slot_seq: meta::SlotSeq {
                slot: Slot(1),
                sequence: 1,
            },
            caller: Caller::root(),
            op: gupfs_proto::wire::encode_op(&MetaOp::KillPrivileges {
                ino: InodeId(1 << 40),
            }),
            created: None,
            layout: None,
        };
        let comes_back = MetaOp::Replay {
            instance: of,
            records: vec![lie],
            locks: Vec::new(),
            last: true,
        };
        let printed = self.ask(comes_back).await;
        assert_eq!(printed, Err(FsError::SessionEnded));
    }

    async fn find(&mut self, op: MetaOp) -> Found {
        match self.ask(op).await {
            Ok(MetaReplyBody::Opened(opened)) => Found {
                layout: opened.layout,
                capability: opened.capability.expect("a file with objects"),
            },
            other => panic!("{other:?}"),
        }
    }

    async fn open(&mut self, ino: InodeId) -> Found {
        let open = OpenMode {
            access: AccessMode::READ,
            truncate: false,
            kill_privileges: false,
        };
        self.find(MetaOp::Open { ino, open }).await
    }

    /// Sends requests to the object server of a target with any credentials.
    async fn at(&self, ost: OstId) -> Arc<ClientConnection> {
        let map: cluster::ClusterReply = self.mds.peer().call(cluster::ClusterRequest::Map).await;
        let Ok(cluster::ClusterReplyBody::Map(map)) = map else {
            panic!("{map:?}");
        };
        let test_store = map
            .targets
            .into_iter()
            .find(|test_store| test_store.ost == ost);
        let at = test_store.unwrap().address.unwrap();
        line(&self.platform, &self.key, Role::Client, &at)
    }

    async fn try_at(
        &self,
        oss: &Arc<ClientConnection>,
        ost: OstId,
        warrant: DataCredentials,
        op: data::DataOp,
    ) -> data::DataReply {
        let request = data::DataRequest {
            session: self.session,
            map_epoch: MapEpoch(0),
            job: gupfs_proto::JobId(0),
            ost,
            credentials: warrant,
            op,
        };
        oss.peer().call(request).await
    }

    fn client(&self, grant: Option<ObjectCapability>) -> DataCredentials {
        DataCredentials::Client {
            session_capability: self.pass,
            object_capability: grant,
        }
    }
}

fn line(platform: &Platform, key: &ClusterKey, role: Role, to: &str) -> Arc<ClientConnection> {
    ClientConnection::connect(ClientConnectionOptions {
        addresses: ServerAddresses::one(to),
        peer_name: "a server".into(),
        net: Net::real(),
        platform: platform.clone(),
        identity: LocalIdentity {
            process_id: u128::from(platform.random.u64()),
            role,
            name: "stranger".into(),
        },
        cluster: None,
        key: Some(key.clone().into()),
        tls: None,
        request_timeout: Some(Duration::from_secs(60)),
        fence: true,
        handlers: Handlers::none(),
        send_deadline: SendDeadline::none(),
    })
}

fn read(object: ObjectId) -> data::DataOp {
    data::DataOp::Read {
        object,
        at: ObjectOffset(0),
        len: 100,
        existence: ObjectExistence::MayExist,
        checksum_check: ChecksumCheck::ByRequester,
    }
}

fn write(object: ObjectId) -> data::DataOp {
    data::DataOp::Write {
        object,
        at: ObjectOffset(0),
        data: bytes::Bytes::from_static(b"mine"),
        checksums: BlockChecksums::default(),
        existence: ObjectExistence::MayExist,
        owner: ObjectOwner::default(),
    }
}

fn fault<T>(reply: Result<T, FsError>) -> Result<(), CapabilityFault> {
    match reply {
        Ok(_) => Ok(()),
        Err(FsError::Capability(fault)) => Err(fault),
        Err(other) => panic!("{other}"),
    }
}

fn ino(path: &std::path::Path) -> InodeId {
    InodeId(fs::metadata(path).unwrap().ino())
}

fn run(tried: impl Future<Output = ()>) {
    tokio::runtime::Runtime::new().unwrap().block_on(tried);
}

#[test]
fn requests_without_a_capability_are_refused_counted_and_shown() {
    if !can_mount() {
        return;
    }
    let cluster = TestCluster::new(1, 1);
    let mount = &cluster.mounts[0].at;
    for name in ["a", "b"] {
        fs::write(mount.join(name), vec![5; 100_000]).unwrap();
    }
    let (a, b) = (ino(&mount.join("a")), ino(&mount.join("b")));
    run(async {
        let mut stranger = Stranger::enter(&cluster).await;
        let (of_a, of_b) = (stranger.open(a).await, stranger.open(b).await);
        let (ost, object) = of_a.object(a);
        let grant = of_a.capability.for_ost(ost).unwrap();
        let oss = stranger.at(ost).await;
        let of = async |warrant, op| fault(stranger.try_at(&oss, ost, warrant, op).await);
        // The issued capability.
        let mine = stranger.client(Some(grant));
        assert_eq!(of(mine, read(object)).await, Ok(()));
        // None; that of another file; a forged one; with more rights than were issued.
        assert_eq!(
            of(DataCredentials::None, read(object)).await,
            Err(CapabilityFault::Missing)
        );
        let nothing = stranger.client(None);
        assert_eq!(
            of(nothing, read(object)).await,
            Err(CapabilityFault::Missing)
        );
        let others = of_b.capability.macs.iter();
        for (_, tag) in others.chain([&(ost, CapabilityMac([7; 16]))]) {
            let forged = stranger.client(Some(ObjectCapability { mac: *tag, ..grant }));
            assert_eq!(of(forged, read(object)).await, Err(CapabilityFault::Forged));
        }
        assert_eq!(of(mine, write(object)).await, Err(CapabilityFault::Rights));
        let more = ObjectCapability {
            rights: Rights::all(),
            ..grant
        };
        let more = stranger.client(Some(more));
        assert_eq!(of(more, write(object)).await, Err(CapabilityFault::Forged));
        // Requests that only the metadata server may send.
        let list = data::DataOp::List {
            after: None,
            limit: 10,
        };
        assert_eq!(of(mine, list.clone()).await, Err(CapabilityFault::Rights));
        let server = DataCredentials::Server {
            epoch: grant.epoch,
            mac: grant.mac,
        };
        // The role client permits no requests of a server. With the role of a server, which the cluster key proves, the MAC is checked.
        let told = stranger.try_at(&oss, ost, server, list.clone()).await;
        assert_eq!(told, Err(FsError::NotPermitted));
        let as_mds = line(
            &stranger.platform,
            &stranger.key,
            Role::Mds,
            &oss.status().address,
        );
        let told = stranger.try_at(&as_mds, ost, server, list.clone()).await;
        assert_eq!(fault(told), Err(CapabilityFault::Forged));
        let told = stranger.try_at(&as_mds, ost, mine, list).await;
        assert_eq!(told, Err(FsError::NotPermitted));
        // A session without the write lease gets no capability to write, whatever it requests.
        let rights = Rights::WRITE;
        let permit = stranger
            .ask(MetaOp::IssueCapability { ino: a, rights })
            .await;
        assert_eq!(permit, Err(FsError::Denied));
        let at = oss.status().address;
        let status = gupfs(["status", &at, "--key", &cluster.key()]);
        let status = String::from_utf8_lossy(&status.stdout).into_owned();
        assert!(status.contains("REFUSED, the last: stranger"), "{status}");
        let status = gupfs(["status", "--json", &at, "--key", &cluster.key()]);
        let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
        assert!(status["gate"]["forged"].as_u64().unwrap() >= 4, "{status}");
    });
    assert!(fs::read(mount.join("a")).unwrap() == vec![5; 100_000]);
    cluster.stop();
}

#[test]
fn requests_of_an_ended_session_are_refused_before_others_get_its_leases() {
    if !can_mount() {
        return;
    }
    let mut cluster = TestCluster::new(1, 1);
    let path = cluster.mounts[0].at.join("f");
    fs::write(&path, vec![5; 100_000]).unwrap();
    let file = ino(&path);
    run(async {
        // It opens the file before another session has its write lease and would get a callback.
        let mut reader = Stranger::enter(&cluster).await;
        let found = reader.open(file).await;
        let mut stranger = Stranger::enter(&cluster).await;
        let held = stranger
            .find(MetaOp::BeginWrite {
                ino: file,
                kill_privileges: false,
            })
            .await;
        let (ost, object) = held.object(file);
        let may = stranger.client(held.capability.for_ost(ost));
        let oss = stranger.at(ost).await;
        let late =
            async |stranger: &Stranger| fault(stranger.try_at(&oss, ost, may, write(object)).await);
        assert_eq!(late(&stranger).await, Ok(()));
        // A session without a write lease is fenced, too.
        let shown = reader.client(found.capability.for_ost(ost));
        let reading =
            async |reader: &Stranger| fault(reader.try_at(&oss, ost, shown, read(object)).await);
        assert_eq!(reading(&reader).await, Ok(()));
        // They end at once; their session capabilities of the previous instance are valid for 20 s more.
        cluster.mds.kill();
        cluster.mds.start_again();
        tokio::join!(
            stranger.comes_back_with_a_lie(),
            reader.comes_back_with_a_lie()
        );
        assert_eq!(late(&stranger).await, Err(CapabilityFault::Fenced));
        assert_eq!(reading(&reader).await, Err(CapabilityFault::Fenced));
        // From now on another session has the write lease.
        let path = path.clone();
        let written = tokio::task::spawn_blocking(move || fs::write(&path, vec![6; 50_000]));
        written.await.unwrap().unwrap();
        assert_eq!(late(&stranger).await, Err(CapabilityFault::Fenced));
        // A session that is not renewed: its session capability expires before it ends.
        let mut silent = Stranger::enter(&cluster).await;
        let found = silent.open(file).await;
        let (ost, object) = found.object(file);
        let may = silent.client(found.capability.for_ost(ost));
        let reading =
            async |silent: &Stranger| fault(silent.try_at(&oss, ost, may, read(object)).await);
        assert_eq!(reading(&silent).await, Ok(()));
        tokio::time::sleep(Duration::from_secs(22)).await;
        assert_eq!(reading(&silent).await, Err(CapabilityFault::Expired));
    });
    assert!(fs::read(&path).unwrap() == vec![6; 50_000]);
    cluster.stop();
}

#[test]
fn a_client_continues_after_its_session_capability_expired_in_a_partition() {
    if !can_mount() {
        return;
    }
    let mut cluster = TestCluster::new(1, 1);
    let mount = cluster.mounts[0].at.clone();
    fs::write(mount.join("f"), vec![5; 6 << 20]).unwrap();
    let mut reader = fs::File::open(mount.join("f")).unwrap();
    let mut start = [0; 10];
    std::io::Read::read_exact(&mut reader, &mut start).unwrap();
    let mut writer = fs::File::create(mount.join("g")).unwrap();
    std::io::Write::write_all(&mut writer, &[7; 100_000]).unwrap();
    cluster.mds.kill();
    std::thread::sleep(Duration::from_secs(23));
    cluster.mds.start_again();
    let mut rest = Vec::new();
    std::io::Read::read_to_end(&mut reader, &mut rest).unwrap();
    assert!(rest == vec![5; (6 << 20) - 10]);
    std::io::Write::write_all(&mut writer, &[8; 100_000]).unwrap();
    writer.sync_all().unwrap();
    drop((reader, writer));
    let written = fs::read(mount.join("g")).unwrap();
    assert!(written == [vec![7; 100_000], vec![8; 100_000]].concat());
    cluster.stop();
}
