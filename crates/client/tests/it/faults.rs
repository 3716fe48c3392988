//! Targets that are full, damaged or return errors.

use crate::fake::FakeCluster;
use crate::user::me;
use gupfs_client::{AllocateMode, ReadOptions};
use gupfs_proto::error::ObjectDamage;
use gupfs_proto::limits::FILE_SIZE_MAX;
use gupfs_proto::{FsError, OstId, Presence};
use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn a_full_ost_makes_the_write_short_and_the_next_fail() {
    let cluster = FakeCluster::new(1).await;
    let file = cluster.create("file").await;
    cluster.write(&file, 0, &[1; 10_000]).await;
    cluster
        .ost
        .state
        .lock()
        .errors
        .push(("write", OstId(2), FsError::NoSpace));
    // The rest of the first component, a unit on ost1, then one on ost2.
    let (border, unit) = (256 << 10, 64 << 10);
    let written = cluster.try_write(&file, border - unit, 200_000).await;
    assert_eq!(written, Ok(2 * unit));
    let end = border + unit;
    assert_eq!(cluster.attr(file.ino()).await.size, end);
    cluster.ost.state.lock().free_blocks = Some(0);
    assert_eq!(
        cluster.try_write(&file, end, 100_000).await,
        Err(FsError::NoSpace)
    );
    assert_eq!(cluster.attr(file.ino()).await.size, end);
    assert_eq!(cluster.read(&file, 0, 10_000).await, [1; 10_000]);
}

#[tokio::test(start_paused = true)]
async fn leftovers_of_a_failed_write_read_as_zeros_when_the_file_grows() {
    for grow in 0..3 {
        let cluster = FakeCluster::new(2).await;
        let file = cluster.create("file").await;
        cluster.write(&file, 0, &[1; 10_000]).await;
        // The write to the second of three objects fails: the third has bytes, and the file ends before the second.
        cluster
            .ost
            .state
            .lock()
            .errors
            .push(("write", OstId(1), FsError::NoSpace));
        let border = 256 << 10;
        let written = cluster.try_write(&file, border - 100, 200_000).await;
        assert_eq!(written, Ok(100));
        assert_eq!(cluster.attr(file.ino()).await.size, border);
        match grow {
            0 => {
                let to = border + 300_000;
                cluster
                    .client
                    .truncate(&me(), file.ino(), to, true, false)
                    .await
                    .unwrap();
            }
            1 => cluster.write(&file, border + 299_999, &[0]).await,
            _ => {
                let how = AllocateMode::Allocate { keep_size: false };
                cluster
                    .client
                    .allocate(&file, how, border + 290_000, 10_000, false)
                    .await
                    .unwrap();
            }
        }
        let read = cluster.read(&file, border, 1 << 20).await;
        assert_eq!(read.len(), 300_000);
        assert!(read.iter().all(|byte| *byte == 0), "growth by way {grow}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_truncate_of_leftovers_is_remembered_across_close() {
    let cluster = FakeCluster::new(5).await;
    let file = cluster.create("file").await;
    cluster.write(&file, 0, &[1; 10_000]).await;
    {
        let mut state = cluster.ost.state.lock();
        state.errors.push(("write", OstId(1), FsError::NoSpace));
        state.errors.push(("cut", OstId(2), FsError::Busy));
    }
    // The metadata server's own truncate fails the same way.
    for _ in 0..2 {
        let mut state = cluster.mds.state.lock();
        state.errors.push(("truncate", FsError::Busy));
    }
    let border = 256 << 10;
    let written = cluster.try_write(&file, border - 100, 200_000).await;
    assert_eq!(written, Ok(100));
    let (ino, id) = (file.ino(), file.id());
    drop(file);
    assert_eq!(cluster.client.release(id).await, Err(FsError::Busy));
    let file = cluster.open(ino).await;
    let to = border + 300_000;
    let grown = cluster.client.truncate(&me(), ino, to, true, false).await;
    grown.unwrap();
    let read = cluster.read(&file, border, 1 << 20).await;
    assert_eq!(read.len(), 300_000);
    assert!(read.iter().all(|byte| *byte == 0));
}

/// Size and mtime equal what a recovery would find if the client died now.
#[tokio::test(start_paused = true)]
async fn after_a_failed_write_the_objects_match_size_and_mtime() {
    let border = 256 << 10;
    for way in ["write", "append", "allocate", "zero", "within"] {
        let cluster = FakeCluster::new(4).await;
        let file = cluster.create("file").await;
        cluster
            .write(&file, 0, &vec![1; border as usize + 300_000])
            .await;
        let size = cluster.attr(file.ino()).await.size;
        tokio::time::sleep(Duration::from_secs(5)).await;
        let refuse = |op| {
            let mut state = cluster.ost.state.lock();
            state.errors.push((op, OstId(1), FsError::NoSpace));
        };
        let grow = |how| {
            let client = &cluster.client;
            let file = &file;
            async move { client.allocate(file, how, size, 400_000, false).await }
        };
        let failed = match way {
            "write" => {
                refuse("write");
                cluster
                    .try_write(&file, size + 10_000, 400_000)
                    .await
                    .map(drop)
            }
            "append" => {
                refuse("write");
                cluster.try_write(&file, size, 400_000).await.map(drop)
            }
            "allocate" => {
                refuse("allocate");
                grow(AllocateMode::Allocate { keep_size: false }).await
            }
            "zero" => {
                refuse("allocate");
                grow(AllocateMode::Zero { keep_size: false }).await
            }
            _ => {
                refuse("write");
                cluster.try_write(&file, border, 300_000).await.map(drop)
            }
        };
        let attr = cluster.attr(file.ino()).await;
        let layout = cluster.mds.inode(file.ino()).layout;
        let state = cluster.ost.state.lock();
        for (component, stripe, _, object, _) in layout.objects(file.ino()) {
            let Some(object) = state.objects.get(&object) else {
                continue;
            };
            let most = layout.components[component].object_size(stripe, attr.size);
            let stat = object.stat();
            assert!(
                stat.size <= most,
                "{way} ({failed:?}): {stat:?}, not {most}"
            );
            assert!(stat.mtime <= attr.mtime, "{way} ({failed:?}): {stat:?}");
        }
    }
}

/// The client requests a truncate from the metadata server, which records it as pending if the OST refuses: then the leftovers do
/// not become part of the file if the client dies.
#[tokio::test(start_paused = true)]
async fn the_metadata_server_truncates_leftovers_that_an_ost_refused_to_truncate() {
    let cluster = FakeCluster::new(5).await;
    let file = cluster.create("file").await;
    cluster.write(&file, 0, &[1; 10_000]).await;
    {
        let mut state = cluster.ost.state.lock();
        state.errors.push(("write", OstId(1), FsError::NoSpace));
        state.errors.push(("cut", OstId(2), FsError::Busy));
    }
    let border = 256 << 10;
    let refuse = |count| {
        let mut state = cluster.mds.state.lock();
        for _ in 0..count {
            state.errors.push(("truncate", FsError::Busy));
        }
    };
    refuse(3);
    let written = cluster.try_write(&file, border - 100, 200_000).await;
    assert_eq!(written, Ok(100));
    assert_eq!(
        cluster.mds.state.lock().errors.len(),
        2,
        "the client sent one truncate"
    );
    // While the truncate is pending the file must not grow: the server's truncate would remove what it grew by.
    let grown = cluster.try_write(&file, border, 10_000).await;
    assert_eq!(grown, Err(FsError::Busy));
    let how = AllocateMode::Allocate { keep_size: false };
    let grown = cluster
        .client
        .allocate(&file, how, border, 10_000, false)
        .await;
    assert_eq!(grown, Err(FsError::Busy));
    assert_eq!(cluster.mds.state.lock().errors.len(), 0);
    // Bytes inside the file can be written.
    cluster.write(&file, 0, &[2; 10_000]).await;
    assert_eq!(cluster.attr(file.ino()).await.size, border);
    // Now the truncate succeeds, and the file grows.
    cluster.write(&file, border + 299_999, &[3]).await;
    let read = cluster.read(&file, border, 1 << 20).await;
    assert_eq!(read.len(), 300_000);
    assert!(read[..299_999].iter().all(|byte| *byte == 0));
    assert_eq!(cluster.read(&file, 0, 10_000).await, [2; 10_000]);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_write_leaves_no_bytes_behind_the_end() {
    let cluster = FakeCluster::new(3).await;
    let file = cluster.create("file").await;
    cluster.write(&file, 0, &[1; 10_000]).await;
    for polls in 1..40 {
        let mut writing = Box::pin(cluster.try_write(&file, 10_000, 500_000));
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        for _ in 0..polls {
            if writing.as_mut().poll(&mut cx).is_ready() {
                break;
            }
        }
        drop(writing);
        let size = cluster.attr(file.ino()).await.size;
        let to = size + 1_000_000;
        cluster
            .client
            .truncate(&me(), file.ino(), to, true, false)
            .await
            .unwrap();
        let read = cluster.read(&file, size, 1_000_000).await;
        assert!(
            read.iter().all(|byte| *byte == 0),
            "dropped after {polls} polls"
        );
        cluster
            .client
            .truncate(&me(), file.ino(), 10_000, true, false)
            .await
            .unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_flipped_bit_is_read_again_and_twice_is_damage() {
    let cluster = FakeCluster::new(4).await;
    let file = cluster.create("file").await;
    cluster.write(&file, 0, &[1; 10_000]).await;
    cluster.ost.state.lock().corrupt_reads = 1;
    assert_eq!(cluster.read(&file, 0, 10_000).await, [1; 10_000]);
    assert_eq!(cluster.client.counts().checksum_retries, 1);
    cluster.ost.state.lock().corrupt_reads = 2;
    let read = cluster
        .client
        .read(&file, 0, 10_000, ReadOptions::default())
        .await;
    let what = ObjectDamage::Checksum;
    assert!(
        matches!(read, Err(FsError::ObjectDamaged { damage: found, .. }) if found == what),
        "{read:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_lost_object_is_an_error_and_never_zeros() {
    let cluster = FakeCluster::new(5).await;
    let file = cluster.create("file").await;
    cluster.write(&file, 0, &[1; 10_000]).await;
    cluster.client.fsync(&file, false).await.unwrap();
    let lost = |cluster: &FakeCluster| cluster.ost.state.lock().objects.clear();
    lost(&cluster);
    let missing = |read| {
        matches!(
            read,
            Err(FsError::ObjectDamaged {
                damage: ObjectDamage::Missing,
                ..
            })
        )
    };
    assert!(missing(
        cluster
            .client
            .read(&file, 0, 100, ReadOptions::default())
            .await
            .map(|_| ())
    ));
    assert!(missing(cluster.try_write(&file, 0, 10).await.map(|_| ())));
    // Also for a later open.
    let ino = file.ino();
    cluster.close(file).await;
    let again = cluster.open(ino).await;
    assert!(missing(
        cluster
            .client
            .read(&again, 0, 100, ReadOptions::default())
            .await
            .map(|_| ())
    ));
}

#[tokio::test(start_paused = true)]
async fn a_failed_sync_is_returned_to_each_open_file_once_and_retried() {
    let cluster = FakeCluster::new(6).await;
    let (one, ino) = {
        let file = cluster.create("file").await;
        let ino = file.ino();
        (file, ino)
    };
    let two = cluster.open(ino).await;
    cluster.write(&one, 0, &[1; 10_000]).await;
    let failed = FsError::StoreFailed("broken".into());
    cluster
        .ost
        .state
        .lock()
        .errors
        .push(("sync", OstId(0), failed.clone()));
    assert_eq!(cluster.client.fsync(&one, false).await, Err(failed.clone()));
    assert_eq!(cluster.client.fsync(&one, false).await, Ok(()));
    assert!(
        cluster
            .ost
            .state
            .lock()
            .objects
            .values()
            .all(|object| object.synced),
        "the second fsync synced all objects"
    );
    assert_eq!(cluster.client.flush(&two), Err(failed));
    assert_eq!(cluster.client.flush(&two), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_file_whose_last_report_failed_keeps_its_lease_until_stop() {
    let cluster = FakeCluster::new(7).await;
    let file = cluster.create("file").await;
    let ino = file.ino();
    cluster.write(&file, 0, &[1; 10_000]).await;
    let failed = FsError::StoreFailed("broken".into());
    cluster
        .mds
        .state
        .lock()
        .errors
        .push(("end_write", failed.clone()));
    let id = file.id();
    drop(file);
    assert_eq!(cluster.client.release(id).await, Err(failed));
    assert_eq!(cluster.attr(ino).await.size, 10_000);
    assert_eq!(cluster.client.status().leased_inodes, 1);
    cluster.client.stop().await.unwrap();
    let inode = cluster.mds.inode(ino);
    assert_eq!((inode.attr.size, inode.writers.len()), (10_000, 0));
}

#[tokio::test(start_paused = true)]
async fn inline_data_stays_inline_when_its_move_fails() {
    let cluster = FakeCluster::new(8).await;
    let file = cluster.create("file").await;
    cluster.write(&file, 0, b"small").await;
    cluster.client.fsync(&file, false).await.unwrap();
    for step in ["write", "sync"] {
        cluster
            .ost
            .state
            .lock()
            .errors
            .push((step, OstId(0), FsError::NoSpace));
        assert_eq!(
            cluster.try_write(&file, 5, 10_000).await,
            Err(FsError::NoSpace)
        );
        assert_eq!(cluster.read(&file, 0, 100).await, b"small");
        assert_eq!(cluster.attr(file.ino()).await.size, 5);
    }
    let ino = file.ino();
    cluster.close(file).await;
    let file = cluster.open(ino).await;
    assert_eq!(cluster.read(&file, 0, 100).await, b"small");
    cluster.write(&file, 5, &[b'x'; 10_000]).await;
    assert_eq!(cluster.read(&file, 3, 4).await, b"llxx");
    assert_eq!(cluster.client.counts().spills, 1);
}

#[tokio::test(start_paused = true)]
async fn files_end_at_the_largest_offset() {
    let cluster = FakeCluster::new(9).await;
    let file = cluster.create("file").await;
    assert_eq!(
        cluster.try_write(&file, FILE_SIZE_MAX - 10, 100).await,
        Ok(10)
    );
    assert_eq!(
        cluster.try_write(&file, FILE_SIZE_MAX, 1).await,
        Err(FsError::TooLarge)
    );
    assert_eq!(cluster.read(&file, FILE_SIZE_MAX - 3, 100).await, b"xxx");
    let truncated = cluster
        .client
        .truncate(&me(), file.ino(), FILE_SIZE_MAX + 1, true, false)
        .await;
    assert_eq!(truncated, Err(FsError::TooLarge));
}

#[tokio::test(start_paused = true)]
async fn a_leased_file_reports_no_object_as_present_before_it_is_durable() {
    let cluster = FakeCluster::new(5).await;
    let file = cluster.create("file").await;
    let ino = file.ino();
    let is_told = || {
        let inode = cluster.mds.inode(ino);
        let mut objects = inode.layout.objects(ino);
        objects.any(|(.., presence)| presence == Presence::Present)
    };
    cluster.write(&file, 0, &[1; 100_000]).await;
    cluster
        .client
        .truncate(&me(), ino, 200_000, true, false)
        .await
        .unwrap();
    // A power loss now may lose the object; its record must not make that a damaged object.
    assert!(!is_told());
    cluster.client.fsync(&file, false).await.unwrap();
    cluster.close(file).await;
    assert!(is_told());
}

#[tokio::test(start_paused = true)]
async fn closing_without_a_sync_leaves_the_presence_at_maybe() {
    let cluster = FakeCluster::new(5).await;
    let file = cluster.create("file").await;
    let ino = file.ino();
    cluster.write(&file, 0, &[1; 100_000]).await;
    cluster.close(file).await;
    let layout = cluster.mds.inode(ino).layout.clone();
    let presence: Vec<Presence> = layout.objects(ino).map(|(.., presence)| presence).collect();
    assert!(presence.contains(&Presence::Maybe) && !presence.contains(&Presence::Present));
    // After a sync through a new open file the report lists it as present.
    let again = cluster.open(ino).await;
    cluster.client.fsync(&again, false).await.unwrap();
    cluster.write(&again, 0, &[2; 10]).await;
    cluster.client.fsync(&again, false).await.unwrap();
    cluster.close(again).await;
    let layout = cluster.mds.inode(ino).layout.clone();
    let presence: Vec<Presence> = layout.objects(ino).map(|(.., presence)| presence).collect();
    assert!(presence.contains(&Presence::Present));
}

#[tokio::test(start_paused = true)]
async fn a_second_fsync_waits_for_the_first() {
    let cluster = FakeCluster::new(6).await;
    let file = cluster.create("file").await;
    cluster.write(&file, 0, &[1; 100_000]).await;
    cluster.ost.state.lock().slow_sync = Duration::from_secs(5);
    let begun = tokio::time::Instant::now();
    let one = cluster.client.fsync(&file, true);
    let other = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let synced = cluster.client.fsync(&file, true).await;
        assert!(begun.elapsed() >= Duration::from_secs(5));
        synced
    };
    let (one, other) = tokio::join!(one, other);
    one.unwrap();
    other.unwrap();
}

fn is_lost(result: &Result<(), FsError>) -> bool {
    let what = match result {
        Err(FsError::ObjectDamaged { damage: what, .. }) => *what,
        _ => return false,
    };
    what == ObjectDamage::Unsynced
}

#[tokio::test(start_paused = true)]
async fn fsync_returns_to_each_open_file_once_that_an_ost_lost_power_since_the_write() {
    let cluster = FakeCluster::new(6).await;
    let one = cluster.create("file").await;
    let two = cluster.open(one.ino()).await;
    cluster.write(&one, 0, &[1; 100_000]).await;
    cluster.client.fsync(&one, false).await.unwrap();
    cluster.ost.lose_power();
    // Nothing was written since the sync, so nothing is lost.
    cluster.client.fsync(&one, false).await.unwrap();

    cluster.write(&one, 300_000, &[2; 100_000]).await;
    cluster.ost.lose_power();
    cluster.write(&one, 400_000, &[3; 10]).await; // a later write does not hide the loss
    assert!(is_lost(&cluster.client.fsync(&one, true).await));
    cluster.client.fsync(&one, true).await.unwrap();
    assert!(is_lost(&cluster.client.flush(&two)));
    cluster.client.flush(&two).unwrap();

    // The file stays usable: lost bytes read as zeros, and can be written again.
    assert_eq!(cluster.read(&two, 0, 100_000).await, [1; 100_000]);
    assert_eq!(cluster.read(&two, 300_000, 10).await, [0; 10]);
    cluster.write(&one, 300_000, &[2; 100_000]).await;
    cluster.client.fsync(&one, false).await.unwrap();
    cluster.ost.lose_power();
    cluster.client.fsync(&one, false).await.unwrap();
    assert_eq!(cluster.read(&two, 300_000, 100_000).await, [2; 100_000]);
}

#[tokio::test(start_paused = true)]
async fn a_loss_before_close_is_returned_by_a_later_fsync_or_syncfs() {
    for syncs_all in [false, true] {
        let cluster = FakeCluster::new(6).await;
        let file = cluster.create("file").await;
        let ino = file.ino();
        cluster.write(&file, 0, &[1; 100_000]).await;
        cluster.close(file).await;
        cluster.ost.lose_power();
        if syncs_all {
            assert!(is_lost(&cluster.client.sync_all().await));
        } else {
            let again = cluster.open(ino).await;
            // A sync that fails for another reason keeps the loss.
            let refused = ("sync", OstId(0), FsError::StoreFailed("broken".into()));
            cluster.ost.state.lock().errors.push(refused);
            assert!(cluster.client.fsync(&again, false).await.is_err());
            assert!(is_lost(&cluster.client.fsync(&again, false).await));
            cluster.client.fsync(&again, false).await.unwrap();
        }
        cluster.client.sync_all().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn inline_data_that_an_ost_lost_during_its_move_is_written_again() {
    let cluster = FakeCluster::new(8).await;
    let file = cluster.create("file").await;
    cluster.write(&file, 0, b"small").await;
    cluster.client.fsync(&file, false).await.unwrap();
    cluster.ost.state.lock().loses_power_before_sync = true;
    cluster.write(&file, 100_000, b"far").await;
    cluster.client.fsync(&file, false).await.unwrap();
    cluster.ost.lose_power();
    assert_eq!(cluster.read(&file, 0, 5).await, b"small");
}

#[tokio::test(start_paused = true)]
async fn a_failed_write_piggybacked_on_inline_data_leaves_the_file_unchanged() {
    for fails in ["spilled", "write"] {
        let cluster = FakeCluster::new(2).await;
        let file = cluster.create("file").await;
        cluster.write(&file, 0, b"small").await;
        let error = FsError::NoSpace;
        match fails {
            "spilled" => (cluster.mds.state.lock().errors).push(("spilled", error.clone())),
            _ => (cluster.ost.state.lock().errors).push(("write", OstId(0), error.clone())),
        }
        assert_eq!(cluster.try_write(&file, 5, 10_000).await, Err(error));
        assert_eq!(cluster.attr(file.ino()).await.size, 5);
        assert_eq!(cluster.read(&file, 0, 100).await, b"small");
        // Bytes of it in the objects never appear.
        cluster.write(&file, 5, b"er").await;
        cluster
            .client
            .truncate(&me(), file.ino(), 20_000, true, false)
            .await
            .unwrap();
        let read = cluster.read(&file, 0, 20_000).await;
        assert_eq!((read.len(), &read[..7]), (20_000, &b"smaller"[..]));
        assert!(read[7..].iter().all(|byte| *byte == 0), "{fails}");
    }
}
