//! The contract of a disk: each check runs on the real and on the fake disk.
#![allow(clippy::disallowed_methods)] // real time on a real disk

use bytes::BytesMut;
use gupfs_platform::fake::{FakeDisk, FakeOptions};
use gupfs_platform::{Disk, DiskErrorKind, DiskFile, EntryKind, OnCacheMiss, OpenHow};
use std::io::IoSlice;

/// Runs a check on a real directory and on a fake disk, without and with interleaving.
macro_rules! contract {
    ($($name:ident),* $(,)?) => {
        mod real {
            use super::Disk;
            $(#[tokio::test] async fn $name() {
                let dir = tempfile::tempdir().unwrap();
                super::$name(Disk::real(dir.path()).unwrap()).await;
            })*
        }
        mod fake {
            use super::{FakeDisk, FakeOptions};
            $(#[tokio::test] async fn $name() {
                for seed in 0..4 {
                    let options = FakeOptions { yields: seed > 0, ..FakeOptions::default() };
                    super::$name(FakeDisk::new(options, seed).disk()).await;
                }
            })*
        }
    };
}

contract!(
    what_was_written_is_read,
    a_read_stops_at_the_end,
    a_hole_reads_as_zeros,
    a_vectored_write_writes_its_parts_in_order,
    a_truncated_file_is_extended_with_zeros,
    allocated_space_is_a_hole_until_written,
    allocating_behind_the_end_keeps_the_length,
    zero_fill_allocates_space_and_is_data,
    a_punched_hole_frees_space,
    a_zeroed_range_keeps_its_space,
    open_distinguishes_missing_from_existing_files,
    a_renamed_file_keeps_its_contents,
    two_files_exchange_their_names,
    an_open_file_outlives_its_name,
    directories_list_their_entries_sorted,
    a_directory_that_is_not_empty_stays,
    a_subtree_is_a_disk,
    a_lock_is_held_once,
    a_file_opened_for_reading_is_not_written,
    space_shrinks_with_writing,
    page_cache_id_is_stable_while_nothing_is_lost,
);

async fn page_cache_id_is_stable_while_nothing_is_lost(disk: Disk) {
    let memory = disk.page_cache_id().unwrap();
    assert_ne!(memory, 0);
    disk.create_dir("sub").await.unwrap();
    file(&disk, "sub/f").await;
    disk.syncfs().await.unwrap();
    assert_eq!(disk.page_cache_id().unwrap(), memory);
    assert_eq!(
        disk.subdirectory("sub")
            .await
            .unwrap()
            .page_cache_id()
            .unwrap(),
        memory
    );
}

async fn file(disk: &Disk, name: &str) -> DiskFile {
    disk.open(name, OpenHow::write().create()).await.unwrap()
}

async fn all(file: &DiskFile) -> Vec<u8> {
    let len = file.len().await.unwrap() as usize;
    let (bytes, got) = file
        .read_owned(vec![0xaa; len], 0, OnCacheMiss::HandOff)
        .await
        .unwrap();
    assert_eq!(got, len);
    bytes
}

fn kind<T>(result: Result<T, gupfs_platform::DiskError>) -> DiskErrorKind {
    result.err().expect("an error").kind
}

async fn what_was_written_is_read(disk: Disk) {
    let f = file(&disk, "f").await;
    f.write_at(b"hello world", 3).await.unwrap();
    for how in [OnCacheMiss::Block, OnCacheMiss::HandOff] {
        let mut buf = [0; 5];
        assert_eq!(f.read_at(&mut buf, 9, how).await.unwrap(), 5);
        assert_eq!(&buf, b"world");
        let behind = BytesMut::from(&b"> "[..]);
        let behind = f.read_append(behind, 5, 3, how).await.unwrap();
        assert_eq!(&behind[..], b"> hello");
    }
    f.sync_data().await.unwrap();
    f.sync_all().await.unwrap();
    assert_eq!(all(&f).await, b"\0\0\0hello world");
}

async fn a_read_stops_at_the_end(disk: Disk) {
    let f = file(&disk, "f").await;
    f.write_at(&[7; 1000], 0).await.unwrap();
    let mut buf = [1; 600];
    assert_eq!(
        f.read_at(&mut buf, 900, OnCacheMiss::HandOff)
            .await
            .unwrap(),
        100
    );
    assert_eq!((buf[99], buf[100]), (7, 1));
    assert_eq!(
        f.read_at(&mut buf, 1000, OnCacheMiss::HandOff)
            .await
            .unwrap(),
        0
    );
    assert_eq!(
        f.read_at(&mut buf, 9000, OnCacheMiss::Block).await.unwrap(),
        0
    );
    let got = f
        .read_append(BytesMut::new(), 4096, 990, OnCacheMiss::HandOff)
        .await
        .unwrap();
    assert_eq!(&got[..], &[7; 10]);
}

async fn a_hole_reads_as_zeros(disk: Disk) {
    let f = file(&disk, "f").await;
    f.write_at(b"end", 1 << 20).await.unwrap();
    assert_eq!(f.seek_data(0).await.unwrap(), Some(1 << 20));
    assert_eq!(f.seek_hole(0).await.unwrap(), Some(0));
    assert_eq!(
        f.seek_hole(1 << 20).await.unwrap(),
        Some((1 << 20) + 3),
        "the end is a hole"
    );
    assert_eq!(f.seek_data((1 << 20) + 3).await.unwrap(), None);
    let bytes = all(&f).await;
    assert!(bytes[..1 << 20].iter().all(|b| *b == 0));
    let stat = f.stat().await.unwrap();
    assert!(stat.allocated < 1 << 16, "{stat:?}");
}

async fn a_vectored_write_writes_its_parts_in_order(disk: Disk) {
    let f = file(&disk, "f").await;
    let parts = [&b"one "[..], b"", b"two ", b"three"].map(IoSlice::new);
    f.write_vectored_at(&parts, 2).await.unwrap();
    f.write_vectored_at(&[], 0).await.unwrap();
    assert_eq!(all(&f).await, b"\0\0one two three");
}

async fn a_truncated_file_is_extended_with_zeros(disk: Disk) {
    let f = file(&disk, "f").await;
    f.write_at(&[9; 9000], 0).await.unwrap();
    f.set_len(5000).await.unwrap();
    f.set_len(9000).await.unwrap();
    let bytes = all(&f).await;
    assert!(bytes[..5000].iter().all(|b| *b == 9));
    assert!(bytes[5000..].iter().all(|b| *b == 0));
}

async fn allocated_space_is_a_hole_until_written(disk: Disk) {
    let f = file(&disk, "f").await;
    f.allocate(0, 1 << 16).await.unwrap();
    let stat = f.stat().await.unwrap();
    assert_eq!((stat.len, stat.allocated), (1 << 16, 1 << 16));
    assert_eq!(f.seek_data(0).await.unwrap(), None);
    f.write_at(&[1; 4096], 8192).await.unwrap();
    assert_eq!(f.seek_data(0).await.unwrap(), Some(8192));
    f.allocate(0, 0).await.unwrap();
    assert!(all(&f).await[..8192].iter().all(|b| *b == 0));
}

async fn allocating_behind_the_end_keeps_the_length(disk: Disk) {
    let f = file(&disk, "f").await;
    f.write_at(&[1; 4096], 0).await.unwrap();
    f.allocate_keeping_len(0, 1 << 16).await.unwrap();
    f.sync_data().await.unwrap();
    let stat = f.stat().await.unwrap();
    assert_eq!((stat.len, stat.allocated), (4096, 1 << 16));
}

async fn zero_fill_allocates_space_and_is_data(disk: Disk) {
    let f = file(&disk, "f").await;
    f.zero_fill(4096, 3 << 20).await.unwrap();
    f.sync_data().await.unwrap();
    let stat = f.stat().await.unwrap();
    assert_eq!(stat.len, 4096 + (3 << 20));
    assert!(stat.allocated >= 3 << 20);
    assert_eq!(f.seek_data(0).await.unwrap(), Some(4096));
}

async fn a_punched_hole_frees_space(disk: Disk) {
    let f = file(&disk, "f").await;
    f.write_at(&[5; 65536], 0).await.unwrap();
    f.sync_data().await.unwrap();
    let before = f.stat().await.unwrap();
    f.punch_hole(5000, 40000).await.unwrap();
    let after = f.stat().await.unwrap();
    assert_eq!(after.len, before.len);
    assert!(after.allocated < before.allocated);
    assert_eq!(f.seek_hole(0).await.unwrap(), Some(8192));
    let bytes = all(&f).await;
    assert!((0..65536).all(|at| (bytes[at] == 0) == (5000..45000).contains(&at)));
    f.punch_hole(1 << 20, 4096).await.unwrap();
    assert_eq!(
        f.len().await.unwrap(),
        65536,
        "a hole never extends the file"
    );
}

async fn a_zeroed_range_keeps_its_space(disk: Disk) {
    let f = file(&disk, "f").await;
    f.write_at(&[5; 65536], 0).await.unwrap();
    f.sync_data().await.unwrap();
    let before = f.stat().await.unwrap();
    f.zero_range(5000, 40000).await.unwrap();
    assert_eq!(f.stat().await.unwrap().allocated, before.allocated);
    let bytes = all(&f).await;
    assert!((0..65536).all(|at| (bytes[at] == 0) == (5000..45000).contains(&at)));
}

async fn open_distinguishes_missing_from_existing_files(disk: Disk) {
    assert_eq!(
        kind(disk.open("f", OpenHow::read()).await),
        DiskErrorKind::NotFound
    );
    assert_eq!(
        kind(disk.open("no/f", OpenHow::write().create()).await),
        DiskErrorKind::NotFound
    );
    disk.open("f", OpenHow::write().create_new()).await.unwrap();
    assert_eq!(
        kind(disk.open("f", OpenHow::write().create_new()).await),
        DiskErrorKind::Exists
    );
    assert!(disk.exists("f").await.unwrap());
    assert!(!disk.exists("g").await.unwrap());
    assert!(disk.exists(".").await.unwrap());
    assert_eq!(
        kind(disk.open("f/x", OpenHow::read()).await),
        DiskErrorKind::WrongKind
    );
    assert_eq!(kind(disk.remove_file("g").await), DiskErrorKind::NotFound);
}

async fn a_renamed_file_keeps_its_contents(disk: Disk) {
    let old = file(&disk, "old").await;
    old.write_at(b"old", 0).await.unwrap();
    let new = file(&disk, "new").await;
    new.write_at(b"new", 0).await.unwrap();
    disk.create_dir("d").await.unwrap();
    disk.rename("new", "d/new").await.unwrap();
    disk.rename("d/new", "old").await.unwrap();
    disk.sync_dir(".").await.unwrap();
    disk.sync_dir("d").await.unwrap();
    assert!(!disk.exists("new").await.unwrap());
    assert!(!disk.exists("d/new").await.unwrap());
    assert_eq!(all(&file(&disk, "old").await).await, b"new");
    assert_eq!(all(&old).await, b"old");
}

async fn two_files_exchange_their_names(disk: Disk) {
    disk.create_dir("d").await.unwrap();
    for (path, bytes) in [("a", b"one"), ("d/b", b"two")] {
        let made = file(&disk, path).await;
        made.write_at(bytes, 0).await.unwrap();
    }
    disk.exchange("a", "d/b").await.unwrap();
    assert_eq!(all(&file(&disk, "a").await).await, b"two");
    assert_eq!(all(&file(&disk, "d/b").await).await, b"one");
    assert_eq!(
        kind(disk.exchange("a", "absent").await),
        DiskErrorKind::NotFound
    );
    assert_eq!(all(&file(&disk, "a").await).await, b"two");
}

async fn an_open_file_outlives_its_name(disk: Disk) {
    let f = file(&disk, "f").await;
    f.write_at(b"still here", 0).await.unwrap();
    disk.remove_file("f").await.unwrap();
    disk.sync_dir(".").await.unwrap();
    assert!(!disk.exists("f").await.unwrap());
    f.write_at(b"S", 0).await.unwrap();
    f.sync_data().await.unwrap();
    assert_eq!(all(&f).await, b"Still here");
}

async fn directories_list_their_entries_sorted(disk: Disk) {
    assert!(disk.create_dir("d").await.unwrap());
    assert!(!disk.create_dir("d").await.unwrap());
    for name in ["d/b", "d/a", "c"] {
        file(&disk, name).await;
    }
    disk.create_dir("d/sub").await.unwrap();
    let names = |list: Vec<gupfs_platform::DiskEntry>| -> Vec<(String, EntryKind)> {
        list.into_iter().map(|e| (e.name, e.kind)).collect()
    };
    use EntryKind::{Dir, File};
    assert_eq!(
        names(disk.list(".").await.unwrap()),
        [("c".into(), File), ("d".into(), Dir)]
    );
    assert_eq!(
        names(disk.list("d").await.unwrap()),
        [("a".into(), File), ("b".into(), File), ("sub".into(), Dir)]
    );
    assert_eq!(kind(disk.list("x").await), DiskErrorKind::NotFound);
}

async fn a_directory_that_is_not_empty_stays(disk: Disk) {
    disk.create_dir("d").await.unwrap();
    file(&disk, "d/f").await;
    assert_eq!(kind(disk.remove_dir("d").await), DiskErrorKind::NotEmpty);
    disk.remove_file("d/f").await.unwrap();
    disk.remove_dir("d").await.unwrap();
    assert!(!disk.exists("d").await.unwrap());
}

async fn a_subtree_is_a_disk(disk: Disk) {
    assert!(disk.subdirectory("d").await.is_err());
    disk.create_dir("d").await.unwrap();
    disk.create_dir("d/e").await.unwrap();
    let sub = disk
        .subdirectory("d")
        .await
        .unwrap()
        .subdirectory("e")
        .await
        .unwrap();
    file(&sub, "f").await.write_at(b"x", 0).await.unwrap();
    sub.sync_dir(".").await.unwrap();
    assert!(disk.exists("d/e/f").await.unwrap());
}

async fn a_lock_is_held_once(disk: Disk) {
    let held = disk.lock_exclusive("lock").await.unwrap();
    let DiskErrorKind::Locked(Some(_)) = kind(disk.lock_exclusive("lock").await) else {
        panic!("the error must contain the pid of the holder");
    };
    drop(held);
    disk.lock_exclusive("lock").await.unwrap();
}

async fn a_file_opened_for_reading_is_not_written(disk: Disk) {
    file(&disk, "f").await;
    let f = disk.open("f", OpenHow::read()).await.unwrap();
    assert_eq!(kind(f.write_at(b"x", 0).await), DiskErrorKind::Other);
}

async fn space_shrinks_with_writing(disk: Disk) {
    let before = disk.space().await.unwrap();
    assert!(before.free <= before.total && before.inodes_free <= before.inodes_total);
    let f = file(&disk, "f").await;
    f.write_at(&vec![1; 1 << 20], 0).await.unwrap();
    f.sync_data().await.unwrap();
    // On a real disk other programs write and remove as well, so only the fake one is exact.
    if disk.path().is_none() {
        assert_eq!(disk.space().await.unwrap().free, before.free - (1 << 20));
    }
}
