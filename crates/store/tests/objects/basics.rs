//! Each operation once, on a real directory.

use crate::fixture::*;
use gupfs_proto::data::{ObjectExistence, SeekWhence};
use gupfs_proto::error::ObjectDamage;
use gupfs_proto::{FsError, ObjectOffset};
use gupfs_store::object::{AllocateRequest, Objects};

#[tokio::test]
async fn written_bytes_are_read_and_holes_are_zeros() {
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
    let lost = read_as(&objects, id, 0, 100, ObjectExistence::MustExist).await;
    let damage = FsError::ObjectDamaged {
        ost: TARGET_ID.ost,
        object: id,
        damage: ObjectDamage::Missing,
    };
    assert_eq!(lost, Err(damage));
    let status = objects.status().await;
    assert_eq!(status.damaged, [(id.to_string(), "is missing".to_owned())]);
}

#[tokio::test]
async fn a_truncated_object_ends_there_and_its_tail_does_not_come_back() {
    let (_dir, objects) = real().await;
    let id = object(5);
    write(&objects, id, 0, &[7; 9000]).await.unwrap();
    assert_eq!(objects.truncate(id, 5000).await.unwrap().size, 5000);
    assert_eq!(objects.truncate(id, 8000).await.unwrap().size, 5000);
    write(&objects, id, 9000, b"x").await.unwrap();
    let bytes = read(&objects, id, 0, 10_000).await.unwrap();
    assert_eq!(bytes.len(), 9001);
    assert!(bytes[..5000].iter().all(|byte| *byte == 7));
    assert!(bytes[5000..9000].iter().all(|byte| *byte == 0));
    assert_eq!(objects.truncate(object(6), 0).await.unwrap().size, 0);
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
    let allocate = |len, keep_size| AllocateRequest {
        object: object(5),
        at: ObjectOffset(0),
        len,
        keep_size,
        existing: ObjectExistence::MayExist,
        owner: Default::default(),
    };
    let stat = objects.allocate(allocate(1 << 20, true)).await.unwrap();
    assert_eq!((stat.size, stat.blocks), (0, 2048));
    let stat = objects.allocate(allocate(1 << 20, false)).await.unwrap();
    assert_eq!((stat.size, stat.blocks), (1 << 20, 2048));
    let bytes = read(&objects, object(5), 0, 1 << 20).await.unwrap();
    assert!(bytes.len() == 1 << 20 && bytes.iter().all(|byte| *byte == 0));
}

/// The file's ctime is recovered from its objects, also after a change that keeps the length.
#[tokio::test]
async fn an_allocation_that_keeps_the_length_changes_the_mtime() {
    let (dir, objects) = real().await;
    write(&objects, object(5), 0, b"x").await.unwrap();
    sync(&objects, object(5)).await;
    let before = objects.stat(object(5)).await.unwrap().unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    let allocate = AllocateRequest {
        object: object(5),
        at: ObjectOffset(0),
        len: 1 << 20,
        keep_size: true,
        existing: ObjectExistence::MustExist,
        owner: Default::default(),
    };
    let stat = objects.allocate(allocate).await.unwrap();
    assert_eq!(stat.size, before.size);
    assert!(stat.mtime > before.mtime, "{stat:?}, {before:?}");
    sync(&objects, object(5)).await;
    drop((objects, dir));
}

#[tokio::test]
async fn a_zeroed_range_reads_zeros_and_a_punched_one_frees_its_space() {
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
    assert_eq!(punched.size, 65536, "never extended");
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
    assert_eq!(seek(0, SeekWhence::Data).await, Some(1 << 20));
    assert_eq!(seek(0, SeekWhence::Hole).await, Some(0));
    assert_eq!(
        seek(1 << 20, SeekWhence::Hole).await,
        Some((1 << 20) + 8192)
    );
    assert_eq!(seek((1 << 20) + 8192, SeekWhence::Data).await, None);
    assert_eq!(seek((1 << 20) + 8192, SeekWhence::Hole).await, None);
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
async fn an_object_may_reach_the_largest_offset_and_takes_space_only_for_its_data() {
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
            .seek(id, ObjectOffset(8192), SeekWhence::Data)
            .await
            .unwrap();
        assert_eq!(data, Some(ObjectOffset(far)));
    };
    check(&objects).await;
    assert_eq!(
        write(&objects, id, last, b"four").await,
        Err(FsError::TooLarge)
    );
    objects.stop().await.unwrap();
    drop(objects);

    let disk = gupfs_platform::Disk::real(dir.path()).unwrap();
    let objects = open(&disk, &gupfs_platform::Platform::real()).await;
    check(&objects).await;
    assert_eq!(objects.truncate(id, far + 1).await.unwrap().size, far + 1);
    assert_eq!(objects.truncate(id, 1 << 50).await.unwrap().size, 1 << 50);
    assert_eq!(objects.truncate(id, 9).await.unwrap().size, 9);
    write(&objects, id, far + 2, b"!").await.unwrap();
    assert_eq!(read(&objects, id, far, 8).await.unwrap(), b"\0\0!");
    objects.remove(id).await.unwrap();
    assert_eq!(objects.stat(id).await.unwrap(), None);
}

#[tokio::test]
async fn many_more_objects_than_open_files_are_served() {
    let (_dir, objects) = real().await;
    let count = gupfs_store::object::limits::OPEN_FILES_MAX as u64 + 100;
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
async fn only_a_power_loss_and_a_failed_sync_change_the_write_verifier() {
    let fixture = Fixture::new(7, false);
    let objects = fixture.fresh().await;
    let first = objects.write_verifier();
    drop(objects);
    fixture.kill();
    let objects = fixture.open().await;
    assert_eq!(
        objects.write_verifier(),
        first,
        "the page cache outlives a kill"
    );
    let objects = fixture.reopened(objects).await;
    assert_eq!(objects.write_verifier(), first);
    objects.stop().await.unwrap();
    drop(objects);
    fixture.lose_power();
    let objects = fixture.open().await;
    assert_eq!(
        objects.write_verifier(),
        first,
        "the stop synced everything"
    );

    drop(objects);
    fixture.lose_power();
    let objects = fixture.open().await;
    let second = objects.write_verifier();
    assert!(second > first);

    write(&objects, object(1), 0, &[1; 5000]).await.unwrap();
    fixture.disk.fail_sync(1);
    assert!(objects.sync(&[object(1)]).await.is_err());
    fixture.sleep(std::time::Duration::from_secs(1)).await;
    drop(objects);
    fixture.kill();
    let objects = fixture.open().await;
    assert!(
        objects.write_verifier() > second,
        "a failed sync may have dropped bytes"
    );
}

#[tokio::test(start_paused = true)]
async fn a_write_verifier_is_retired_when_the_caller_remembers_so() {
    let fixture = Fixture::new(12, false);
    let objects = fixture.fresh().await;
    let first = objects.write_verifier();
    write(&objects, object(1), 0, &[1; 5000]).await.unwrap();
    // The disk fails, and does not store that it did.
    fixture.disk.fail_write_back();
    assert!(!objects.is_verifier_retired());
    assert!(objects.sync(&[object(1)]).await.is_err());
    assert!(objects.is_verifier_retired() && objects.failure().is_some());
    fixture.disk.kill();
    drop(objects);
    fixture.kill();
    let objects = fixture.open().await;
    let found = objects.write_verifier();
    objects.take_verifier_after(first).await.unwrap();
    let second = objects.write_verifier();
    assert!(found >= first && second > first);
    objects.take_verifier_after(first).await.unwrap();
    assert_eq!(
        objects.write_verifier(),
        second,
        "the verifier changes only once"
    );
    // The next start keeps the new verifier.
    drop(objects);
    fixture.kill();
    assert_eq!(fixture.open().await.write_verifier(), second);
}
