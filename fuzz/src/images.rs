//! Opens a target with changed bytes: it opens or is refused. If only bytes of objects were changed, a read returns the written
//! bytes or an error.

use crate::patches::lay;
use gupfs_platform::fake::{FakeDisk, FakeOptions, FakePlatform};
use gupfs_proto::cluster::OwnerMark;
use gupfs_proto::data::{BlockChecksums, ChecksumCheck, ObjectExistence, ObjectOwner};
use gupfs_proto::limits::CHECKSUM_BLOCK;
use gupfs_proto::{
    ClusterId, FsError, Generation, InodeId, ObjectId, ObjectOffset, OstId, checksum,
};
use gupfs_store::index::{FakeIndex, Index};
use gupfs_store::object::{
    Objects, OpenError, OpenFileLimits, TargetId, TargetOptions, WriteRequest,
};

const TARGET_ID: TargetId = TargetId {
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

async fn open(
    disk: &FakeDisk,
    index: &FakeIndex,
    platform: &FakePlatform,
) -> Result<Objects, OpenError> {
    let options = TargetOptions {
        index: Index::fake(index.clone()),
        open_files: OpenFileLimits::MAX.objects,
        log_segment: 512 << 10,
    };
    let objects = Objects::open_with(disk.disk(), platform.platform(), TARGET_ID, options).await?;
    // A target whose superblock cannot be written serves nothing: the next operations fail.
    let _ = objects.adopt(OwnerMark::default()).await;
    Ok(objects)
}

/// The first byte of `input` says whether only objects are changed; the rest are the changes.
pub fn image(input: &[u8]) {
    let Some((how, changes)) = input.split_first() else {
        return;
    };
    let only_objects = how & 1 == 1;
    crate::simulate(async {
        let (platform, index) = (FakePlatform::new(1), FakeIndex::new());
        let disk = FakeDisk::new(FakeOptions::default(), 1);
        Objects::init(&disk.disk(), &platform.platform(), TARGET_ID)
            .await
            .expect("a target is initialized on an empty disk");
        let objects = open(&disk, &index, &platform)
            .await
            .expect("a new target opens");
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
        let platform = FakePlatform::new(2);
        let Ok(objects) = open(&disk, &index, &platform).await else {
            assert!(
                !only_objects,
                "a target opens whatever bytes its objects have"
            );
            return;
        };
        let _ = objects.list(None, 10).await;
        for ino in [1, 2] {
            if let Ok(bytes) = read(&objects, ino).await
                && only_objects
            {
                assert!(bytes == content(ino), "object {ino} has other bytes");
            }
        }
        let _ = write(&objects, 3).await;
        let _ = objects.stop().await;
    });
}

async fn write(objects: &Objects, ino: u64) -> Result<(), FsError> {
    let data = content(ino);
    let sums = BlockChecksums {
        first_block: 0,
        checksums: checksum::blocks(&data).into_iter().map(Some).collect(),
    };
    let write = WriteRequest {
        object: object(ino),
        at: ObjectOffset(0),
        data: &data,
        sums: &sums,
        existing: ObjectExistence::MayExist,
        owner: ObjectOwner::default(),
    };
    objects.write(write).await.map(drop)
}

/// Reads as a client does: verifies each returned checksum.
async fn read(objects: &Objects, ino: u64) -> Result<Vec<u8>, ()> {
    let got = objects
        .read(
            object(ino),
            ObjectOffset(0),
            LENGTH as u64,
            ObjectExistence::MustExist,
            ChecksumCheck::ByRequester,
        )
        .await
        .map_err(drop)?;
    for (block, sum) in got.data.chunks(CHECKSUM_BLOCK as usize).zip(&got.sums.checksums) {
        if sum.is_some_and(|sum| sum != checksum::block(block)) {
            return Err(());
        }
    }
    Ok(got.data.to_vec())
}
