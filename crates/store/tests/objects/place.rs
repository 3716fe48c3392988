//! Whose directory it is, and whether it is the one that was left.

use crate::scene::*;
use gupfs_proto::{ClusterId, Incarnation, Refusal};
use gupfs_store::object::{Objects, OpenErrorKind, OpenFiles, Whose};
use gupfs_world::{Disk, World};

async fn refused(disk: &Disk, whose: Whose) -> OpenErrorKind {
    match Objects::open(disk.clone(), World::real(), whose, OpenFiles::LEAST).await {
        Ok(_) => panic!("opened"),
        Err(error) => error.kind,
    }
}

#[tokio::test]
async fn a_directory_is_opened_by_whom_it_belongs_to_and_once() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::real(dir.path()).unwrap();
    assert_eq!(refused(&disk, WHOSE).await, OpenErrorKind::Absent);
    let objects = fresh(&disk, &World::real()).await;
    assert_eq!(refused(&disk, WHOSE).await, OpenErrorKind::InUse);
    drop(objects);
    let again = Objects::init(&disk, &World::real(), WHOSE)
        .await
        .unwrap_err();
    assert_eq!(again.kind, OpenErrorKind::Exists);
    let stranger = Whose {
        cluster: ClusterId(78),
        ..WHOSE
    };
    assert_eq!(refused(&disk, stranger).await, OpenErrorKind::Foreign);
    open(&disk, &World::real()).await;
}

#[tokio::test]
async fn the_stamp_rises_with_each_start_and_clean_stop() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::real(dir.path()).unwrap();
    let objects = fresh(&disk, &World::real()).await;
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
    assert_eq!(open(&disk, &World::real()).await.stamp(), first + 3);
}

#[tokio::test]
async fn an_older_copy_and_a_new_beginning_are_not_admitted() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::real(dir.path()).unwrap();
    let objects = fresh(&disk, &World::real()).await;
    let (incarnation, stamp) = (objects.incarnation(), objects.stamp());
    objects.admit(incarnation, stamp).unwrap();
    drop(objects);
    let copy = std::fs::read(dir.path().join("superblock")).unwrap();

    let objects = open(&disk, &World::real()).await;
    objects.stop().await.unwrap();
    let told = objects.stamp();
    drop(objects);
    std::fs::write(dir.path().join("superblock"), copy).unwrap();
    let objects = open(&disk, &World::real()).await;
    let older = objects.admit(incarnation, told).unwrap_err();
    assert!(older.to_string().contains("older copy"), "{older}");
    assert!(
        write(&objects, object(1), 0, b"x").await.is_err(),
        "serves nothing"
    );
    drop(objects);

    let objects = open(&disk, &World::real()).await;
    let other = objects.admit(Incarnation(1), 0).unwrap_err();
    assert!(other.to_string().contains("anew"), "{other}");
}

#[tokio::test]
async fn objects_are_counted_after_a_stop_and_after_a_crash() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::real(dir.path()).unwrap();
    let objects = fresh(&disk, &World::real()).await;
    for ino in 0..10 {
        write(&objects, object(ino * 5000), 0, b"x").await.unwrap();
    }
    drop(objects); // as if killed
    let objects = open(&disk, &World::real()).await;
    assert_eq!(objects.space().await.unwrap().objects, 10);
    objects.remove(object(5000)).await.unwrap();
    objects.stop().await.unwrap();
    drop(objects);
    let objects = open(&disk, &World::real()).await;
    assert_eq!(objects.space().await.unwrap().objects, 9);
}
