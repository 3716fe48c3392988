//! A target with changed bytes: it is opened or refused. Where only bytes of objects were changed, what is read is what was
//! written, or the reader is told.

use crate::patches::lay;
use gupfs_proto::cluster::OwnerMark;
use gupfs_proto::data::{BlockSums, Checked, Existing, Owner};
use gupfs_proto::limits::CHECKSUM_BLOCK;
use gupfs_proto::{
    ClusterId, Generation, InodeId, ObjectId, ObjectOffset, OstId, Refusal, checksum,
};
use gupfs_store::index::{FakeIndex, Index};
use gupfs_store::object::{Engine, Objects, OpenError, OpenFiles, Whose, Write};
use gupfs_platform::fake::{FakeDisk, FakeOptions, FakeWorld};

const WHOSE: Whose = Whose {
    cluster: ClusterId(77),
    ost: OstId(3),
};
const LENGTH: usize = 3 * CHECKSUM_BLOCK as usize;

fn object(ino: u64) -> ObjectId {
    ObjectId {
        ino: InodeId(ino),
        generation: Generation(1),
        stripe: 0,
    }
}

fn content(ino: u64) -> Vec<u8> {
    (0..LENGTH).map(|at| (at as u64 * 31 + ino) as u8).collect()
}

async fn open(disk: &FakeDisk, index: &FakeIndex, platform: &FakeWorld) -> Result<Objects, OpenError> {
    let engine = Engine {
        index: Index::fake(index.clone()),
        open_files: OpenFiles::MOST.objects,
        log_segment: 512 << 10,
    };
    let objects = Objects::open_with(disk.disk(), platform.platform(), WHOSE, engine).await?;
    // One that cannot be written down serves nothing: what is asked of it says so.
    let _ = objects.adopt(OwnerMark::default()).await;
    Ok(objects)
}

/// The first byte says whether only objects are changed; the rest are changes.
pub fn image(input: &[u8]) {
    let Some((how, changes)) = input.split_first() else {
        return;
    };
    let only_objects = how & 1 == 1;
    crate::simulate(async {
        let (platform, index) = (FakeWorld::new(1), FakeIndex::new());
        let disk = FakeDisk::new(FakeOptions::default(), 1);
        Objects::init(&disk.disk(), &platform.platform(), WHOSE)
            .await
            .expect("an empty disk takes a target");
        let objects = open(&disk, &index, &platform).await.expect("it is new");
        for ino in [1, 2] {
            write(&objects, ino).await.expect("the disk works");
        }
        objects
            .sync(&[object(1), object(2)])
            .await
            .expect("the disk works");
        objects.stop().await.expect("the disk works");
        drop(objects);
        platform.tasks.kill();
        disk.restart();
        lay(&disk, changes, |path| {
            path != "lock" && (!only_objects || path.starts_with("objects/"))
        });
        let platform = FakeWorld::new(2);
        let Ok(objects) = open(&disk, &index, &platform).await else {
            assert!(!only_objects, "no object keeps a target from being opened");
            return;
        };
        let _ = objects.list(None, 10).await;
        for ino in [1, 2] {
            if let Ok(bytes) = read(&objects, ino).await
                && only_objects
            {
                assert!(bytes == content(ino), "object {ino} shows other bytes");
            }
        }
        let _ = write(&objects, 3).await;
        let _ = objects.stop().await;
    });
}

async fn write(objects: &Objects, ino: u64) -> Result<(), Refusal> {
    let data = content(ino);
    let sums = BlockSums {
        first_block: 0,
        sums: checksum::blocks(&data).into_iter().map(Some).collect(),
    };
    let write = Write {
        object: object(ino),
        at: ObjectOffset(0),
        data: &data,
        sums: &sums,
        existing: Existing::Perhaps,
        owner: Owner::default(),
    };
    objects.write(write).await.map(drop)
}

/// As a client reads: each sum that comes with the bytes is compared.
async fn read(objects: &Objects, ino: u64) -> Result<Vec<u8>, ()> {
    let got = objects
        .read(
            object(ino),
            ObjectOffset(0),
            LENGTH as u64,
            Existing::Certain,
            Checked::ByAsker,
        )
        .await
        .map_err(drop)?;
    for (block, sum) in got.data.chunks(CHECKSUM_BLOCK as usize).zip(&got.sums.sums) {
        if sum.is_some_and(|sum| sum != checksum::block(block)) {
            return Err(());
        }
    }
    Ok(got.data.to_vec())
}
