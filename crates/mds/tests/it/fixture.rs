//! The fixture of the tests: a metadata server on a directory, or on a faked disk and index; and its OSTs.

use crate::ost::FakeOst;
use bytes::Bytes;
use gupfs_mds::osts::TargetHandle;
use gupfs_mds::{Mds, MdsOptions, StartError};
use gupfs_namespace::check::NamespaceCheck;
use gupfs_namespace::{KeyRange, RecordKey};
use gupfs_platform::fake::{FakeDisk, FakeOptions, FakePlatform, FakeRandom};
use gupfs_platform::{Disk, Platform, Random};
use gupfs_proto::{ClusterId, Incarnation, VirtualShards};
use gupfs_rpc::DialOss;
use gupfs_store::index::{FakeIndex, Index, IndexError, OPEN_TABLES_MIN};
use gupfs_store::kv::{Kv, KvError, KvOptions, KvRecovery};
use gupfs_store::log::{LogOptions, StopMode, StoreId};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

pub const CLUSTER: ClusterId = ClusterId(0xc1);
pub const INCARNATION: Incarnation = Incarnation(0x1c);

/// The options that differ between starts.
pub struct Start {
    /// The local targets, as the OSTs report them now.
    pub targets: Vec<TargetHandle>,
    /// How to reach remote servers.
    pub dial: Option<Arc<dyn DialOss>>,
    pub accept_loss: bool,
    pub keep_sessions: bool,
    pub rebuild_after: Option<Duration>,
    pub cache_bytes: usize,
    pub segment_bytes: u64,
    pub shards: VirtualShards,
    pub platform: Platform,
}

impl Start {
    pub fn new(platform: Platform, osts: &[FakeOst]) -> Start {
        Start {
            targets: osts.iter().map(FakeOst::target).collect(),
            dial: None,
            accept_loss: false,
            keep_sessions: false,
            rebuild_after: None,
            cache_bytes: 8 << 20,
            segment_bytes: 4 << 20,
            shards: VirtualShards(64),
            platform,
        }
    }

    async fn open_kv(&self, disk: Disk, index: Index) -> Result<(Kv, KvRecovery), KvError> {
        let store = StoreId {
            cluster: CLUSTER,
            incarnation: INCARNATION,
        };
        let log = LogOptions {
            segment_bytes: self.segment_bytes,
            ..LogOptions::new(store)
        };
        let options = KvOptions {
            cache_bytes: self.cache_bytes,
            ..KvOptions::new(log)
        };
        Kv::open(disk, index, options, self.platform.clone()).await
    }

    pub async fn on(self, disk: Disk, index: Index) -> Result<Arc<Mds>, StartError> {
        let kv = self.open_kv(disk.clone(), index).await?;
        let mut options = MdsOptions::new(kv, disk, self.platform, CLUSTER, INCARNATION);
        options.targets = self.targets;
        options.dial = self.dial;
        options.accept_loss = self.accept_loss;
        options.shards = self.shards;
        options.keep_sessions = self.keep_sessions;
        options.rebuild_after = self.rebuild_after;
        Mds::start(options).await
    }
}

/// A real directory, with two OSTs.
pub struct DirFixture {
    dir: TempDir,
    pub osts: Vec<FakeOst>,
}

impl DirFixture {
    pub fn new() -> DirFixture {
        DirFixture {
            dir: tempfile::tempdir().unwrap(),
            osts: vec![FakeOst::new(0), FakeOst::new(1)],
        }
    }

    pub fn start_options(&self) -> Start {
        Start::new(Platform::real(), &self.osts)
    }

    pub async fn start(&self) -> Arc<Mds> {
        self.start_as(self.start_options()).await.unwrap()
    }

    pub async fn start_as(&self, options: Start) -> Result<Arc<Mds>, StartError> {
        let disk = Disk::real(self.dir.path()).unwrap();
        let index = self.index().await.map_err(KvError::from)?;
        options.on(disk, index).await
    }

    /// The tasks of a dropped server end when the runtime polls them next, and until then they keep the index open.
    async fn index(&self) -> Result<Index, IndexError> {
        let mut tries = 0;
        loop {
            match Index::open_fjall(&self.dir.path().join("index"), OPEN_TABLES_MIN) {
                Err(IndexError::Engine(why)) if why.contains("Locked") && tries < 1_000 => {
                    tries += 1;
                    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
                }
                other => return other,
            }
        }
    }
}

/// A faked disk and index that crash, with two OSTs. Their contents outlive each process.
pub struct Simulated {
    pub disk: FakeDisk,
    pub index: FakeIndex,
    pub osts: Vec<FakeOst>,
    dice: FakeRandom,
}

/// One instance of a simulated server.
pub struct ServerInstance {
    pub platform: FakePlatform,
    pub mds: Arc<Mds>,
}

impl Simulated {
    pub fn new(seed: u64) -> Simulated {
        let options = FakeOptions {
            yields: true,
            ..FakeOptions::default()
        };
        Simulated {
            disk: FakeDisk::new(options, seed),
            index: FakeIndex::new(),
            osts: vec![FakeOst::new(0), FakeOst::new(1)],
            dice: FakeRandom::new(seed),
        }
    }

    pub fn start_options(&self, platform: &FakePlatform) -> Start {
        Start {
            segment_bytes: 64 << 10,
            shards: VirtualShards(4),
            ..Start::new(platform.platform(), &self.osts)
        }
    }

    pub fn platform(&self) -> FakePlatform {
        FakePlatform::new(self.dice.u64())
    }

    pub async fn start(&self) -> ServerInstance {
        let platform = self.platform();
        let options = self.start_options(&platform);
        let mds = self.start_as(options).await.unwrap();
        ServerInstance { platform, mds }
    }

    pub async fn start_as(&self, options: Start) -> Result<Arc<Mds>, StartError> {
        options
            .on(self.disk.disk(), Index::fake(self.index.clone()))
            .await
    }

    /// Ends the process, if it did not end by itself, and undoes what a power loss undoes.
    pub async fn lose_power(&self, platform: &FakePlatform) {
        self.end(platform).await;
        self.disk.crash();
        self.index.crash(&Random::fake(self.dice.fork()));
    }

    /// Ends the process; everything written stays.
    pub async fn kill(&self, platform: &FakePlatform) {
        self.end(platform).await;
        self.disk.restart();
    }

    async fn end(&self, platform: &FakePlatform) {
        self.disk.kill();
        platform.tasks.kill();
        tokio::task::yield_now().await;
    }

    /// Every record of the stopped server; asserts that the records are consistent.
    pub async fn check(&self) -> Vec<(RecordKey, Bytes)> {
        let platform = self.platform();
        let options = self.start_options(&platform);
        let (kv, _) = options
            .open_kv(self.disk.disk(), Index::fake(self.index.clone()))
            .await
            .unwrap();
        let mut check = NamespaceCheck::new();
        let mut all = Vec::new();
        for KeyRange { from, to } in NamespaceCheck::ranges(VirtualShards(4)) {
            let [from, to] = [from, to].map(|key| Bytes::copy_from_slice(key.as_bytes()));
            for (key, value) in kv.scan(from, to, usize::MAX).unwrap() {
                let key = RecordKey::from_bytes(&key);
                check.add(&key, &value);
                all.push((key, value));
            }
        }
        assert_eq!(check.finish().problems, []);
        kv.stop(StopMode::Clean).await.unwrap();
        drop(kv);
        self.kill(&platform).await;
        all
    }
}

/// Runs a test on a clock that advances while all tasks wait.
pub fn simulate<T>(run: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let bounded = async { tokio::time::timeout(Duration::from_secs(3600), run).await };
    runtime
        .block_on(bounded)
        .expect("the test ends within an hour of simulated time")
}
