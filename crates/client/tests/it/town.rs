//! The real servers over faked disks, killed and cut from power: what was answered survives the one, what was synced
//! survives the other.

use crate::fake::Shape;
use crate::model::Run;
use crate::user::{User, make, me, name};
use gupfs_client::{Client, Options};
use gupfs_mds::targets::Target;
use gupfs_mds::{Mds, Options as MdsOptions};
use gupfs_oss::Oss;
use gupfs_platform::Dice;
use gupfs_platform::fake::{FakeClock, FakeDice, FakeDisk, FakeOptions, FakeTasks, FakeWorld};
use gupfs_proto::layout::{ComponentRule, LayoutRule};
use gupfs_proto::limits::STRIPE_UNIT_MIN;
use gupfs_proto::{ByteCount, Caller, ClusterId, FileOffset, Incarnation, OstId};
use gupfs_rpc::Peer;
use gupfs_store::index::{FakeIndex, Index};
use gupfs_store::kv::{Kv, KvOptions};
use gupfs_store::log::{LogOptions, StoreId};
use gupfs_store::object::{Engine, Objects, OpenFiles, Whose};
use std::sync::Arc;

const CLUSTER: ClusterId = ClusterId(0xc1);
const INCARNATION: Incarnation = Incarnation(0x1c);
const TARGETS: u16 = 4;
/// Bytes. Zeroing larger ones is most of what a simulated start costs.
const LOG_SEGMENT: u64 = 256 << 10;

/// Disks that outlive the processes.
pub struct Town {
    clock: FakeClock,
    dice: FakeDice,
    metadata: Cellar,
    targets: Vec<Cellar>,
}

/// What one server has for keeping: its disk, and the index over its log.
struct Cellar {
    disk: FakeDisk,
    index: FakeIndex,
}

impl Cellar {
    fn index(&self) -> Index {
        Index::fake(self.index.clone())
    }
}

/// The servers of one life, and what happens in it.
pub struct Servers {
    pub platform: FakeWorld,
    pub mds: Arc<Mds>,
    pub oss: Arc<Oss>,
    /// The metadata server's own part of the world: it can die alone.
    mds_world: FakeWorld,
}

/// One process: all servers and a client.
struct Life {
    platform: FakeWorld,
    mds_world: FakeWorld,
    user: User,
    mds: Arc<Mds>,
    oss: Arc<Oss>,
}

impl Town {
    pub async fn found(seed: u64) -> Town {
        let (clock, dice) = (FakeClock::of_runtime(), FakeDice::new(seed));
        let options = FakeOptions {
            yields: true,
            clock: Some(clock.clone()),
            ..FakeOptions::default()
        };
        let cellar = || Cellar {
            disk: FakeDisk::new(options.clone(), dice.u64()),
            index: FakeIndex::new(),
        };
        let town = Town {
            metadata: cellar(),
            targets: (0..TARGETS).map(|_| cellar()).collect(),
            clock,
            dice: dice.clone(),
        };
        let platform = town.platform();
        for (ost, cellar) in (0..TARGETS).zip(&town.targets) {
            let whose = Whose {
                cluster: CLUSTER,
                ost: OstId(ost),
            };
            Objects::init(&cellar.disk.disk(), &platform.platform(), whose)
                .await
                .unwrap();
        }
        town
    }

    fn platform(&self) -> FakeWorld {
        FakeWorld {
            clock: self.clock.clone(),
            dice: self.dice.fork(),
            tasks: FakeTasks::new(),
        }
    }

    async fn live(&self) -> Life {
        let servers = self.servers(|_| {}).await;
        let user = servers.connect(Options::default()).await;
        let Servers {
            platform,
            mds_world,
            mds,
            oss,
            ..
        } = servers;
        Life {
            platform,
            mds_world,
            user,
            mds,
            oss,
        }
    }

    pub async fn servers(&self, how: impl FnOnce(&mut MdsOptions)) -> Servers {
        let platform = self.platform();
        let mut objects = Vec::new();
        for (ost, cellar) in (0..TARGETS).zip(&self.targets) {
            let whose = Whose {
                cluster: CLUSTER,
                ost: OstId(ost),
            };
            let engine = Engine {
                index: cellar.index(),
                log_segment: LOG_SEGMENT,
                open_files: OpenFiles::LEAST.objects,
            };
            let opened = Objects::open_with(cellar.disk.disk(), platform.platform(), whose, engine);
            objects.push(opened.await.unwrap());
        }
        let oss = Oss::new(objects.into_iter().map(|objects| (objects.ost(), objects)));
        let targets = targets(&oss);
        let mds_world = FakeWorld {
            tasks: FakeTasks::new(),
            ..platform.clone()
        };
        let mds = self.metadata(&mds_world, targets, how).await;
        Servers {
            platform,
            mds,
            oss,
            mds_world,
        }
    }

    /// The metadata server is killed; everybody else lives.
    pub async fn kill_metadata(&self, servers: &Servers) {
        self.metadata.disk.kill();
        servers.mds_world.tasks.kill();
        tokio::task::yield_now().await;
        self.metadata.disk.restart();
    }

    /// The metadata server's machine loses its power; everybody else lives.
    pub async fn cut_power_of_metadata(&self, servers: &Servers) {
        self.metadata.disk.kill();
        servers.mds_world.tasks.kill();
        tokio::task::yield_now().await;
        self.metadata.disk.crash();
        self.metadata.index.crash(&Dice::fake(self.dice.fork()));
    }

    pub async fn start_metadata(&self, servers: &mut Servers, how: impl FnOnce(&mut MdsOptions)) {
        servers.mds_world = self.platform();
        let targets = targets(&servers.oss);
        servers.mds = self.metadata(&servers.mds_world, targets, how).await;
    }
    async fn metadata(
        &self,
        platform: &FakeWorld,
        targets: Vec<Target>,
        how: impl FnOnce(&mut MdsOptions),
    ) -> Arc<Mds> {
        let store = StoreId {
            cluster: CLUSTER,
            incarnation: INCARNATION,
        };
        let log = LogOptions {
            segment_bytes: LOG_SEGMENT,
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
        let files = self.targets.iter().flat_map(|cellar| cellar.disk.files());
        files.filter(|path| path.starts_with("objects/")).count()
    }

    fn cellars(&self) -> impl Iterator<Item = &Cellar> {
        self.targets.iter().chain([&self.metadata])
    }

    async fn end(&self, life: Life) {
        life.mds_world.tasks.kill();
        self.end_of(&life.platform).await;
    }

    async fn end_of(&self, platform: &FakeWorld) {
        self.cellars().for_each(|cellar| cellar.disk.kill());
        platform.tasks.kill();
        tokio::task::yield_now().await;
    }

    /// The servers and all their clients end, and the disks forget what a power cut forgets.
    pub async fn cut_power_of(&self, servers: Servers) {
        servers.mds_world.tasks.kill();
        self.end_of(&servers.platform).await;
        self.forget_unsynced();
    }

    async fn kill(&self, life: Life) {
        self.end(life).await;
        self.cellars().for_each(|cellar| cellar.disk.restart());
    }

    async fn cut_power(&self, life: Life) {
        self.end(life).await;
        self.forget_unsynced();
    }

    fn forget_unsynced(&self) {
        for cellar in self.cellars() {
            cellar.disk.crash();
            cellar.index.crash(&Dice::fake(self.dice.fork()));
        }
    }
}

fn targets(oss: &Arc<Oss>) -> Vec<Target> {
    let target = |ost: OstId| Target {
        ost,
        peer: Peer::local(oss.clone()),
        admin: match oss.objects(ost) {
            Ok(objects) => Ok(Arc::new(objects)),
            Err(refusal) => Err(refusal.to_string()),
        },
    };
    oss.osts().into_iter().map(target).collect()
}

impl Servers {
    pub async fn connect(&self, options: Options) -> User {
        self.connect_by(Peer::local(self.mds.clone()), options)
            .await
    }

    pub async fn connect_by(&self, mds: gupfs_client::Mds, options: Options) -> User {
        let osts = (0..TARGETS).map(|ost| (OstId(ost), Peer::local(self.oss.clone())));
        let client = Client::connect(mds, osts.collect(), self.platform.platform(), options);
        User {
            platform: self.platform.clone(),
            client: client.await.unwrap(),
        }
    }
}

impl Life {
    async fn lay_out_small(&self) {
        lay_out_small(&self.user).await;
    }
}

/// Borders close together, as in `Shape::Small`.
pub async fn lay_out_small(user: &User) {
    let component = |to, count| ComponentRule {
        to: FileOffset(to),
        unit: STRIPE_UNIT_MIN,
        count,
        first: None,
    };
    assert_eq!(STRIPE_UNIT_MIN, ByteCount::kib(64));
    let rule = LayoutRule {
        components: vec![component(256 << 10, 1), component(u64::MAX, 3)],
    };
    let (client, root) = (&user.client, user.client.root());
    client
        .set_layout_rule(&Caller::root(), root, Some(rule))
        .await
        .unwrap();
    // So that the user of the tests may make files.
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
        let town = Town::found(seed).await;
        let mut life = town.live().await;
        life.lay_out_small().await;
        let mut run = Run::new(life.user.clone(), Shape::Small, |_, _| {}).await;
        for _ in 0..4 {
            for number in 0..20 {
                let step = run.step().await;
                println!("{number}: {step}");
                run.check_all().await;
            }
            town.kill(life).await;
            println!("killed");
            life = town.live().await;
            run.live_on(life.user.clone()).await;
        }
        run.close_all().await;
        life.user.client.stop().await.unwrap();
        life.mds.stop().await.unwrap();
        life.oss.stop().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_synced_is_there_after_a_power_cut() {
    for seed in 100..120 {
        println!("seed {seed}");
        let town = Town::found(seed).await;
        let mut life = town.live().await;
        life.lay_out_small().await;
        let mut run = Run::new(life.user.clone(), Shape::Small, |_, _| {}).await;
        for _ in 0..4 {
            for number in 0..15 {
                let step = run.step().await;
                println!("{number}: {step}");
            }
            run.sync().await;
            town.cut_power(life).await;
            println!("power cut");
            life = town.live().await;
            run.live_on(life.user.clone()).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_orphan_is_gone_after_a_kill_and_so_are_its_objects() {
    let town = Town::found(7).await;
    let life = town.live().await;
    life.lay_out_small().await;
    let (user, root) = (life.user.clone(), life.user.client.root());
    let file = user.create("file").await;
    user.write(&file, 0, &[1; 600_000]).await;
    let opened = user
        .client
        .tmpfile(&me(), root, make(), file.access(), file.flags())
        .await
        .unwrap();
    user.write(&opened.file, 0, &[1; 600_000]).await;
    user.client
        .unlink(&me(), root, &name("file"))
        .await
        .unwrap();
    assert_eq!(user.read(&file, 599_999, 10).await, [1]);
    town.kill(life).await;
    let life = town.live().await;
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    let space = life.user.client.statfs(&me()).await.unwrap();
    assert_eq!((space.inodes, space.purging), (1, 0));
    for cellar in &town.targets {
        let objects = cellar
            .disk
            .files()
            .into_iter()
            .filter(|path| path.starts_with("objects/"));
        assert_eq!(objects.count(), 0);
    }
}
