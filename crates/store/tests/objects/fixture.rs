//! What the tests share: a target on a real or simulated disk, and helpers for its operations.

use gupfs_platform::fake::{FakeDisk, FakeOptions, FakePlatform, FakeTasks};
use gupfs_platform::{Disk, Platform, Tasks};
use gupfs_proto::checksum;
use gupfs_proto::cluster::OwnerMark;
use gupfs_proto::data::{BlockChecksums, ChecksumCheck, ObjectExistence, ObjectOwner, ObjectStat};
use gupfs_proto::error::ObjectDamage;
use gupfs_proto::limits::CHECKSUM_BLOCK;
use gupfs_proto::{ClusterId, FsError, Generation, InodeId, ObjectId, ObjectOffset, OstId};
use gupfs_store::index::{FakeIndex, Index};
use gupfs_store::object::{
    Objects, OpenError, OpenFileLimits, TargetId, TargetOptions, WriteRequest,
};
use std::sync::Mutex;
use std::time::Duration;

pub const TARGET_ID: TargetId = TargetId {
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

/// A new target in a temporary directory, which is removed with the guard.
pub async fn real() -> (tempfile::TempDir, Objects) {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::real(dir.path()).unwrap();
    let objects = fresh(&disk, &Platform::real()).await;
    (dir, objects)
}

pub async fn fresh(disk: &Disk, platform: &Platform) -> Objects {
    Objects::init(disk, platform, TARGET_ID).await.unwrap();
    open(disk, platform).await
}

pub async fn open(disk: &Disk, platform: &Platform) -> Objects {
    let objects = open_unadopted(disk, platform).await;
    objects.adopt(OwnerMark::default()).await.unwrap();
    objects
}

pub async fn open_unadopted(disk: &Disk, platform: &Platform) -> Objects {
    Objects::open(
        disk.clone(),
        platform.clone(),
        TARGET_ID,
        OpenFileLimits::MIN,
    )
    .await
    .unwrap()
}

/// A target on a simulated disk that crashes.
pub struct Fixture {
    pub disk: FakeDisk,
    pub index: FakeIndex,
    pub platform: FakePlatform,
    /// Tasks of the current simulated process.
    tasks: Mutex<FakeTasks>,
}

impl Fixture {
    pub fn new(seed: u64, yields: bool) -> Fixture {
        Fixture::with(seed, yields, true)
    }

    /// `syncfs_reports_errors`: whether syncfs(2) reports failed writes.
    pub fn with(seed: u64, yields: bool, syncfs_reports_errors: bool) -> Fixture {
        let platform = FakePlatform::new(seed);
        let options = FakeOptions {
            yields,
            syncfs_reports_errors,
            clock: Some(platform.clock.clone()),
            ..FakeOptions::default()
        };
        Fixture {
            disk: FakeDisk::new(options, seed),
            index: FakeIndex::new(),
            platform,
            tasks: Mutex::default(),
        }
    }

    pub async fn fresh(&self) -> Objects {
        let platform = self.platform();
        Objects::init(&self.disk.disk(), &platform, TARGET_ID)
            .await
            .unwrap();
        self.open().await
    }

    /// One of several targets on the disk, in an existing directory.
    pub async fn fresh_below(&self, dir: &str) -> Objects {
        let (disk, platform) = (
            self.disk.disk().subdirectory(dir).await.unwrap(),
            self.platform(),
        );
        Objects::init(&disk, &platform, TARGET_ID).await.unwrap();
        let options = TargetOptions {
            index: Index::fake(FakeIndex::new()),
            open_files: OpenFileLimits::MAX.objects,
            log_segment: 512 << 10,
        };
        let objects = Objects::open_with(disk, platform, TARGET_ID, options)
            .await
            .unwrap();
        objects.adopt(OwnerMark::default()).await.unwrap();
        objects
    }

    pub async fn try_open(&self) -> Result<Objects, OpenError> {
        let options = TargetOptions {
            index: Index::fake(self.index.clone()),
            open_files: OpenFileLimits::MAX.objects,
            log_segment: 512 << 10, // zeroing larger segments would dominate the cost of a simulated start
        };
        let objects =
            Objects::open_with(self.disk.disk(), self.platform(), TARGET_ID, options).await?;
        // A disk that dies meanwhile closes the target; the next call then fails.
        let _ = objects.adopt(OwnerMark::default()).await;
        Ok(objects)
    }

    pub async fn open(&self) -> Objects {
        self.try_open().await.unwrap()
    }

    /// Stops the target cleanly and opens it again, with nothing in memory.
    pub async fn reopened(&self, objects: Objects) -> Objects {
        objects.stop().await.unwrap();
        drop(objects);
        self.open().await
    }

    fn platform(&self) -> Platform {
        let tasks = self.tasks.lock().unwrap().clone();
        FakePlatform {
            tasks,
            ..self.platform.clone()
        }
        .platform()
    }

    fn end_process(&self) {
        std::mem::take(&mut *self.tasks.lock().unwrap()).kill();
    }

    pub fn lose_power(&self) {
        self.end_process();
        self.disk.crash();
        self.index.crash(&self.platform.platform().random);
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

/// The checksums that a client sends: of each whole block, and of a tail that ends the object.
pub fn sums_of(at: u64, data: &[u8], ends: bool) -> BlockChecksums {
    let skip = (at.next_multiple_of(CHECKSUM_BLOCK) - at).min(data.len() as u64);
    let mut rest = &data[skip as usize..];
    if !ends {
        rest = &rest[..rest.len() / CHECKSUM_BLOCK as usize * CHECKSUM_BLOCK as usize];
    }
    BlockChecksums {
        first_block: (at + skip) / CHECKSUM_BLOCK,
        checksums: checksum::blocks(rest).into_iter().map(Some).collect(),
    }
}

pub async fn write(
    objects: &Objects,
    id: ObjectId,
    at: u64,
    data: &[u8],
) -> Result<ObjectStat, FsError> {
    let sums = sums_of(at, data, false);
    let write = WriteRequest {
        object: id,
        at: ObjectOffset(at),
        data,
        sums: &sums,
        existing: ObjectExistence::MayExist,
        owner: ObjectOwner::default(),
    };
    objects.write(write).await
}

/// Reads, and verifies each returned checksum as a client does.
pub async fn read(objects: &Objects, id: ObjectId, at: u64, len: u64) -> Result<Vec<u8>, FsError> {
    read_as(objects, id, at, len, ObjectExistence::MayExist).await
}

pub async fn read_as(
    objects: &Objects,
    id: ObjectId,
    at: u64,
    len: u64,
    existing: ObjectExistence,
) -> Result<Vec<u8>, FsError> {
    let got = objects
        .read(
            id,
            ObjectOffset(at),
            len,
            existing,
            ChecksumCheck::ByRequester,
        )
        .await?;
    let block = CHECKSUM_BLOCK as usize;
    for (index, sum) in got.sums.checksums.iter().enumerate() {
        let start = ((got.sums.first_block + index as u64) * CHECKSUM_BLOCK - at) as usize;
        let found = checksum::block(&got.data[start..start + block]);
        if sum.is_some_and(|sum| sum != found) {
            return Err(damage(id, ObjectDamage::Checksum));
        }
    }
    Ok(got.data.to_vec())
}

/// How many blocks a client can verify when it reads the whole object.
pub async fn sums_known(objects: &Objects, id: ObjectId) -> usize {
    let len = gupfs_proto::limits::PAYLOAD_MAX.get();
    let got = objects.read(
        id,
        ObjectOffset(0),
        len,
        ObjectExistence::MustExist,
        ChecksumCheck::ByRequester,
    );
    got.await.unwrap().sums.checksums.iter().flatten().count()
}

pub fn damage(object: ObjectId, what: ObjectDamage) -> FsError {
    FsError::ObjectDamaged {
        ost: TARGET_ID.ost,
        object,
        damage: what,
    }
}

/// Path of an object's first file.
pub fn path_of(id: ObjectId) -> String {
    format!("objects/{:013x}/{id}", id.ino.0 >> 12)
}

pub async fn sync(objects: &Objects, id: ObjectId) {
    objects.sync(&[id]).await.unwrap();
}

/// Bytes that identify their offset and a version.
pub fn pattern(version: u64, at: u64, len: u64) -> Vec<u8> {
    let salt = version.wrapping_mul(131);
    let byte = |place: u64| (place.wrapping_mul(0x9e37_79b9).wrapping_add(salt) >> 7) as u8;
    (at..at + len).map(byte).collect()
}
