//! Identity of a target: which directory belongs to it, and whether it is the one that was used last.

use crate::fixture::*;
use gupfs_platform::{Disk, Platform};
use gupfs_proto::cluster::OwnerMark;
use gupfs_proto::{
    ClusterId, FsError, Generation, InodeId, ObjectId, OwnerEpoch, Seq, ShardGroup, VirtualShard,
};
use gupfs_store::object::{Objects, OpenErrorKind, OpenFileLimits, TargetId};

async fn refused(disk: &Disk, id: TargetId) -> OpenErrorKind {
    match Objects::open(disk.clone(), Platform::real(), id, OpenFileLimits::MIN).await {
        Ok(_) => panic!("opened"),
        Err(error) => error.kind,
    }
}

#[tokio::test]
async fn only_its_own_target_opens_a_directory_and_only_once() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::real(dir.path()).unwrap();
    assert_eq!(refused(&disk, TARGET_ID).await, OpenErrorKind::Absent);
    let objects = fresh(&disk, &Platform::real()).await;
    assert_eq!(refused(&disk, TARGET_ID).await, OpenErrorKind::InUse);
    drop(objects);
    let again = Objects::init(&disk, &Platform::real(), TARGET_ID)
        .await
        .unwrap_err();
    assert_eq!(again.kind, OpenErrorKind::Exists);
    let other = TargetId {
        cluster: ClusterId(78),
        ..TARGET_ID
    };
    assert_eq!(refused(&disk, other).await, OpenErrorKind::Foreign);
    open(&disk, &Platform::real()).await;
}

#[tokio::test]
async fn the_stamp_rises_with_each_start_and_clean_stop() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::real(dir.path()).unwrap();
    let objects = fresh(&disk, &Platform::real()).await;
    let first = objects.stamp();
    objects.raise_stamp().await.unwrap();
    assert_eq!(objects.stamp(), first, "nothing was changed");
    write(&objects, object(1), 0, b"x").await.unwrap();
    objects.raise_stamp().await.unwrap();
    assert_eq!(objects.stamp(), first + 1);
    objects.stop().await.unwrap();
    assert_eq!(objects.stamp(), first + 2);
    let stopped = write(&objects, object(1), 0, b"x").await;
    assert!(
        matches!(stopped, Err(FsError::TargetDown { .. })),
        "{stopped:?}"
    );
    drop(objects);
    assert_eq!(open(&disk, &Platform::real()).await.stamp(), first + 3);
}

#[tokio::test(start_paused = true)]
async fn a_full_disk_still_records_stamps_and_failed_syncs() {
    let fixture = Fixture::new(1, true);
    let objects = fixture.fresh().await;
    write(&objects, object(1), 0, &[1; 5000]).await.unwrap();
    fixture.disk.set_capacity(0);
    let first = objects.stamp();
    for times in 1..4 {
        write(&objects, object(1), 0, &[2; 5000]).await.unwrap();
        objects.raise_stamp().await.unwrap();
        assert_eq!(objects.stamp(), first + times);
    }
    fixture.disk.fail_write_back();
    let verifier = objects.write_verifier();
    let failed = objects.sync(&[object(1)]).await;
    assert!(
        matches!(failed, Err(FsError::TargetDown { .. })),
        "{failed:?}"
    );
    objects.wait_retirement_recorded().await;
    drop(objects);
    fixture.kill();
    assert!(fixture.open().await.write_verifier() > verifier);
}

fn superblock(dir: &tempfile::TempDir) -> Vec<u8> {
    std::fs::read(dir.path().join("superblock")).unwrap()
}

fn owner(epoch: u64, run: u64) -> OwnerMark {
    OwnerMark {
        epoch: OwnerEpoch(epoch),
        run,
        durable: Seq(epoch * 100),
    }
}

#[tokio::test]
async fn an_unadopted_instance_changes_no_superblock_and_serves_no_writes() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::real(dir.path()).unwrap();
    let objects = fresh(&disk, &Platform::real()).await;
    write(&objects, object(1), 0, b"x").await.unwrap();
    drop(objects); // as if killed
    let before = superblock(&dir);
    for _ in 0..5 {
        let objects = open_unadopted(&disk, &Platform::real()).await;
        let identity = objects.identity();
        assert!(!identity.is_adopted() && !identity.stopped);
        assert_eq!(read(&objects, object(1), 0, 1).await.unwrap(), b"x");
        let refused = write(&objects, object(1), 0, b"y").await;
        assert!(
            matches!(refused, Err(FsError::TargetDown { .. })),
            "{refused:?}"
        );
        objects.stop().await.unwrap();
        drop(objects);
        assert!(superblock(&dir) == before);
    }
}

#[tokio::test]
async fn adoption_records_the_instance_and_its_owner() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::real(dir.path()).unwrap();
    let objects = fresh(&disk, &Platform::real()).await;
    let first = objects.identity();
    assert!(first.is_adopted());
    drop(objects);
    let objects = open_unadopted(&disk, &Platform::real()).await;
    let found = objects.identity();
    assert_eq!((found.stamp, found.run), (first.stamp, first.run));
    objects.adopt(owner(4, 40)).await.unwrap();
    let adopted = objects.identity();
    assert_eq!(
        (adopted.stamp, adopted.run, adopted.owner),
        (found.stamp + 1, found.open_instance, owner(4, 40))
    );
    // A restored owner, an older one, and one of another shard group: the target accepts none, and changes nothing.
    let of_other_group = owner(OwnerEpoch::new(ShardGroup(1), 5).0, 50);
    for old in [owner(4, 41), owner(3, 30), of_other_group] {
        let refused = objects.adopt(old).await.unwrap_err();
        assert!(refused.to_string().contains("owner epoch 4"), "{refused}");
    }
    objects.adopt(owner(5, 50)).await.unwrap();
    drop(objects);
    let found = open_unadopted(&disk, &Platform::real()).await.identity();
    assert_eq!(found.owner, owner(5, 50));
    assert_eq!((found.stamp, found.run), (adopted.stamp + 1, adopted.run));
}

#[tokio::test]
async fn a_tool_leaves_a_targets_identity_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::real(dir.path()).unwrap();
    let objects = fresh(&disk, &Platform::real()).await;
    objects.stop().await.unwrap();
    drop(objects);
    let before = superblock(&dir);
    let objects = open_unadopted(&disk, &Platform::real()).await;
    objects.serve_unadopted().await.unwrap();
    objects.flush_checksums().await.unwrap();
    objects.stop().await.unwrap();
    drop(objects);
    assert!(superblock(&dir) == before);
}

#[tokio::test]
async fn a_quarantined_object_is_gone_and_its_bytes_are_kept_for_a_month() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::real(dir.path()).unwrap();
    let objects = fresh(&disk, &Platform::real()).await;
    for ino in [1, 2, 5000] {
        write(&objects, object(ino), 0, b"bytes").await.unwrap();
        sync(&objects, object(ino)).await;
    }
    objects.quarantine(object(1)).await.unwrap();
    objects.quarantine(object(5000)).await.unwrap();
    objects.quarantine(object(5000)).await.unwrap();
    let listed = objects.list(None, 10).await.unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(objects.space().await.unwrap().objects, 1);
    let kept = objects.count_lost_found().await.unwrap();
    assert_eq!((kept.objects, kept.bytes), (2, 10));
    assert_eq!(objects.status().await.lost_found, kept);
    objects.stop().await.unwrap();
    drop(objects);

    // Two days, one of them expired, and an entry that is no day.
    let lost_found = dir.path().join("lost+found");
    let today = std::fs::read_dir(&lost_found).unwrap().next().unwrap();
    let today = today.unwrap().path();
    let names = [path_of(object(1)), path_of(object(5000))];
    for name in &names {
        let name = name.strip_prefix("objects/").unwrap();
        assert_eq!(std::fs::read(today.join(name)).unwrap(), b"bytes");
    }
    std::fs::rename(&today, lost_found.join("2001-02-03")).unwrap();
    std::fs::create_dir(lost_found.join("#42")).unwrap();
    let objects = open(&disk, &Platform::real()).await;
    objects.quarantine(object(2)).await.unwrap();
    while lost_found.join("2001-02-03").exists() {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(objects.count_lost_found().await.unwrap().objects, 1);
    assert!(lost_found.join("#42").exists());
}

#[tokio::test]
async fn the_inventory_counts_the_objects_of_newer_owners() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::real(dir.path()).unwrap();
    let objects = fresh(&disk, &Platform::real()).await;
    let of = |ino: InodeId, owner: u32| ObjectId {
        ino,
        generation: Generation(owner << Generation::WINDOW_SHIFT),
        stripe: 0,
    };
    let (zero, three) = (VirtualShard(0), VirtualShard(3));
    for id in [
        of(InodeId::new(zero, 300), 2),
        of(InodeId::new(zero, 9_000), 3),
        of(InodeId::new(three, 5_000), 4),
    ] {
        write(&objects, id, 0, b"x").await.unwrap();
    }
    let inventory = objects.inventory(OwnerEpoch(2)).await.unwrap();
    assert_eq!(inventory.newer_objects, 2);
    assert!(inventory.newest.unwrap() <= Platform::real().clock.now());
    assert_eq!(inventory.inode_counters, [(zero, 12_288), (three, 8_192)]);
    let none = objects.inventory(OwnerEpoch(4)).await.unwrap();
    assert_eq!((none.newer_objects, none.newest), (0, None));
}

#[tokio::test]
async fn objects_are_counted_after_a_stop_and_after_a_crash() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::real(dir.path()).unwrap();
    let objects = fresh(&disk, &Platform::real()).await;
    for ino in 0..10 {
        write(&objects, object(ino * 5000), 0, b"x").await.unwrap();
    }
    drop(objects); // as if killed
    let objects = open(&disk, &Platform::real()).await;
    assert_eq!(objects.space().await.unwrap().objects, 10);
    objects.remove(object(5000)).await.unwrap();
    objects.stop().await.unwrap();
    drop(objects);
    let objects = open(&disk, &Platform::real()).await;
    assert_eq!(objects.space().await.unwrap().objects, 9);
}
