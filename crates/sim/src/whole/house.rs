//! The disks and indexes that outlive the processes, and one process that runs all servers and a client.

use super::records::{self, Records};
use crate::rare::Rare;
use gupfs_client::{Client, SessionOptions};
use gupfs_mds::osts::TargetHandle;
use gupfs_mds::{Mds, MdsOptions, RecoveryReport};
use gupfs_oss::Oss;
use gupfs_platform::Random;
use gupfs_platform::fake::{
    Counters, FakeClock, FakeDisk, FakeOptions, FakePlatform, FakeRandom, FakeTasks,
};
use gupfs_proto::layout::{DefaultComponent, DefaultLayout};
use gupfs_proto::limits::STRIPE_UNIT_MIN;
use gupfs_proto::{
    Caller, ClusterId, FileOffset, FsError, Incarnation, ObjectId, OstId, VirtualShards,
};
use gupfs_rpc::Peer;
use gupfs_store::index::{FakeIndex, Index};
use gupfs_store::kv::{Kv, KvOptions};
use gupfs_store::log::{LogOptions, StoreId};
use gupfs_store::object::{Objects, OpenFileLimits, TargetId, TargetOptions};
use std::collections::BTreeSet;
use std::sync::Arc;

const CLUSTER: ClusterId = ClusterId(0xc1);
const INCARNATION: Incarnation = Incarnation(0x1c);
pub const TARGETS: u16 = 2;

/// Zeroing larger segments is most of what a simulated start costs.
const MDS_SEGMENT: u64 = 256 << 10;
const OST_SEGMENT: u64 = 512 << 10;

/// The largest file that lies in one object; what is larger is striped.
pub const ONE_OBJECT: u64 = 256 << 10;

/// A disk, and the index that lies on it.
#[derive(Clone)]
pub struct Store {
    pub disk: FakeDisk,
    index: FakeIndex,
}

pub struct House {
    clock: FakeClock,
    dice: FakeRandom,
    shards: VirtualShards,
    pub metadata: Store,
    pub targets: Vec<Store>,
}

/// One instance of the process.
pub struct Life {
    pub platform: FakePlatform,
    pub client: Arc<Client>,
    pub mds: Arc<Mds>,
    pub oss: Arc<Oss>,
    /// The records as they were found, before anything was settled.
    pub records: Records,
    /// The objects as they were found, before any chore began.
    pub objects: BTreeSet<(OstId, ObjectId)>,
    disks: Vec<FakeDisk>,
}

/// Why an instance did not start: a disk died during the start.
pub type Stillborn = String;

impl House {
    pub async fn found(seed: u64) -> House {
        let (clock, dice) = (FakeClock::of_runtime(), FakeRandom::new(seed));
        let options = FakeOptions {
            yields: !seed.is_multiple_of(4),
            clock: Some(clock.clone()),
            ..FakeOptions::default()
        };
        let store = || Store {
            disk: FakeDisk::new(options.clone(), dice.u64()),
            index: FakeIndex::new(),
        };
        let house = House {
            metadata: store(),
            targets: (0..TARGETS).map(|_| store()).collect(),
            shards: VirtualShards([1, 4, 64][(seed % 3) as usize]),
            clock,
            dice: dice.clone(),
        };
        let platform = house.platform();
        for (ost, target) in (0..TARGETS).zip(&house.targets) {
            let made = Objects::init(&target.disk.disk(), &platform.platform(), whose(ost)).await;
            made.expect("no fault is injected yet");
        }
        house
    }

    fn platform(&self) -> FakePlatform {
        FakePlatform {
            clock: self.clock.clone(),
            random: self.dice.fork(),
            tasks: FakeTasks::new(),
        }
    }

    pub fn stores(&self) -> impl Iterator<Item = &Store> {
        self.targets.iter().chain([&self.metadata])
    }

    pub fn is_dead(&self) -> bool {
        self.stores().any(|store| store.disk.is_dead())
    }

    /// Calls so far, of every disk: equal runs make equal calls.
    pub fn calls(&self) -> Vec<Counters> {
        self.stores().map(|store| store.disk.counters()).collect()
    }

    /// Starts everything and connects a client.
    pub async fn live(&self, rare: &mut Rare) -> Result<Life, Stillborn> {
        let platform = self.platform();
        let begun = self.begin(&platform, rare).await;
        if begun.is_err() {
            self.end(&platform).await;
        }
        begun
    }

    async fn begin(&self, platform: &FakePlatform, rare: &mut Rare) -> Result<Life, Stillborn> {
        let mut objects = Vec::new();
        for (ost, target) in (0..TARGETS).zip(&self.targets) {
            let engine = TargetOptions {
                index: Index::fake(target.index.clone()),
                log_segment: OST_SEGMENT,
                open_files: OpenFileLimits::MIN.objects,
            };
            let disk = target.disk.disk();
            let opened = Objects::open_with(disk, platform.platform(), whose(ost), engine).await;
            objects.push(opened.map_err(|error| error.to_string())?);
        }
        let admins: Vec<Objects> = objects.clone();
        let oss = Oss::new(objects.into_iter().map(|objects| (objects.ost(), objects)));
        let targets = admins.into_iter().map(|objects| TargetHandle {
            ost: objects.ost(),
            peer: Peer::local(oss.clone()),
            admin: Ok(Arc::new(objects)),
        });
        let objects = objects_on(&oss)
            .await
            .map_err(|refusal| refusal.to_string())?;
        let (mds, records) = self.metadata(platform, targets.collect(), rare).await?;
        let osts = (0..TARGETS).map(|ost| (OstId(ost), Peer::local(oss.clone())));
        let (mds_peer, options) = (Peer::local(mds.clone()), SessionOptions::default());
        let client = Client::connect(mds_peer, osts.collect(), platform.platform(), options).await;
        Ok(Life {
            platform: platform.clone(),
            client: client.map_err(|refusal| refusal.to_string())?,
            mds,
            oss,
            records,
            objects,
            disks: self.stores().map(|store| store.disk.clone()).collect(),
        })
    }

    async fn metadata(
        &self,
        platform: &FakePlatform,
        targets: Vec<TargetHandle>,
        rare: &mut Rare,
    ) -> Result<(Arc<Mds>, Records), Stillborn> {
        let store = StoreId {
            cluster: CLUSTER,
            incarnation: INCARNATION,
        };
        let log = LogOptions {
            segment_bytes: MDS_SEGMENT,
            ..LogOptions::new(store)
        };
        let (disk, index) = (
            self.metadata.disk.disk(),
            Index::fake(self.metadata.index.clone()),
        );
        let opened = Kv::open(
            disk.clone(),
            index,
            KvOptions::new(log),
            platform.platform(),
        )
        .await;
        let (kv, found) = opened.map_err(|error| error.to_string())?;
        rare.saw_if(found.log.torn_tail.is_some(), "torn log record");
        rare.saw_if(found.replayed > 0, "index behind the log at recovery");
        let records = records::all(&kv, self.shards).map_err(|error| error.to_string())?;
        rare.saw_if(
            !records.purges.is_empty(),
            "purge or cut interrupted by a crash",
        );
        let mut options =
            MdsOptions::new((kv, found), disk, platform.platform(), CLUSTER, INCARNATION);
        options.targets = targets;
        options.shards = self.shards;
        let mds = Mds::start(options)
            .await
            .map_err(|error| error.to_string())?;
        count(mds.recovery(), rare);
        Ok((mds, records))
    }

    /// Ends the process without a shutdown.
    async fn end(&self, platform: &FakePlatform) {
        self.stores().for_each(|store| store.disk.kill());
        platform.tasks.kill();
        tokio::task::yield_now().await;
    }

    /// Killed: what was written is in the page cache.
    pub async fn kill(&self, life: Option<Life>) {
        if let Some(life) = life {
            self.end(&life.platform).await;
        }
        self.stores().for_each(|store| store.disk.restart());
        self.mend();
    }

    pub async fn cut_power(&self, life: Option<Life>) {
        if let Some(life) = life {
            self.end(&life.platform).await;
        }
        for store in self.stores() {
            store.disk.crash();
            store.index.crash(&Random::fake(self.dice.fork()));
        }
        self.mend();
    }

    /// Full disks have room again in the next life.
    fn mend(&self) {
        let plenty = FakeOptions::default().capacity;
        self.stores()
            .for_each(|store| store.disk.set_capacity(plenty));
    }
}

pub async fn objects_on(oss: &Oss) -> Result<BTreeSet<(OstId, ObjectId)>, FsError> {
    let mut there = BTreeSet::new();
    for ost in oss.osts() {
        let found = oss.objects(ost)?.list(None, 1000).await?;
        there.extend(found.into_iter().map(|(object, _)| (ost, object)));
    }
    Ok(there)
}

fn whose(ost: u16) -> TargetId {
    TargetId {
        cluster: CLUSTER,
        ost: OstId(ost),
    }
}

fn count(report: &RecoveryReport, rare: &mut Rare) {
    rare.add("orphan removed at recovery", report.orphans_forgotten);
    rare.add("writer recovered from its objects", report.writers);
    rare.add("cut resumed at recovery", report.cuts_resumed);
}

impl Life {
    /// A disk has died, and so has the process: no caller gets its later replies.
    pub fn is_over(&self) -> bool {
        self.disks.iter().any(FakeDisk::is_dead)
    }

    /// Borders close together, so that short files have several objects.
    pub async fn lay_out_small(&self) {
        let component = |to, count| DefaultComponent {
            to: FileOffset(to),
            unit: STRIPE_UNIT_MIN,
            count,
            first: None,
        };
        let rule = DefaultLayout {
            components: vec![
                component(ONE_OBJECT, 1),
                component(u64::MAX, TARGETS.into()),
            ],
        };
        let root = self.client.root();
        let (client, caller) = (&self.client, Caller::root());
        let ruled = client.set_default_layout(&caller, root, Some(rule)).await;
        ruled.expect("no fault is injected yet");
    }
}
