//! A metadata server, two targets and a session, in one process.

use bytes::Bytes;
use gupfs_client::{Client, SessionOptions};
use gupfs_files::{ClusterFiles, FileHandle, HostRules, OpenRequest, UserFiles};
use gupfs_mds::osts::TargetHandle;
use gupfs_mds::{Mds, MdsOptions};
use gupfs_oss::Oss;
use gupfs_platform::fake::{FakeClock, FakeDisk, FakeOptions, FakePlatform, FakeRandom, FakeTasks};
use gupfs_proto::{Caller, ClusterId, Incarnation, OstId};
use gupfs_rpc::Peer;
use gupfs_store::index::{FakeIndex, Index};
use gupfs_store::kv::{Kv, KvOptions};
use gupfs_store::log::{LogOptions, StoreId};
use gupfs_store::object::{Objects, OpenFileLimits, TargetId, TargetOptions};

const CLUSTER: ClusterId = ClusterId(0xc1);
const INCARNATION: Incarnation = Incarnation(0x1c);
const TARGETS: u16 = 2;
const LOG_SEGMENT: u64 = 256 << 10;

pub const USER: u32 = 1000;

pub struct Fixture {
    pub files: ClusterFiles,
    pub root: UserFiles,
    pub user: UserFiles,
}

impl Fixture {
    pub async fn new() -> Fixture {
        let clock = FakeClock::of_runtime();
        let random = FakeRandom::new(7);
        let platform = FakePlatform {
            clock: clock.clone(),
            random: random.fork(),
            tasks: FakeTasks::new(),
        };
        let options = FakeOptions {
            yields: true,
            clock: Some(clock),
            ..FakeOptions::default()
        };
        let disk = || FakeDisk::new(options.clone(), random.u64());
        let mut objects = Vec::new();
        for ost in (0..TARGETS).map(OstId) {
            let (disk, whose) = (
                disk(),
                TargetId {
                    cluster: CLUSTER,
                    ost,
                },
            );
            let (at, on) = (disk.disk(), platform.platform());
            Objects::init(&at, &on, whose).await.unwrap();
            let engine = TargetOptions {
                index: Index::fake(FakeIndex::new()),
                log_segment: LOG_SEGMENT,
                open_files: OpenFileLimits::MIN.objects,
            };
            let opened = Objects::open_with(disk.disk(), platform.platform(), whose, engine);
            objects.push(opened.await.unwrap());
        }
        let oss = Oss::new(objects.into_iter().map(|objects| (objects.ost(), objects)));
        let target = |ost: OstId| TargetHandle {
            ost,
            peer: Peer::local(oss.clone()),
            admin: Ok(std::sync::Arc::new(oss.objects(ost).unwrap())),
        };
        let store = StoreId {
            cluster: CLUSTER,
            incarnation: INCARNATION,
        };
        let log = LogOptions {
            segment_bytes: LOG_SEGMENT,
            ..LogOptions::new(store)
        };
        let (disk, index) = (disk().disk(), Index::fake(FakeIndex::new()));
        let kv = Kv::open(
            disk.clone(),
            index,
            KvOptions::new(log),
            platform.platform(),
        );
        let kv = kv.await.unwrap();
        let mut options = MdsOptions::new(kv, disk, platform.platform(), CLUSTER, INCARNATION);
        options.targets = oss.osts().into_iter().map(target).collect();
        options.keep_sessions = true;
        let mds = Mds::start(options).await.unwrap();
        let osts = (0..TARGETS).map(|ost| (OstId(ost), Peer::local(oss.clone())));
        let session = SessionOptions {
            shared: true,
            write_behind: true,
            ..SessionOptions::default()
        };
        let connecting = Client::connect(
            Peer::local(mds.clone()),
            osts.collect(),
            platform.platform(),
            session,
        );
        let client = connecting.await.unwrap();
        mds.attach(client.session(), Peer::local(client.clone()));
        let files = ClusterFiles::over(client, platform.platform(), HostRules::USUAL);
        Fixture {
            root: files.user(Caller::root(), 0o022),
            user: files.user(Caller::new(USER, USER, []), 0o022),
            files,
        }
    }

    /// Inodes that this session holds lookups of.
    pub fn known_inodes(&self) -> usize {
        self.files.client().status().known_inodes
    }
}

/// Makes a file with these bytes.
pub async fn make(user: &UserFiles, path: &str, bytes: &str) -> FileHandle {
    let opened = user.open(path.as_bytes(), OpenRequest::create(0o666)).await;
    let file = opened.unwrap_or_else(|error| panic!("{path}: {error}"));
    let bytes = Bytes::copy_from_slice(bytes.as_bytes());
    let len = bytes.len() as u64;
    assert_eq!(file.write_at(0, bytes).await, Ok(len));
    file
}

pub async fn read(file: &FileHandle) -> String {
    let segments = file.read_at(0, 1 << 20).await.unwrap();
    String::from_utf8(segments.concat()).unwrap()
}
