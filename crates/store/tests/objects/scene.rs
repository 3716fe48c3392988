//! What the tests share: a target somewhere, and short ways to ask it.

use gupfs_platform::fake::{FakeDisk, FakeOptions, FakeTasks, FakeWorld};
use gupfs_platform::{Disk, Platform, Tasks};
use gupfs_proto::checksum;
use gupfs_proto::cluster::OwnerMark;
use gupfs_proto::data::{BlockSums, Checked, Existing, ObjectStat, Owner};
use gupfs_proto::limits::CHECKSUM_BLOCK;
use gupfs_proto::refusal::ObjectDamage;
use gupfs_proto::{ClusterId, Generation, InodeId, ObjectId, ObjectOffset, OstId, Refusal};
use gupfs_store::index::{FakeIndex, Index};
use gupfs_store::object::{Engine, Objects, OpenError, OpenFiles, Whose, Write};
use std::sync::Mutex;
use std::time::Duration;

pub const WHOSE: Whose = Whose {
    cluster: ClusterId(77),
    ost: OstId(3),
};

pub fn object(ino: u64) -> ObjectId {
    ObjectId {
        ino: InodeId(ino),
        generation: Generation(1),
        stripe: 0,
    }
}

/// A new target in a directory of the machine, gone with the guard.
pub async fn real() -> (tempfile::TempDir, Objects) {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::real(dir.path()).unwrap();
    let objects = fresh(&disk, &Platform::real()).await;
    (dir, objects)
}

pub async fn fresh(disk: &Disk, platform: &Platform) -> Objects {
    Objects::init(disk, platform, WHOSE).await.unwrap();
    open(disk, platform).await
}

pub async fn open(disk: &Disk, platform: &Platform) -> Objects {
    let objects = open_unadopted(disk, platform).await;
    objects.adopt(OwnerMark::default()).await.unwrap();
    objects
}

pub async fn open_unadopted(disk: &Disk, platform: &Platform) -> Objects {
    Objects::open(disk.clone(), platform.clone(), WHOSE, OpenFiles::LEAST)
        .await
        .unwrap()
}

/// A target on a disk that crashes.
pub struct House {
    pub disk: FakeDisk,
    pub index: FakeIndex,
    pub platform: FakeWorld,
    /// Of the process that runs now.
    tasks: Mutex<FakeTasks>,
}

impl House {
    pub fn new(seed: u64, yields: bool) -> House {
        House::with(seed, yields, true)
    }

    /// `sync_everything_tells`: whether syncfs(2) says that a write failed.
    pub fn with(seed: u64, yields: bool, sync_everything_tells: bool) -> House {
        let platform = FakeWorld::new(seed);
        let options = FakeOptions {
            yields,
            sync_everything_tells,
            clock: Some(platform.clock.clone()),
            ..FakeOptions::default()
        };
        House {
            disk: FakeDisk::new(options, seed),
            index: FakeIndex::new(),
            platform,
            tasks: Mutex::default(),
        }
    }

    pub async fn fresh(&self) -> Objects {
        let platform = self.platform();
        Objects::init(&self.disk.disk(), &platform, WHOSE)
            .await
            .unwrap();
        self.open().await
    }

    /// One of several targets on the disk, in a directory that is there.
    pub async fn fresh_below(&self, dir: &str) -> Objects {
        let (disk, platform) = (self.disk.disk().under(dir).await.unwrap(), self.platform());
        Objects::init(&disk, &platform, WHOSE).await.unwrap();
        let engine = Engine {
            index: Index::fake(FakeIndex::new()),
            open_files: OpenFiles::MOST.objects,
            log_segment: 512 << 10,
        };
        let objects = Objects::open_with(disk, platform, WHOSE, engine)
            .await
            .unwrap();
        objects.adopt(OwnerMark::default()).await.unwrap();
        objects
    }

    pub async fn try_open(&self) -> Result<Objects, OpenError> {
        let engine = Engine {
            index: Index::fake(self.index.clone()),
            open_files: OpenFiles::MOST.objects,
            log_segment: 512 << 10, // zeroing larger ones is most of what a simulated start costs
        };
        let objects = Objects::open_with(self.disk.disk(), self.platform(), WHOSE, engine).await?;
        // A disk that dies meanwhile closes the target: the next call says so.
        let _ = objects.adopt(OwnerMark::default()).await;
        Ok(objects)
    }

    pub async fn open(&self) -> Objects {
        self.try_open().await.unwrap()
    }

    /// Stopped cleanly and opened again, with nothing in memory.
    pub async fn reopened(&self, objects: Objects) -> Objects {
        objects.stop().await.unwrap();
        drop(objects);
        self.open().await
    }

    fn platform(&self) -> Platform {
        let tasks = self.tasks.lock().unwrap().clone();
        FakeWorld {
            tasks,
            ..self.platform.clone()
        }
        .platform()
    }

    fn end_process(&self) {
        std::mem::take(&mut *self.tasks.lock().unwrap()).kill();
    }

    pub fn cut_power(&self) {
        self.end_process();
        self.disk.crash();
        self.index.crash(&self.platform.platform().dice);
    }

    pub fn kill(&self) {
        self.end_process();
        self.disk.restart();
    }

    pub async fn sleep(&self, time: Duration) {
        self.platform.platform().clock.sleep(time).await;
    }

    pub fn tasks(&self) -> Tasks {
        Tasks::fake(self.tasks.lock().unwrap().clone())
    }
}

/// The sums a client would send: of each whole block, and of a tail that ends the object.
pub fn sums_of(at: u64, data: &[u8], ends: bool) -> BlockSums {
    let skip = (at.next_multiple_of(CHECKSUM_BLOCK) - at).min(data.len() as u64);
    let mut rest = &data[skip as usize..];
    if !ends {
        rest = &rest[..rest.len() / CHECKSUM_BLOCK as usize * CHECKSUM_BLOCK as usize];
    }
    BlockSums {
        first_block: (at + skip) / CHECKSUM_BLOCK,
        sums: checksum::blocks(rest).into_iter().map(Some).collect(),
    }
}

pub async fn write(
    objects: &Objects,
    id: ObjectId,
    at: u64,
    data: &[u8],
) -> Result<ObjectStat, Refusal> {
    let sums = sums_of(at, data, false);
    let write = Write {
        object: id,
        at: ObjectOffset(at),
        data,
        sums: &sums,
        existing: Existing::Perhaps,
        owner: Owner::default(),
    };
    objects.write(write).await
}

/// Reads, and checks each sum that comes with the bytes as a client does.
pub async fn read(objects: &Objects, id: ObjectId, at: u64, len: u64) -> Result<Vec<u8>, Refusal> {
    read_as(objects, id, at, len, Existing::Perhaps).await
}

pub async fn read_as(
    objects: &Objects,
    id: ObjectId,
    at: u64,
    len: u64,
    existing: Existing,
) -> Result<Vec<u8>, Refusal> {
    let got = objects
        .read(id, ObjectOffset(at), len, existing, Checked::ByAsker)
        .await?;
    let block = CHECKSUM_BLOCK as usize;
    for (index, sum) in got.sums.sums.iter().enumerate() {
        let start = ((got.sums.first_block + index as u64) * CHECKSUM_BLOCK - at) as usize;
        let found = checksum::block(&got.data[start..start + block]);
        if sum.is_some_and(|sum| sum != found) {
            return Err(damage(id, ObjectDamage::Checksum));
        }
    }
    Ok(got.data.to_vec())
}

/// How many blocks a reader of all of an object can check.
pub async fn sums_known(objects: &Objects, id: ObjectId) -> usize {
    let len = gupfs_proto::limits::PAYLOAD_MAX.get();
    let got = objects.read(
        id,
        ObjectOffset(0),
        len,
        Existing::Certain,
        Checked::ByAsker,
    );
    got.await.unwrap().sums.sums.iter().flatten().count()
}

pub fn damage(object: ObjectId, what: ObjectDamage) -> Refusal {
    Refusal::ObjectDamaged {
        ost: WHOSE.ost,
        object,
        what,
    }
}

/// Where an object's first file lies.
pub fn path_of(id: ObjectId) -> String {
    format!("objects/{:013x}/{id}", id.ino.0 >> 12)
}

pub async fn sync(objects: &Objects, id: ObjectId) {
    objects.sync(&[id]).await.unwrap();
}

/// Bytes that tell their place and a version.
pub fn pattern(version: u64, at: u64, len: u64) -> Vec<u8> {
    let salt = version.wrapping_mul(131);
    let byte = |place: u64| (place.wrapping_mul(0x9e37_79b9).wrapping_add(salt) >> 7) as u8;
    (at..at + len).map(byte).collect()
}
