//! The host: disks and indexes that outlive its processes, and one process that runs all servers and a client.

use super::records::{self, Records};
use crate::rare_events::RareEvents;
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

/// The largest file that is stored in one object; a larger one is striped.
pub const ONE_OBJECT: u64 = 256 << 10;

/// A disk, and the index stored on it.
#[derive(Clone)]
pub struct Store {
    pub disk: FakeDisk,
    index: FakeIndex,
}

pub struct Host {
    clock: FakeClock,
    random: FakeRandom,
    shards: VirtualShards,
    pub metadata: Store,
    pub targets: Vec<Store>,
}

/// One instance of the process that runs all servers and a client.
pub struct ProcessInstance {
    pub platform: FakePlatform,
    pub client: Arc<Client>,
    pub mds: Arc<Mds>,
    pub oss: Arc<Oss>,
    /// The records at the start, before recovery changed any.
    pub records: Records,
    /// The objects at the start, before any background task.
    pub objects: BTreeSet<(OstId, ObjectId)>,
    disks: Vec<FakeDisk>,
}

/// The reason why an instance did not start: a disk failed during the start.
pub type StartError = String;

impl Host {
    pub async fn new(seed: u64) -> Host {
        let (clock, random) = (FakeClock::of_runtime(), FakeRandom::new(seed));
        let options = FakeOptions {
            yields: !seed.is_multiple_of(4),
            clock: Some(clock.clone()),
            ..FakeOptions::default()
        };
        let store = || Store {
            disk: FakeDisk::new(options.clone(), random.u64()),
            index: FakeIndex::new(),
        };
        let host = Host {
            metadata: store(),
            targets: (0..TARGETS).map(|_| store()).collect(),
            shards: VirtualShards([1, 4, 64][(seed % 3) as usize]),
            clock,
            random: random.clone(),
        };
        let platform = host.platform();
        for (ost, target) in (0..TARGETS).zip(&host.targets) {
            let initialized =
                Objects::init(&target.disk.disk(), &platform.platform(), target_id(ost)).await;
            initialized.expect("no fault is injected yet");
        }
        host
    }

    fn platform(&self) -> FakePlatform {
        FakePlatform {
            clock: self.clock.clone(),
            random: self.random.fork(),
            tasks: FakeTasks::new(),
        }
    }

    pub fn stores(&self) -> impl Iterator<Item = &Store> {
        self.targets.iter().chain([&self.metadata])
    }

    pub fn is_dead(&self) -> bool {
        self.stores().any(|store| store.disk.is_dead())
    }

    /// The calls of each disk so far: equal runs make equal calls.
    pub fn calls(&self) -> Vec<Counters> {
        self.stores().map(|store| store.disk.counters()).collect()
    }

    /// Starts all servers and connects a client.
    pub async fn start(&self, rare_events: &mut RareEvents) -> Result<ProcessInstance, StartError> {
        let platform = self.platform();
        let begun = self.start_parts(&platform, rare_events).await;
        if begun.is_err() {
            self.terminate(&platform).await;
        }
        begun
    }

    async fn start_parts(
        &self,
        platform: &FakePlatform,
        rare_events: &mut RareEvents,
    ) -> Result<ProcessInstance, StartError> {
        let mut objects = Vec::new();
        for (ost, target) in (0..TARGETS).zip(&self.targets) {
            let engine = TargetOptions {
                index: Index::fake(target.index.clone()),
                log_segment: OST_SEGMENT,
                open_files: OpenFileLimits::MIN.objects,
            };
            let disk = target.disk.disk();
            let opened =
                Objects::open_with(disk, platform.platform(), target_id(ost), engine).await;
            objects.push(opened.map_err(|error| error.to_string())?);
        }
        let admins: Vec<Objects> = objects.clone();
        let oss = Oss::new(objects.into_iter().map(|objects| (objects.ost(), objects)));
        let targets = admins.into_iter().map(|objects| TargetHandle {
            ost: objects.ost(),
            peer: Peer::local(oss.clone()),
            admin: Ok(Arc::new(objects)),
        });
        let objects = list_objects(&oss)
            .await
            .map_err(|refusal| refusal.to_string())?;
        let (mds, records) = self
            .metadata(platform, targets.collect(), rare_events)
            .await?;
        let osts = (0..TARGETS).map(|ost| (OstId(ost), Peer::local(oss.clone())));
        let (mds_peer, options) = (Peer::local(mds.clone()), SessionOptions::default());
        let client = Client::connect(mds_peer, osts.collect(), platform.platform(), options).await;
        Ok(ProcessInstance {
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
        rare_events: &mut RareEvents,
    ) -> Result<(Arc<Mds>, Records), StartError> {
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
        rare_events.count_if(found.log.torn_tail.is_some(), "torn log record");
        rare_events.count_if(found.replayed > 0, "index behind the log at recovery");
        let records = records::read_all(&kv, self.shards).map_err(|error| error.to_string())?;
        rare_events.count_if(
            !records.purges.is_empty(),
            "purge or truncate interrupted by a crash",
        );
        let mut options =
            MdsOptions::new((kv, found), disk, platform.platform(), CLUSTER, INCARNATION);
        options.targets = targets;
        options.shards = self.shards;
        let mds = Mds::start(options)
            .await
            .map_err(|error| error.to_string())?;
        count_recovery(mds.recovery(), rare_events);
        Ok((mds, records))
    }

    /// Ends the process without a shutdown.
    async fn terminate(&self, platform: &FakePlatform) {
        self.stores().for_each(|store| store.disk.kill());
        platform.tasks.kill();
        tokio::task::yield_now().await;
    }

    /// Kills the process. Written bytes stay in the page cache.
    pub async fn kill(&self, instance: Option<ProcessInstance>) {
        if let Some(instance) = instance {
            self.terminate(&instance.platform).await;
        }
        self.stores().for_each(|store| store.disk.restart());
        self.restore_capacity();
    }

    pub async fn lose_power(&self, instance: Option<ProcessInstance>) {
        if let Some(instance) = instance {
            self.terminate(&instance.platform).await;
        }
        for store in self.stores() {
            store.disk.crash();
            store.index.crash(&Random::fake(self.random.fork()));
        }
        self.restore_capacity();
    }

    /// Full disks have free space again in the next instance.
    fn restore_capacity(&self) {
        let capacity = FakeOptions::default().capacity;
        self.stores()
            .for_each(|store| store.disk.set_capacity(capacity));
    }
}

pub async fn list_objects(oss: &Oss) -> Result<BTreeSet<(OstId, ObjectId)>, FsError> {
    let mut objects = BTreeSet::new();
    for ost in oss.osts() {
        let found = oss.objects(ost)?.list(None, 1000).await?;
        objects.extend(found.into_iter().map(|(object, _)| (ost, object)));
    }
    Ok(objects)
}

fn target_id(ost: u16) -> TargetId {
    TargetId {
        cluster: CLUSTER,
        ost: OstId(ost),
    }
}

fn count_recovery(report: &RecoveryReport, rare_events: &mut RareEvents) {
    rare_events.add("orphan removed at recovery", report.orphans_forgotten);
    rare_events.add("writer recovered from its objects", report.writers);
    rare_events.add("truncate resumed at recovery", report.cuts_resumed);
}

impl ProcessInstance {
    /// A disk has failed, and the process with it: no caller gets a reply any more.
    pub fn is_dead(&self) -> bool {
        self.disks.iter().any(FakeDisk::is_dead)
    }

    /// Sets a default layout with small components, so that short files have several objects.
    pub async fn set_small_layout(&self) {
        let component = |to, count| DefaultComponent {
            to: FileOffset(to),
            unit: STRIPE_UNIT_MIN,
            count,
            first: None,
            redundancy: gupfs_proto::layout::Redundancy::None,
        };
        let layout = DefaultLayout {
            components: vec![
                component(ONE_OBJECT, 1),
                component(u64::MAX, TARGETS.into()),
            ],
        };
        let root = self.client.root();
        let (client, caller) = (&self.client, Caller::root());
        let layout_set = client.set_default_layout(&caller, root, Some(layout)).await;
        layout_set.expect("no fault is injected yet");
    }
}
