//! The real servers over fake disks, through kills and power losses: answered operations survive a kill, synced ones survive a
//! power loss.

use crate::fake::LayoutShape;
use crate::model::ModelRun;
use crate::user::{User, create_mode, me, name};
use gupfs_client::{Client, SessionOptions};
use gupfs_mds::osts::TargetHandle;
use gupfs_mds::{Mds, MdsOptions};
use gupfs_oss::Oss;
use gupfs_platform::Random;
use gupfs_platform::fake::{FakeClock, FakeDisk, FakeOptions, FakePlatform, FakeRandom, FakeTasks};
use gupfs_proto::layout::{DefaultComponent, DefaultLayout};
use gupfs_proto::limits::STRIPE_UNIT_MIN;
use gupfs_proto::{ByteCount, Caller, ClusterId, FileOffset, Incarnation, OstId, OwnerEpoch};
use gupfs_rpc::Peer;
use gupfs_store::index::{FakeIndex, Index};
use gupfs_store::kv::{Kv, KvOptions};
use gupfs_store::log::{LogOptions, StoreId};
use gupfs_store::object::{Objects, OpenFileLimits, TargetId, TargetOptions};
use std::sync::Arc;

const CLUSTER: ClusterId = ClusterId(0xc1);
const INCARNATION: Incarnation = Incarnation(0x1c);
pub const TARGETS: u16 = 4;
/// Bytes. Zeroing larger segments would dominate the time of a simulated start.
const LOG_SEGMENT: u64 = 256 << 10;

/// Disks that survive the server processes.
pub struct ClusterDisks {
    clock: FakeClock,
    dice: FakeRandom,
    metadata: ServerStorage,
    targets: Vec<ServerStorage>,
    /// Of the first metadata server; those after it have the next ones.
    pub first_owner: Option<OwnerEpoch>,
}

/// One server's persistent storage: its disk, and the index over its log.
struct ServerStorage {
    disk: FakeDisk,
    index: FakeIndex,
}

impl ServerStorage {
    fn index(&self) -> Index {
        Index::fake(self.index.clone())
    }
}

/// The server processes of one instance, and their platform.
pub struct Servers {
    pub platform: FakePlatform,
    pub mds: Arc<Mds>,
    pub oss: Arc<Oss>,
    /// The metadata server's own platform: it can be killed alone.
    mds_platform: FakePlatform,
}

/// One process with all servers and a client.
struct Instance {
    platform: FakePlatform,
    mds_platform: FakePlatform,
    user: User,
    mds: Arc<Mds>,
    oss: Arc<Oss>,
}

impl ClusterDisks {
    pub async fn new(seed: u64) -> ClusterDisks {
        let (clock, dice) = (FakeClock::of_runtime(), FakeRandom::new(seed));
        let options = FakeOptions {
            yields: true,
            clock: Some(clock.clone()),
            ..FakeOptions::default()
        };
        let storage = || ServerStorage {
            disk: FakeDisk::new(options.clone(), dice.u64()),
            index: FakeIndex::new(),
        };
        let disks = ClusterDisks {
            metadata: storage(),
            first_owner: None,
            targets: (0..TARGETS).map(|_| storage()).collect(),
            clock,
            dice: dice.clone(),
        };
        let platform = disks.platform();
        for (ost, storage) in (0..TARGETS).zip(&disks.targets) {
            let whose = TargetId {
                cluster: CLUSTER,
                ost: OstId(ost),
            };
            Objects::init(&storage.disk.disk(), &platform.platform(), whose)
                .await
                .unwrap();
        }
        disks
    }

    fn platform(&self) -> FakePlatform {
        FakePlatform {
            clock: self.clock.clone(),
            random: self.dice.fork(),
            tasks: FakeTasks::new(),
        }
    }

    async fn start(&self) -> Instance {
        let servers = self.servers(|_| {}).await;
        let user = servers.connect(SessionOptions::default()).await;
        let Servers {
            platform,
            mds_platform,
            mds,
            oss,
            ..
        } = servers;
        Instance {
            platform,
            mds_platform,
            user,
            mds,
            oss,
        }
    }

    pub async fn servers(&self, how: impl FnOnce(&mut MdsOptions)) -> Servers {
        let platform = self.platform();
        let mut objects = Vec::new();
        for (ost, storage) in (0..TARGETS).zip(&self.targets) {
            let whose = TargetId {
                cluster: CLUSTER,
                ost: OstId(ost),
            };
            let engine = TargetOptions {
                index: storage.index(),
                log_segment: LOG_SEGMENT,
                open_files: OpenFileLimits::MIN.objects,
            };
            let opened =
                Objects::open_with(storage.disk.disk(), platform.platform(), whose, engine);
            objects.push(opened.await.unwrap());
        }
        let oss = Oss::new(objects.into_iter().map(|objects| (objects.ost(), objects)));
        let targets = targets(&oss);
        let mds_platform = FakePlatform {
            tasks: FakeTasks::new(),
            ..platform.clone()
        };
        let mds = self.metadata(&mds_platform, targets, how).await;
        Servers {
            platform,
            mds,
            oss,
            mds_platform,
        }
    }

    /// Kills the metadata server; the other processes run on.
    pub async fn kill_metadata(&self, servers: &Servers) {
        self.metadata.disk.kill();
        servers.mds_platform.tasks.kill();
        tokio::task::yield_now().await;
        self.metadata.disk.restart();
    }

    /// The metadata server's host loses power; the other processes run on.
    pub async fn power_loss_of_metadata(&self, servers: &Servers) {
        self.metadata.disk.kill();
        servers.mds_platform.tasks.kill();
        tokio::task::yield_now().await;
        self.metadata.disk.crash();
        self.metadata.index.crash(&Random::fake(self.dice.fork()));
    }

    pub async fn start_metadata(&self, servers: &mut Servers, how: impl FnOnce(&mut MdsOptions)) {
        servers.mds_platform = self.platform();
        let targets = targets(&servers.oss);
        servers.mds = self.metadata(&servers.mds_platform, targets, how).await;
    }
    async fn metadata(
        &self,
        platform: &FakePlatform,
        targets: Vec<TargetHandle>,
        how: impl FnOnce(&mut MdsOptions),
    ) -> Arc<Mds> {
        let store = StoreId {
            cluster: CLUSTER,
            incarnation: INCARNATION,
        };
        let is_new = self.metadata.disk.files().is_empty();
        let log = LogOptions {
            segment_bytes: LOG_SEGMENT,
            epoch: self.first_owner.filter(|_| is_new),
            ..LogOptions::new(store)
        };
        let (disk, index) = (self.metadata.disk.disk(), self.metadata.index());
        let kv = Kv::open(
            disk.clone(),
            index,
            KvOptions::new(log),
            platform.platform(),
        )
        .await
        .unwrap();
        let mut options = MdsOptions::new(kv, disk, platform.platform(), CLUSTER, INCARNATION);
        options.targets = targets;
        how(&mut options);
        Mds::start(options).await.unwrap()
    }

    /// Objects in all targets.
    pub fn objects(&self) -> usize {
        let files = self.targets.iter().flat_map(|storage| storage.disk.files());
        files.filter(|path| path.starts_with("objects/")).count()
    }

    fn storages(&self) -> impl Iterator<Item = &ServerStorage> {
        self.targets.iter().chain([&self.metadata])
    }

    async fn end(&self, instance: Instance) {
        instance.mds_platform.tasks.kill();
        self.end_of(&instance.platform).await;
    }

    async fn end_of(&self, platform: &FakePlatform) {
        self.storages().for_each(|storage| storage.disk.kill());
        platform.tasks.kill();
        tokio::task::yield_now().await;
    }

    /// All servers and their clients end, and the disks lose unsynced data.
    pub async fn power_loss_of(&self, servers: Servers) {
        servers.mds_platform.tasks.kill();
        self.end_of(&servers.platform).await;
        self.forget_unsynced();
    }

    async fn kill(&self, instance: Instance) {
        self.end(instance).await;
        self.storages().for_each(|storage| storage.disk.restart());
    }

    async fn power_loss(&self, instance: Instance) {
        self.end(instance).await;
        self.forget_unsynced();
    }

    fn forget_unsynced(&self) {
        for storage in self.storages() {
            storage.disk.crash();
            storage.index.crash(&Random::fake(self.dice.fork()));
        }
    }
}

fn targets(oss: &Arc<Oss>) -> Vec<TargetHandle> {
    let target = |ost: OstId| TargetHandle {
        ost,
        peer: Peer::local(oss.clone()),
        admin: match oss.objects(ost) {
            Ok(objects) => Ok(Arc::new(objects)),
            Err(error) => Err(error.to_string()),
        },
    };
    oss.osts().into_iter().map(target).collect()
}

impl Servers {
    pub async fn connect(&self, options: SessionOptions) -> User {
        self.connect_by(Peer::local(self.mds.clone()), options)
            .await
    }

    pub async fn connect_by(&self, mds: gupfs_client::MdsPeer, options: SessionOptions) -> User {
        self.connect_on(self.platform.clone(), mds, options).await
    }

    /// A client with tasks of its own.
    pub async fn connect_on(
        &self,
        platform: FakePlatform,
        mds: gupfs_client::MdsPeer,
        options: SessionOptions,
    ) -> User {
        let osts = (0..TARGETS).map(|ost| (OstId(ost), Peer::local(self.oss.clone())));
        let client = Client::connect(mds, osts.collect(), platform.platform(), options);
        User {
            client: client.await.unwrap(),
            platform,
        }
    }
}

impl Instance {
    async fn lay_out_small(&self) {
        lay_out_small(&self.user).await;
    }
}

/// Layout borders close together, as in `LayoutShape::Small`.
pub async fn lay_out_small(user: &User) {
    let component = |to, count| DefaultComponent {
        to: FileOffset(to),
        unit: STRIPE_UNIT_MIN,
        count,
        first: None,
        redundancy: gupfs_proto::layout::Redundancy::None,
    };
    assert_eq!(STRIPE_UNIT_MIN, ByteCount::kib(64));
    let rule = DefaultLayout {
        components: vec![component(256 << 10, 1), component(u64::MAX, 3)],
    };
    let (client, root) = (&user.client, user.client.root());
    client
        .set_default_layout(&Caller::root(), root, Some(rule))
        .await
        .unwrap();
    // So that the test user may create files.
    let open = gupfs_proto::meta::SetAttr {
        mode: Some(0o777),
        ..Default::default()
    };
    client.setattr(&Caller::root(), root, open).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn random_operations_through_real_servers_and_kills() {
    for seed in 0..12 {
        println!("seed {seed}");
        let disks = ClusterDisks::new(seed).await;
        let mut instance = disks.start().await;
        instance.lay_out_small().await;
        let mut run = ModelRun::new(instance.user.clone(), LayoutShape::Small, |_, _| {}).await;
        for _ in 0..4 {
            for number in 0..20 {
                let step = run.step().await;
                println!("{number}: {step}");
                run.check_all().await;
            }
            disks.kill(instance).await;
            println!("killed");
            instance = disks.start().await;
            run.continue_with(instance.user.clone()).await;
        }
        run.close_all().await;
        instance.user.client.stop().await.unwrap();
        instance.mds.stop().await.unwrap();
        instance.oss.stop().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn synced_data_survives_a_power_loss() {
    for seed in 100..120 {
        println!("seed {seed}");
        let disks = ClusterDisks::new(seed).await;
        let mut instance = disks.start().await;
        instance.lay_out_small().await;
        let mut run = ModelRun::new(instance.user.clone(), LayoutShape::Small, |_, _| {}).await;
        for _ in 0..4 {
            for number in 0..15 {
                let step = run.step().await;
                println!("{number}: {step}");
            }
            run.sync().await;
            disks.power_loss(instance).await;
            println!("power loss");
            instance = disks.start().await;
            run.continue_with(instance.user.clone()).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn orphans_and_their_objects_are_removed_after_a_kill() {
    let disks = ClusterDisks::new(7).await;
    let instance = disks.start().await;
    instance.lay_out_small().await;
    let (user, root) = (instance.user.clone(), instance.user.client.root());
    let file = user.create("file").await;
    user.write(&file, 0, &[1; 600_000]).await;
    let opened = user
        .client
        .tmpfile(&me(), root, create_mode(), file.access(), file.flags())
        .await
        .unwrap();
    user.write(&opened.file, 0, &[1; 600_000]).await;
    user.client
        .unlink(&me(), root, &name("file"))
        .await
        .unwrap();
    assert_eq!(user.read(&file, 599_999, 10).await, [1]);
    disks.kill(instance).await;
    let instance = disks.start().await;
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    let space = instance.user.client.statfs(&me()).await.unwrap();
    assert_eq!((space.inodes, space.purging), (1, 0));
    for storage in &disks.targets {
        let objects = storage
            .disk
            .files()
            .into_iter()
            .filter(|path| path.starts_with("objects/"));
        assert_eq!(objects.count(), 0);
    }
}
