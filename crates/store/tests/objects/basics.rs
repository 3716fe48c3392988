//! Each operation once, on a real directory.

use crate::scene::*;
use gupfs_proto::data::{Existing, Seek};
use gupfs_proto::refusal::ObjectDamage;
use gupfs_proto::{ObjectOffset, Refusal};
use gupfs_store::object::{Allocate, Objects};

#[tokio::test]
async fn what_was_written_is_read_and_holes_are_zeros() {
    let (_dir, objects) = real().await;
    let id = object(5);
    let stat = write(&objects, id, 10_000, b"hello").await.unwrap();
    assert_eq!(stat.size, 10_005);
    let mut expected = vec![0; 10_000];
    expected.extend_from_slice(b"hello");
    assert_eq!(read(&objects, id, 0, 20_000).await.unwrap(), expected);
    assert_eq!(read(&objects, id, 10_002, 2).await.unwrap(), b"ll");
    assert_eq!(read(&objects, id, 10_005, 2).await.unwrap(), b"");
}

#[tokio::test]
async fn an_object_that_may_not_exist_is_empty_and_one_that_should_is_missing() {
    let (_dir, objects) = real().await;
    let id = object(5);
    assert_eq!(read(&objects, id, 0, 100).await.unwrap(), b"");
    assert_eq!(objects.stat(id).await.unwrap(), None);
    let lost = read_as(&objects, id, 0, 100, Existing::Certain).await;
    let damage = Refusal::ObjectDamaged {
        ost: WHOSE.ost,
        object: id,
        what: ObjectDamage::Missing,
    };
    assert_eq!(lost, Err(damage));
    let status = objects.status().await;
    assert_eq!(status.damaged, [(id.to_string(), "is missing".to_owned())]);
}

#[tokio::test]
async fn a_cut_object_ends_there_and_its_tail_stays_away() {
    let (_dir, objects) = real().await;
    let id = object(5);
    write(&objects, id, 0, &[7; 9000]).await.unwrap();
    assert_eq!(objects.cut(id, 5000).await.unwrap().size, 5000);
    assert_eq!(objects.cut(id, 8000).await.unwrap().size, 5000);
    write(&objects, id, 9000, b"x").await.unwrap();
    let bytes = read(&objects, id, 0, 10_000).await.unwrap();
    assert_eq!(bytes.len(), 9001);
    assert!(bytes[..5000].iter().all(|byte| *byte == 7));
    assert!(bytes[5000..9000].iter().all(|byte| *byte == 0));
    assert_eq!(objects.cut(object(6), 0).await.unwrap().size, 0);
    assert_eq!(objects.stat(object(6)).await.unwrap(), None, "stays absent");
}

#[tokio::test]
async fn a_removed_object_is_gone_and_may_be_removed_again() {
    let (_dir, objects) = real().await;
    let id = object(5);
    write(&objects, id, 0, b"x").await.unwrap();
    assert_eq!(objects.space().await.unwrap().objects, 1);
    objects.remove(id).await.unwrap();
    objects.remove(id).await.unwrap();
    sync(&objects, id).await;
    assert_eq!(objects.space().await.unwrap().objects, 0);
    assert_eq!(objects.stat(id).await.unwrap(), None);
}

#[tokio::test]
async fn allocation_takes_space_and_grows_the_object_only_if_wanted() {
    let (_dir, objects) = real().await;
    let allocate = |len, keep_size| Allocate {
        object: object(5),
        at: ObjectOffset(0),
        len,
        keep_size,
        existing: Existing::Perhaps,
        owner: Default::default(),
    };
    let stat = objects.allocate(allocate(1 << 20, true)).await.unwrap();
    assert_eq!((stat.size, stat.blocks), (0, 2048));
    let stat = objects.allocate(allocate(1 << 20, false)).await.unwrap();
    assert_eq!((stat.size, stat.blocks), (1 << 20, 2048));
    let bytes = read(&objects, object(5), 0, 1 << 20).await.unwrap();
    assert!(bytes.len() == 1 << 20 && bytes.iter().all(|byte| *byte == 0));
}

/// The file's time of change is recovered from its objects: also of a change that keeps the length.
#[tokio::test]
async fn an_allocation_that_keeps_the_length_moves_the_time_of_change() {
    let (dir, objects) = real().await;
    write(&objects, object(5), 0, b"x").await.unwrap();
    sync(&objects, object(5)).await;
    let before = objects.stat(object(5)).await.unwrap().unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    let allocate = Allocate {
        object: object(5),
        at: ObjectOffset(0),
        len: 1 << 20,
        keep_size: true,
        existing: Existing::Certain,
        owner: Default::default(),
    };
    let stat = objects.allocate(allocate).await.unwrap();
    assert_eq!(stat.size, before.size);
    assert!(stat.mtime > before.mtime, "{stat:?}, {before:?}");
    sync(&objects, object(5)).await;
    drop((objects, dir));
}

#[tokio::test]
async fn a_zeroed_range_reads_zeros_and_a_punched_one_gives_its_space_back() {
    let (_dir, objects) = real().await;
    let id = object(5);
    write(&objects, id, 0, &[9; 65536]).await.unwrap();
    sync(&objects, id).await;
    let before = objects.stat(id).await.unwrap().unwrap();
    let zeroed = objects
        .zero(id, ObjectOffset(5000), 20_000, false)
        .await
        .unwrap();
    assert_eq!((zeroed.size, zeroed.blocks), (before.size, before.blocks));
    let punched = objects
        .zero(id, ObjectOffset(25_000), 1 << 20, true)
        .await
        .unwrap();
    assert_eq!(punched.size, 65536, "never lengthened");
    assert!(punched.blocks < before.blocks);
    let bytes = read(&objects, id, 0, 65536).await.unwrap();
    assert!((0..65536).all(|at| (bytes[at] == 0) == (at >= 5000)));
}

#[tokio::test]
async fn data_and_holes_are_found() {
    let (_dir, objects) = real().await;
    let id = object(5);
    write(&objects, id, 1 << 20, &[1; 8192]).await.unwrap();
    let seek = async |at, what| {
        let found = objects.seek(id, ObjectOffset(at), what).await.unwrap();
        found.map(|at| at.get())
    };
    assert_eq!(seek(0, Seek::Data).await, Some(1 << 20));
    assert_eq!(seek(0, Seek::Hole).await, Some(0));
    assert_eq!(seek(1 << 20, Seek::Hole).await, Some((1 << 20) + 8192));
    assert_eq!(seek((1 << 20) + 8192, Seek::Data).await, None);
    assert_eq!(seek((1 << 20) + 8192, Seek::Hole).await, None);
}

#[tokio::test]
async fn objects_are_listed_in_ascending_order_page_by_page() {
    let (_dir, objects) = real().await;
    let mut inos: Vec<u64> = (0..40).map(|n| n * n * n * 977 + 2).collect();
    for ino in inos.iter().rev() {
        write(&objects, object(*ino), 0, &vec![1; (*ino % 100) as usize])
            .await
            .unwrap();
    }
    inos.sort_unstable();
    let mut found = Vec::new();
    let mut after = None;
    loop {
        let page = objects.list(after, 7).await.unwrap();
        let Some((last, _)) = page.last() else { break };
        after = Some(*last);
        found.extend(page.iter().map(|(id, stat)| (id.ino.0, stat.size)));
    }
    let expected: Vec<(u64, u64)> = inos.iter().map(|ino| (*ino, *ino % 100)).collect();
    assert_eq!(found, expected);
}

#[tokio::test]
async fn an_object_reaches_to_the_end_of_all_offsets_and_takes_only_what_is_written() {
    let (dir, objects) = real().await;
    let id = object(5);
    let far = 1u64 << 60;
    let last = i64::MAX as u64 - 3;
    write(&objects, id, 7, b"near").await.unwrap();
    write(&objects, id, far, b"far").await.unwrap();
    write(&objects, id, last, b"end").await.unwrap();
    let check = async |objects: &Objects| {
        let stat = objects.stat(id).await.unwrap().unwrap();
        assert_eq!(stat.size, last + 3);
        assert!(stat.blocks < 100, "{stat:?}");
        assert_eq!(read(objects, id, 7, 4).await.unwrap(), b"near");
        assert_eq!(
            read(objects, id, far - 2, 8).await.unwrap(),
            b"\0\0far\0\0\0"
        );
        assert_eq!(read(objects, id, last, 3).await.unwrap(), b"end");
        let data = objects
            .seek(id, ObjectOffset(8192), Seek::Data)
            .await
            .unwrap();
        assert_eq!(data, Some(ObjectOffset(far)));
    };
    check(&objects).await;
    assert_eq!(
        write(&objects, id, last, b"four").await,
        Err(Refusal::TooLarge)
    );
    objects.stop().await.unwrap();
    drop(objects);

    let disk = gupfs_platform::Disk::real(dir.path()).unwrap();
    let objects = open(&disk, &gupfs_platform::Platform::real()).await;
    check(&objects).await;
    assert_eq!(objects.cut(id, far + 1).await.unwrap().size, far + 1);
    assert_eq!(objects.cut(id, 1 << 50).await.unwrap().size, 1 << 50);
    assert_eq!(objects.cut(id, 9).await.unwrap().size, 9);
    write(&objects, id, far + 2, b"!").await.unwrap();
    assert_eq!(read(&objects, id, far, 8).await.unwrap(), b"\0\0!");
    objects.remove(id).await.unwrap();
    assert_eq!(objects.stat(id).await.unwrap(), None);
}

#[tokio::test]
async fn many_more_objects_than_open_files_are_served() {
    let (_dir, objects) = real().await;
    let count = gupfs_store::object::limits::OPEN_FILES_MOST as u64 + 100;
    for ino in 0..count {
        write(&objects, object(ino), 0, &ino.to_le_bytes())
            .await
            .unwrap();
    }
    let ids: Vec<_> = (0..count).map(object).collect();
    objects.sync(&ids).await.unwrap();
    for ino in 0..count {
        assert_eq!(
            read(&objects, object(ino), 0, 8).await.unwrap(),
            ino.to_le_bytes()
        );
    }
    let open = std::fs::read_dir("/proc/self/fd").unwrap().count();
    assert!(open < count as usize + 50, "{open} descriptors");
}

#[tokio::test(start_paused = true)]
async fn a_power_cut_and_a_failed_sync_end_a_life_and_nothing_else_does() {
    let house = House::new(7, false);
    let objects = house.fresh().await;
    let first = objects.life();
    drop(objects);
    house.kill();
    let objects = house.open().await;
    assert_eq!(objects.life(), first, "the page cache outlives a kill");
    let objects = house.reopened(objects).await;
    assert_eq!(objects.life(), first);
    objects.stop().await.unwrap();
    drop(objects);
    house.cut_power();
    let objects = house.open().await;
    assert_eq!(objects.life(), first, "all was synced at the stop");

    drop(objects);
    house.cut_power();
    let objects = house.open().await;
    let second = objects.life();
    assert!(second > first);

    write(&objects, object(1), 0, &[1; 5000]).await.unwrap();
    house.disk.fail_sync(1);
    assert!(objects.sync(&[object(1)]).await.is_err());
    house.sleep(std::time::Duration::from_secs(1)).await;
    drop(objects);
    house.kill();
    let objects = house.open().await;
    assert!(
        objects.life() > second,
        "a failed sync may have dropped bytes"
    );
}

#[tokio::test(start_paused = true)]
async fn a_life_is_over_when_somebody_else_remembers_so() {
    let house = House::new(12, false);
    let objects = house.fresh().await;
    let first = objects.life();
    write(&objects, object(1), 0, &[1; 5000]).await.unwrap();
    // The disk fails, and takes no note of it.
    house.disk.fail_write_back();
    assert!(!objects.is_life_over());
    assert!(objects.sync(&[object(1)]).await.is_err());
    assert!(objects.is_life_over() && objects.failure().is_some());
    house.disk.kill();
    drop(objects);
    house.kill();
    let objects = house.open().await;
    let found = objects.life();
    objects.begin_life_after(first).await.unwrap();
    let second = objects.life();
    assert!(found >= first && second > first);
    objects.begin_life_after(first).await.unwrap();
    assert_eq!(objects.life(), second, "it is over once");
    // Also for the next start.
    drop(objects);
    house.kill();
    assert_eq!(house.open().await.life(), second);
}
