//! Where a metadata server of the tests lives: a directory, or a faked disk and index; and its OSTs.

use crate::ost::FakeOst;
use bytes::Bytes;
use gupfs_mds::targets::{Dial, Target};
use gupfs_mds::{Mds, Options, StartError};
use gupfs_namespace::check::Check;
use gupfs_namespace::{Key, KeyRange};
use gupfs_platform::fake::{FakeDice, FakeDisk, FakeOptions, FakeWorld};
use gupfs_platform::{Dice, Disk, Platform};
use gupfs_proto::{ClusterId, Incarnation, VirtualShards};
use gupfs_store::index::{FILES_LEAST, FakeIndex, Index, IndexError};
use gupfs_store::kv::{Kv, KvError, KvOptions, KvRecovery};
use gupfs_store::log::{LogOptions, Stop, StoreId};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

pub const CLUSTER: ClusterId = ClusterId(0xc1);
pub const INCARNATION: Incarnation = Incarnation(0x1c);

/// What differs between starts.
pub struct Start {
    /// As the OSTs tell them now.
    pub targets: Vec<Target>,
    /// How those elsewhere are reached.
    pub dial: Option<Arc<dyn Dial>>,
    pub accept_loss: bool,
    pub keep_sessions: bool,
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
        let how = KvOptions {
            cache_bytes: self.cache_bytes,
            ..KvOptions::new(log)
        };
        Kv::open(disk, index, how, self.platform.clone()).await
    }

    pub async fn on(self, disk: Disk, index: Index) -> Result<Arc<Mds>, StartError> {
        let kv = self.open_kv(disk.clone(), index).await?;
        let mut options = Options::new(kv, disk, self.platform, CLUSTER, INCARNATION);
        options.targets = self.targets;
        options.dial = self.dial;
        options.accept_loss = self.accept_loss;
        options.shards = self.shards;
        options.keep_sessions = self.keep_sessions;
        Mds::start(options).await
    }
}

/// A real directory, with two OSTs.
pub struct House {
    dir: TempDir,
    pub osts: Vec<FakeOst>,
}

impl House {
    pub fn new() -> House {
        House {
            dir: tempfile::tempdir().unwrap(),
            osts: vec![FakeOst::new(0), FakeOst::new(1)],
        }
    }

    pub fn how(&self) -> Start {
        Start::new(Platform::real(), &self.osts)
    }

    pub async fn start(&self) -> Arc<Mds> {
        self.start_as(self.how()).await.unwrap()
    }

    pub async fn start_as(&self, how: Start) -> Result<Arc<Mds>, StartError> {
        let disk = Disk::real(self.dir.path()).unwrap();
        let index = self.index().await.map_err(KvError::from)?;
        how.on(disk, index).await
    }

    /// The tasks of a server that was dropped end at the runtime's next turn, and until then they hold the index.
    async fn index(&self) -> Result<Index, IndexError> {
        let mut tries = 0;
        loop {
            match Index::open_fjall(&self.dir.path().join("index"), FILES_LEAST) {
                Err(IndexError::Engine(why)) if why.contains("Locked") && tries < 1_000 => {
                    tries += 1;
                    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
                }
                other => return other,
            }
        }
    }
}

/// A faked disk and index that crash, with two OSTs. What they hold outlives each process.
pub struct Simulated {
    pub disk: FakeDisk,
    pub index: FakeIndex,
    pub osts: Vec<FakeOst>,
    dice: FakeDice,
}

/// One life of a simulated server.
pub struct Life {
    pub platform: FakeWorld,
    pub mds: Arc<Mds>,
}

impl Simulated {
    pub fn new(seed: u64) -> Simulated {
        let how = FakeOptions {
            yields: true,
            ..FakeOptions::default()
        };
        Simulated {
            disk: FakeDisk::new(how, seed),
            index: FakeIndex::new(),
            osts: vec![FakeOst::new(0), FakeOst::new(1)],
            dice: FakeDice::new(seed),
        }
    }

    pub fn how(&self, platform: &FakeWorld) -> Start {
        Start {
            segment_bytes: 64 << 10,
            shards: VirtualShards(4),
            ..Start::new(platform.platform(), &self.osts)
        }
    }

    pub fn platform(&self) -> FakeWorld {
        FakeWorld::new(self.dice.u64())
    }

    pub async fn start(&self) -> Life {
        let platform = self.platform();
        let how = self.how(&platform);
        let mds = self.start_as(how).await.unwrap();
        Life { platform, mds }
    }

    pub async fn start_as(&self, how: Start) -> Result<Arc<Mds>, StartError> {
        how.on(self.disk.disk(), Index::fake(self.index.clone()))
            .await
    }

    /// Ends the process, if it did not end by itself, and forgets what a power cut forgets.
    pub async fn cut_power(&self, platform: &FakeWorld) {
        self.end(platform).await;
        self.disk.crash();
        self.index.crash(&Dice::fake(self.dice.fork()));
    }

    /// Ends the process; what it had written stays.
    pub async fn kill(&self, platform: &FakeWorld) {
        self.end(platform).await;
        self.disk.restart();
    }

    async fn end(&self, platform: &FakeWorld) {
        self.disk.kill();
        platform.tasks.kill();
        tokio::task::yield_now().await;
    }

    /// Every record of the stopped server, and whether they fit together.
    pub async fn check(&self) -> Vec<(Key, Bytes)> {
        let platform = self.platform();
        let how = self.how(&platform);
        let (kv, _) = how
            .open_kv(self.disk.disk(), Index::fake(self.index.clone()))
            .await
            .unwrap();
        let mut check = Check::new();
        let mut all = Vec::new();
        for KeyRange { from, to } in Check::ranges(VirtualShards(4)) {
            let [from, to] = [from, to].map(|key| Bytes::copy_from_slice(key.as_bytes()));
            for (key, value) in kv.scan(from, to, usize::MAX).unwrap() {
                let key = Key::from_bytes(&key);
                check.add(&key, &value);
                all.push((key, value));
            }
        }
        assert_eq!(check.finish().problems, []);
        kv.stop(Stop::InOrder).await.unwrap();
        drop(kv);
        self.kill(&platform).await;
        all
    }
}

/// Runs a test on a clock that passes when everybody waits.
pub fn simulate<T>(run: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let bounded = async { tokio::time::timeout(Duration::from_secs(3600), run).await };
    runtime.block_on(bounded).expect("nothing waits for ever")
}
