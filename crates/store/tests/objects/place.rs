//! Whose directory it is, and whether it is the one that was left.

use crate::scene::*;
use gupfs_platform::{Disk, Platform};
use gupfs_proto::cluster::OwnerMark;
use gupfs_proto::{
    ClusterId, Generation, InodeId, ObjectId, OwnerEpoch, Refusal, Seq, VirtualShard,
};
use gupfs_store::object::{Objects, OpenErrorKind, OpenFiles, Whose};

async fn refused(disk: &Disk, whose: Whose) -> OpenErrorKind {
    match Objects::open(disk.clone(), Platform::real(), whose, OpenFiles::LEAST).await {
        Ok(_) => panic!("opened"),
        Err(error) => error.kind,
    }
}

#[tokio::test]
async fn a_directory_is_opened_by_whom_it_belongs_to_and_once() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::real(dir.path()).unwrap();
    assert_eq!(refused(&disk, WHOSE).await, OpenErrorKind::Absent);
    let objects = fresh(&disk, &Platform::real()).await;
    assert_eq!(refused(&disk, WHOSE).await, OpenErrorKind::InUse);
    drop(objects);
    let again = Objects::init(&disk, &Platform::real(), WHOSE)
        .await
        .unwrap_err();
    assert_eq!(again.kind, OpenErrorKind::Exists);
    let stranger = Whose {
        cluster: ClusterId(78),
        ..WHOSE
    };
    assert_eq!(refused(&disk, stranger).await, OpenErrorKind::Foreign);
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
        matches!(stopped, Err(Refusal::TargetDown { .. })),
        "{stopped:?}"
    );
    drop(objects);
    assert_eq!(open(&disk, &Platform::real()).await.stamp(), first + 3);
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
async fn an_opening_that_is_not_adopted_changes_no_superblock_and_serves_nothing() {
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
            matches!(refused, Err(Refusal::TargetDown { .. })),
            "{refused:?}"
        );
        objects.stop().await.unwrap();
        drop(objects);
        assert!(superblock(&dir) == before);
    }
}

#[tokio::test]
async fn an_adopted_opening_is_written_down_with_its_owner() {
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
        (found.stamp + 1, found.opening, owner(4, 40))
    );
    // A restored owner, and one from before: neither is believed, and nothing is changed.
    for old in [owner(4, 41), owner(3, 30)] {
        let refused = objects.adopt(old).await.unwrap_err();
        assert!(refused.to_string().contains("owner 4"), "{refused}");
    }
    objects.adopt(owner(5, 50)).await.unwrap();
    drop(objects);
    let found = open_unadopted(&disk, &Platform::real()).await.identity();
    assert_eq!(found.owner, owner(5, 50));
    assert_eq!((found.stamp, found.run), (adopted.stamp + 1, adopted.run));
}

#[tokio::test]
async fn a_tool_leaves_no_trace_in_a_targets_identity() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::real(dir.path()).unwrap();
    let objects = fresh(&disk, &Platform::real()).await;
    objects.stop().await.unwrap();
    drop(objects);
    let before = superblock(&dir);
    let objects = open_unadopted(&disk, &Platform::real()).await;
    objects.go_on().await.unwrap();
    objects.settle().await.unwrap();
    objects.stop().await.unwrap();
    drop(objects);
    assert!(superblock(&dir) == before);
}

#[tokio::test]
async fn what_was_set_aside_is_gone_and_kept_for_a_month() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::real(dir.path()).unwrap();
    let objects = fresh(&disk, &Platform::real()).await;
    for ino in [1, 2, 5000] {
        write(&objects, object(ino), 0, b"bytes").await.unwrap();
        sync(&objects, object(ino)).await;
    }
    objects.set_aside(object(1)).await.unwrap();
    objects.set_aside(object(5000)).await.unwrap();
    objects.set_aside(object(5000)).await.unwrap();
    let listed = objects.list(None, 10).await.unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(objects.space().await.unwrap().objects, 1);
    let kept = objects.count_lost_found().await.unwrap();
    assert_eq!((kept.objects, kept.bytes), (2, 10));
    assert_eq!(objects.status().await.lost_found, kept);
    objects.stop().await.unwrap();
    drop(objects);

    // Of two days: one whose month is over, one that is younger; and what is not ours.
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
    objects.set_aside(object(2)).await.unwrap();
    while lost_found.join("2001-02-03").exists() {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(objects.count_lost_found().await.unwrap().objects, 1);
    assert!(lost_found.join("#42").exists());
}

#[tokio::test]
async fn what_newer_owners_made_is_counted() {
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
    let held = objects.holdings(OwnerEpoch(2)).await.unwrap();
    assert_eq!(held.newer, 2);
    assert!(held.newest.unwrap() <= Platform::real().clock.now());
    assert_eq!(held.numbers, [(zero, 12_288), (three, 8_192)]);
    let none = objects.holdings(OwnerEpoch(4)).await.unwrap();
    assert_eq!((none.newer, none.newest), (0, None));
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
