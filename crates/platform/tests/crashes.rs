//! Data that the fake disk loses in a crash, and data that it must keep.

use gupfs_platform::fake::{CallKind, FakeDisk, FakeOptions};
use gupfs_platform::{DiskErrorKind, DiskFile, OnCacheMiss, OpenHow};
use std::collections::BTreeSet;

async fn make(disk: &FakeDisk, name: &str) -> DiskFile {
    let how = OpenHow::write().create();
    disk.disk().open(name, how).await.unwrap()
}

async fn read(disk: &FakeDisk, name: &str) -> Option<Vec<u8>> {
    let file = disk.disk().open(name, OpenHow::read()).await.ok()?;
    let len = file.len().await.unwrap() as usize;
    let (bytes, _) = file
        .read_owned(vec![0; len], 0, OnCacheMiss::Block)
        .await
        .unwrap();
    Some(bytes)
}

async fn synced(disk: &FakeDisk, name: &str, bytes: &[u8]) -> DiskFile {
    let file = make(disk, name).await;
    file.write_at(bytes, 0).await.unwrap();
    file.sync_data().await.unwrap();
    disk.disk().sync_dir(".").await.unwrap();
    file
}

#[tokio::test]
async fn a_crash_changes_the_page_cache_id_and_a_kill_does_not() {
    let disk = FakeDisk::new(FakeOptions::default(), 1);
    let memory = disk.disk().page_cache_id().unwrap();
    disk.restart();
    assert_eq!(disk.disk().page_cache_id().unwrap(), memory);
    disk.crash();
    assert_ne!(disk.disk().page_cache_id().unwrap(), memory);
}

#[tokio::test]
async fn synced_data_survives_every_crash() {
    for seed in 0..100 {
        let disk = FakeDisk::new(FakeOptions::default(), seed);
        synced(&disk, "f", &[1; 3000]).await;
        disk.crash();
        assert_eq!(read(&disk, "f").await.unwrap(), [1; 3000]);
    }
}

#[tokio::test]
async fn syncfs_covers_data_and_names_in_all_directories() {
    for seed in 0..100 {
        let disk = FakeDisk::new(FakeOptions::default(), seed);
        disk.disk().create_dir("d").await.unwrap();
        for name in ["f", "d/g"] {
            let file = make(&disk, name).await;
            file.write_at(&[1; 3000], 0).await.unwrap();
        }
        disk.disk().syncfs().await.unwrap();
        disk.crash();
        assert_eq!(read(&disk, "f").await.unwrap(), [1; 3000]);
        assert_eq!(read(&disk, "d/g").await.unwrap(), [1; 3000]);
    }
}

#[tokio::test]
async fn unsynced_sectors_survive_in_any_subset_and_any_version() {
    let mut seen = BTreeSet::new();
    for seed in 0..400 {
        let disk = FakeDisk::new(FakeOptions::default(), seed);
        let file = synced(&disk, "f", &[1; 1024]).await;
        file.write_at(&[2; 1024], 0).await.unwrap();
        file.write_at(&[3; 1024], 0).await.unwrap();
        disk.crash();
        let bytes = read(&disk, "f").await.unwrap();
        for sector in bytes.chunks(512) {
            assert!(sector.iter().all(|b| *b == sector[0]), "a sector is whole");
        }
        seen.insert((bytes[0], bytes[512]));
    }
    assert_eq!(seen.len(), 9, "{seen:?}");
}

#[tokio::test]
async fn an_unsynced_length_may_survive_or_not() {
    let mut seen = BTreeSet::new();
    for seed in 0..200 {
        let disk = FakeDisk::new(FakeOptions::default(), seed);
        let file = synced(&disk, "f", &[1; 600]).await;
        file.write_at(&[2; 600], 600).await.unwrap();
        file.set_len(100).await.unwrap();
        disk.crash();
        seen.insert(read(&disk, "f").await.unwrap().len());
    }
    assert_eq!(seen, BTreeSet::from([100, 600, 1200]));
}

#[tokio::test]
async fn names_survive_for_certain_only_after_a_sync_of_their_directory() {
    let mut seen = BTreeSet::new();
    for seed in 0..400 {
        let disk = FakeDisk::new(FakeOptions::default(), seed);
        synced(&disk, "a", b"a").await;
        synced(&disk, "b", b"b").await;
        let handle = disk.disk();
        make(&disk, "c").await;
        handle.remove_file("a").await.unwrap();
        handle.rename("b", "d").await.unwrap();
        disk.crash();
        let names = disk.disk().list(".").await.unwrap();
        let names: Vec<String> = names.into_iter().map(|e| e.name).collect();
        assert!(
            names.contains(&"b".into()) != names.contains(&"d".into()),
            "a rename is whole: {names:?}"
        );
        seen.insert(names.join(" "));
    }
    assert_eq!(seen.len(), 8, "{seen:?}");
}

#[tokio::test]
async fn an_exchange_of_names_survives_whole_or_not_at_all() {
    let mut seen = BTreeSet::new();
    for seed in 0..100 {
        let disk = FakeDisk::new(FakeOptions::default(), seed);
        synced(&disk, "a", b"1").await;
        synced(&disk, "b", b"2").await;
        disk.disk().exchange("a", "b").await.unwrap();
        disk.crash();
        seen.insert([read(&disk, "a").await, read(&disk, "b").await].map(Option::unwrap));
    }
    let (one, two) = (b"1".to_vec(), b"2".to_vec());
    let whole = BTreeSet::from([[one.clone(), two.clone()], [two, one]]);
    assert_eq!(seen, whole);
}

#[tokio::test]
async fn a_later_change_of_a_name_never_survives_without_the_earlier() {
    for seed in 0..200 {
        let disk = FakeDisk::new(FakeOptions::default(), seed);
        synced(&disk, "current", b"1").await;
        disk.disk().rename("current", "former").await.unwrap();
        let next = make(&disk, "next").await;
        next.write_at(b"2", 0).await.unwrap();
        next.sync_data().await.unwrap();
        disk.disk().rename("next", "current").await.unwrap();
        disk.crash();
        let first = [read(&disk, "current").await, read(&disk, "former").await];
        assert!(
            first.contains(&Some(b"1".to_vec())),
            "a synced file that was not removed exists: {first:?}"
        );
    }
}

#[tokio::test]
async fn the_entries_of_a_lost_directory_are_lost() {
    for seed in 0..50 {
        let disk = FakeDisk::new(FakeOptions::default(), seed);
        disk.disk().create_dir("d").await.unwrap();
        make(&disk, "d/f").await;
        disk.disk().sync_dir("d").await.unwrap();
        disk.crash();
        let there = disk.disk().exists("d").await.unwrap();
        assert_eq!(disk.disk().exists("d/f").await.unwrap(), there);
    }
}

#[tokio::test]
async fn a_sync_after_a_failed_one_does_not_save_the_data() {
    let mut lost = 0;
    for seed in 0..50 {
        let disk = FakeDisk::new(FakeOptions::default(), seed);
        let file = synced(&disk, "f", &[1; 512]).await;
        file.write_at(&[2; 512], 0).await.unwrap();
        disk.fail_sync(1);
        assert_eq!(
            file.sync_data().await.unwrap_err().kind,
            DiskErrorKind::Broken
        );
        file.sync_data().await.unwrap();
        assert_eq!(read(&disk, "f").await.unwrap(), [2; 512], "still readable");
        disk.crash();
        lost += usize::from(read(&disk, "f").await.unwrap() == [1; 512]);
    }
    assert!((10..50).contains(&lost), "{lost}");
}

#[tokio::test]
async fn handles_of_a_dead_process_do_nothing() {
    let disk = FakeDisk::new(FakeOptions::default(), 1);
    let handle = disk.disk();
    let file = synced(&disk, "f", b"x").await;
    let lock = handle.lock_exclusive("lock").await.unwrap();
    disk.crash();
    assert_eq!(
        file.write_at(b"y", 0).await.unwrap_err().kind,
        DiskErrorKind::Dead
    );
    assert_eq!(
        handle.list(".").await.unwrap_err().kind,
        DiskErrorKind::Dead
    );
    let again = disk.disk().lock_exclusive("lock").await.unwrap();
    drop(lock);
    assert!(
        disk.disk().lock_exclusive("lock").await.is_err(),
        "the guard of a dead holder does not release the lock of a living one"
    );
    drop(again);
    assert_eq!(read(&disk, "f").await.unwrap(), b"x");
}

#[tokio::test]
async fn a_killed_process_loses_nothing_it_wrote() {
    let disk = FakeDisk::new(FakeOptions::default(), 1);
    let file = make(&disk, "f").await;
    file.write_at(b"written", 0).await.unwrap();
    disk.kill();
    assert!(file.sync_data().await.is_err());
    disk.restart();
    assert_eq!(read(&disk, "f").await.unwrap(), b"written");
}

#[tokio::test]
async fn the_process_dies_at_the_chosen_call() {
    let mut after = 0;
    for seed in 0..40 {
        let disk = FakeDisk::new(FakeOptions::default(), seed);
        let file = synced(&disk, "f", b"").await;
        disk.die_at(CallKind::Write, 2);
        file.write_at(b"1", 0).await.unwrap();
        file.sync_data().await.unwrap();
        assert!(file.write_at(b"2", 1).await.is_err());
        assert!(disk.is_dead());
        disk.restart();
        after += usize::from(read(&disk, "f").await.unwrap() == b"12");
    }
    assert!((5..35).contains(&after), "before and after: {after}");
}

#[tokio::test]
async fn a_full_disk_fails_writes_until_space_is_freed() {
    let options = FakeOptions {
        capacity: 64 << 10,
        ..FakeOptions::default()
    };
    let disk = FakeDisk::new(options, 1);
    let file = make(&disk, "f").await;
    file.allocate(0, 32 << 10).await.unwrap();
    let other = make(&disk, "g").await;
    let error = other.write_at(&[1; 40 << 10], 0).await.unwrap_err();
    assert_eq!(error.kind, DiskErrorKind::Full);
    file.write_at(&[1; 32 << 10], 0).await.unwrap();
    disk.disk().remove_file("g").await.unwrap();
    drop(other);
    disk.disk().sync_dir(".").await.unwrap();
    make(&disk, "h").await.allocate(0, 32 << 10).await.unwrap();
}

#[tokio::test]
async fn a_flipped_bit_survives_a_crash() {
    let disk = FakeDisk::new(FakeOptions::default(), 1);
    synced(&disk, "f", &[0; 600]).await;
    disk.flip_bit("f", 513, 2);
    assert_eq!(disk.bytes("f")[513], 4);
    disk.crash();
    assert_eq!(disk.bytes("f")[513], 4);
}
