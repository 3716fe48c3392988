//! Small writes that a client answers before it sends them.

use crate::fake::{FakeCluster, LayoutShape};
use crate::shared_cluster::{SharedCluster, append};
use crate::user::{User, me, name};
use gupfs_client::{OpenFile, SeekTo, SessionOptions};
use gupfs_proto::meta::{RenameMode, SetAttr, SetTime};
use gupfs_proto::{FsError, InodeId, OstId, Timestamp};
use std::sync::Arc;
use std::time::Duration;

/// A file whose data is in objects, on targets of which the client knows that they have room.
async fn begin(user: &User, text: &str) -> Arc<OpenFile> {
    let room = user.create("room").await;
    user.write(&room, 0, &[1; 2 << 20]).await;
    for at in (0..2 << 20).step_by(32 << 10) {
        user.write(&room, at, &[1; 10]).await;
    }
    user.close(room).await;
    let file = user.create(text).await;
    user.write(&file, 0, &[1; 400_000]).await;
    assert_eq!(unsent(user), 0);
    file
}

fn unsent(user: &User) -> usize {
    user.client.status().unsent_bytes
}

#[tokio::test(start_paused = true)]
async fn small_writes_wait_a_moment_and_are_sent_together() {
    let cluster = SharedCluster::new(1, 1).await;
    let user = &cluster.users[0];
    let file = begin(user, "file").await;
    let before = user.client.status().counts;
    for record in 0..100_u64 {
        user.write(&file, 400_000 + record * 100, &[record as u8; 100])
            .await;
    }
    let counts = user.client.status().counts;
    assert_eq!(unsent(user), 10_000);
    assert_eq!(counts.writes_behind - before.writes_behind, 100);
    assert_eq!(user.attr(file.ino()).await.size, 410_000);
    tokio::time::sleep(Duration::from_millis(25)).await;
    let counts = user.client.status().counts;
    assert_eq!((unsent(user), counts.flushes - before.flushes), (0, 1));
    let read = user.read(&file, 400_000, 20_000).await;
    let expected: Vec<u8> = (0..100).flat_map(|record| [record; 100]).collect();
    assert!(read == expected);
}

#[tokio::test(start_paused = true)]
async fn a_read_finds_unsent_bytes_among_those_that_were_sent() {
    let cluster = SharedCluster::new(2, 1).await;
    let user = &cluster.users[0];
    let file = begin(user, "file").await;
    user.write(&file, 200_000, &[2; 50]).await;
    user.write(&file, 200_020, &[3; 10]).await;
    // All of it is in memory: nothing is sent for it.
    let expected = [[2; 20].as_slice(), &[3; 10], &[2; 20]].concat();
    assert_eq!(user.read(&file, 200_000, 50).await, expected);
    assert_eq!(unsent(user), 50);
    let around = user.read(&file, 199_990, 70).await;
    assert_eq!(around, [[1; 10].as_slice(), &expected, &[1; 10]].concat());
    assert_eq!(unsent(user), 0);
    // A hole between.
    user.write(&file, 900_000, &[4; 10]).await;
    assert_eq!(unsent(user), 10);
    let hole = user.client.seek(&file, 500_000, SeekTo::Data).await;
    assert!(hole.unwrap() <= 900_000);
    assert_eq!(
        user.read(&file, 899_990, 100).await,
        [[0; 10], [4; 10]].concat()
    );
}

#[tokio::test(start_paused = true)]
async fn another_client_sees_what_was_not_sent_when_it_asked() {
    let cluster = SharedCluster::new(3, 2).await;
    let (one, two) = cluster.clients();
    let file1 = begin(one, "file").await;
    let file2 = two.open(file1.ino()).await;
    for round in 0..20_u8 {
        let at = 1_000 * u64::from(round);
        one.write(&file1, at, &[round; 500]).await;
        match round % 3 {
            // It reads without asking for the size first.
            0 => assert_eq!(two.read(&file2, at, 500).await, [round; 500]),
            1 => {
                let end = 410_000 + at;
                one.write(&file1, end, &[round; 10]).await;
                assert_eq!(two.attr(file1.ino()).await.size, end + 10);
                assert_eq!(two.read(&file2, end, 10).await, [round; 10]);
            }
            _ => {
                let end = two.attr(file1.ino()).await.size;
                assert_eq!(append(two, &file2, &[round; 7]).await, end);
                assert_eq!(two.read(&file2, at, 500).await, [round; 500]);
                assert_eq!(one.read(&file1, end, 10).await, [round; 7]);
            }
        }
    }
    assert!(one.client.status().counts.writes_behind >= 20);
}

#[tokio::test(start_paused = true)]
async fn fsync_and_close_send_what_is_unsent() {
    for closes in [false, true] {
        let cluster = SharedCluster::new(4, 1).await;
        let user = &cluster.users[0];
        let file = begin(user, "file").await;
        let ino = file.ino();
        user.write(&file, 399_990, &[2; 100]).await;
        assert_eq!(unsent(user), 100);
        match closes {
            true => {
                user.close(file).await;
                user.client.sync_all().await.unwrap();
            }
            false => user.client.fsync(&file, true).await.unwrap(),
        }
        assert_eq!(unsent(user), 0);
        let SharedCluster { disks, servers, .. } = cluster;
        disks.power_loss_of(servers).await;
        let servers = disks.servers(|_| {}).await;
        let user = servers.connect(SessionOptions::default()).await;
        let file = user.open(ino).await;
        assert_eq!(user.attr(ino).await.size, 400_090);
        assert_eq!(user.read(&file, 399_990, 200).await, [2; 100]);
    }
}

/// The first client writes to a file, waits, and ends without closing its session. Returns what another one finds.
async fn found_after_the_end(
    seed: u64,
    wait: Duration,
    then: impl AsyncFnOnce(&User, InodeId),
) -> (u64, Vec<u8>) {
    let cluster = SharedCluster::new(seed, 1).await;
    let (one, two) = (&cluster.mortal_client().await, &cluster.users[0]);
    let file = begin(one, "file").await;
    let ino = file.ino();
    one.write(&file, 400_000, &[2; 100]).await;
    tokio::time::sleep(wait).await;
    then(one, ino).await;
    one.platform.tasks.kill();
    cluster.servers.mds.detach(one.client.session());
    tokio::time::sleep(Duration::from_secs(60)).await;
    let file = two.open(ino).await;
    let size = two.attr(ino).await.size;
    (size, two.read(&file, 399_990, 200).await)
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_client_loses_what_it_has_not_sent_and_nothing_else() {
    let nothing = async |_: &User, _| {};
    let (size, bytes) = found_after_the_end(5, Duration::ZERO, nothing).await;
    assert_eq!((size, bytes), (400_000, vec![1; 10]));
    let (size, bytes) = found_after_the_end(5, Duration::from_secs(1), nothing).await;
    let expected = [[1; 10].as_slice(), &[2; 100]].concat();
    assert_eq!((size, bytes), (400_100, expected));
}

#[tokio::test(start_paused = true)]
async fn a_file_that_replaces_another_is_whole_and_a_set_mtime_stays() {
    let expected = [[1; 10].as_slice(), &[2; 100]].concat();
    let renames = async |user: &User, _| {
        let (root, from, to) = (user.client.root(), name("file"), name("other"));
        let (caller, mode) = (me(), RenameMode::Replace);
        let done = user
            .client
            .rename(&caller, (root, &from), (root, &to), mode);
        done.await.unwrap();
    };
    let found = found_after_the_end(6, Duration::ZERO, renames).await;
    assert_eq!(found, (400_100, expected.clone()));
    let sets_mtime = async |user: &User, ino| {
        // With a new mode the metadata server sets both.
        let set = SetAttr {
            mode: Some(0o600),
            mtime: Some(SetTime::To(Timestamp::new(77, 0))),
            ..SetAttr::default()
        };
        user.client.setattr(&me(), ino, set).await.unwrap();
    };
    let found = found_after_the_end(7, Duration::ZERO, sets_mtime).await;
    assert_eq!(found, (400_100, expected));
}

async fn with_fake_targets(seed: u64) -> (FakeCluster, Arc<OpenFile>) {
    let options = SessionOptions {
        write_behind: true,
        ..SessionOptions::default()
    };
    let cluster = FakeCluster::with_shape(seed, LayoutShape::Small, options).await;
    let file = begin(&cluster, "file").await;
    (cluster, file)
}

#[tokio::test(start_paused = true)]
async fn a_server_whose_store_has_failed_loses_nothing_if_it_is_started_again() {
    let (cluster, file) = with_fake_targets(18).await;
    let fail = |ost| {
        let error = FsError::StoreFailed("the disk of the log failed".into());
        let error = ("reserved_write", OstId(ost), error);
        cluster.ost.state.lock().errors.push(error);
    };
    (0..4).for_each(fail);
    cluster.write(&file, 0, &[2; 4_000]).await;
    tokio::time::sleep(Duration::from_millis(25)).await;
    assert_eq!(unsent(&cluster), 4_000);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(unsent(&cluster), 0);
    assert_eq!(cluster.client.flush(&file), Ok(()));
    assert_eq!(cluster.read(&file, 0, 4_000).await, [2; 4_000]);
}

#[tokio::test(start_paused = true)]
async fn a_flush_that_fails_is_an_error_of_each_open_file_once_and_later_writes_go_through() {
    let (cluster, file) = with_fake_targets(8).await;
    let other = cluster.open(file.ino()).await;
    let fail = |ost| {
        let error = ("reserved_write", OstId(ost), FsError::NoSpace);
        cluster.ost.state.lock().errors.push(error);
    };
    (0..4).for_each(fail);
    cluster.write(&file, 0, &[2; 4_000]).await;
    assert_eq!(unsent(&cluster), 4_000);
    tokio::time::sleep(Duration::from_millis(25)).await;
    assert_eq!(unsent(&cluster), 0);
    cluster.ost.state.lock().errors.clear();
    let written = cluster.client.status().counts.writes_behind;
    cluster.write(&file, 0, &[3; 4_000]).await;
    assert_eq!(cluster.client.status().counts.writes_behind, written);
    assert_eq!(cluster.client.flush(&file), Err(FsError::NoSpace));
    assert_eq!(cluster.client.flush(&file), Ok(()));
    assert_eq!(
        cluster.client.fsync(&other, false).await,
        Err(FsError::NoSpace)
    );
    assert_eq!(cluster.client.fsync(&other, false).await, Ok(()));
    assert_eq!(cluster.read(&file, 0, 4_000).await, [3; 4_000]);
    // After an fsync the client relies on memory again, as soon as the targets have told what they still keep for it.
    cluster.platform.clock.advance(Duration::from_secs(1));
    cluster.write(&file, 0, &[4; 4_000]).await;
    tokio::time::sleep(Duration::from_millis(5)).await;
    cluster.write(&file, 0, &[4; 4_000]).await;
    assert_eq!(unsent(&cluster), 4_000);
}

#[tokio::test(start_paused = true)]
async fn a_target_that_is_down_for_a_while_loses_nothing() {
    let (cluster, file) = with_fake_targets(9).await;
    for _ in 0..3 {
        for ost in 0..4 {
            let reason = "it restarts".to_string();
            let down = FsError::TargetDown {
                ost: OstId(ost),
                reason,
            };
            let error = ("reserved_write", OstId(ost), down);
            cluster.ost.state.lock().errors.push(error);
        }
    }
    cluster.write(&file, 0, &[2; 4_000]).await;
    cluster.client.fsync(&file, false).await.unwrap();
    cluster.ost.state.lock().errors.clear();
    assert_eq!(cluster.read(&file, 0, 4_000).await, [2; 4_000]);
}

/// Small writes of 4,000 bytes each, without a pause; returns how many of them the client has kept.
async fn write_small(user: &User, file: &OpenFile, writes: u64) -> u64 {
    let kept = || user.client.status().counts.writes_behind;
    let before = kept();
    for write in 0..writes {
        user.write(file, write * 4_000, &[2; 4_000]).await;
    }
    kept() - before
}

#[tokio::test(start_paused = true)]
async fn no_byte_is_kept_beyond_what_its_target_reserves() {
    let (cluster, file) = with_fake_targets(10).await;
    cluster.ost.state.lock().reservations.most = Some(10 * 4_096);
    // The client learns what is left by the reply to its next flush.
    for _ in 0..20 {
        write_small(&cluster, &file, 5).await;
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    for round in 0..50_u64 {
        cluster.write(&file, 0, &[3; 4_000]).await;
        for write in 1..30 {
            cluster.write(&file, write * 5_000, &[3; 4_000]).await;
            let reservations = cluster.client.status().reservations;
            for target in &reservations {
                assert!(target.charged_bytes <= 10 * 4_096, "{reservations:?}");
            }
        }
        assert!(unsent(&cluster) <= 4 * 10 * 4_096);
        tokio::time::sleep(Duration::from_millis(round)).await;
    }
    assert!(write_small(&cluster, &file, 5).await > 0);
    tokio::time::sleep(Duration::from_millis(25)).await;
    assert_eq!(cluster.ost.state.lock().reservations.overdrawn, 0);
}

#[tokio::test(start_paused = true)]
async fn where_a_target_reserves_nothing_writes_go_through() {
    for are_unknown in [false, true] {
        let (cluster, file) = with_fake_targets(11).await;
        {
            let reservations = &mut cluster.ost.state.lock().reservations;
            reservations.most = Some(0);
            reservations.are_unknown = are_unknown;
        }
        cluster.platform.clock.advance(Duration::from_secs(6));
        for _ in 0..3 {
            assert_eq!(write_small(&cluster, &file, 10).await, 0);
            assert_eq!(unsent(&cluster), 0);
            tokio::time::sleep(Duration::from_millis(600)).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_pause_the_first_write_goes_through_and_the_next_ones_wait() {
    let (cluster, file) = with_fake_targets(12).await;
    assert_eq!(write_small(&cluster, &file, 1).await, 1);
    tokio::time::sleep(Duration::from_millis(25)).await;
    cluster.platform.clock.advance(Duration::from_secs(6));
    assert_eq!(write_small(&cluster, &file, 1).await, 0);
    tokio::time::sleep(Duration::from_millis(25)).await;
    assert_eq!(write_small(&cluster, &file, 10).await, 10);
}

#[tokio::test(start_paused = true)]
async fn a_target_that_has_started_again_is_asked_again() {
    let (cluster, file) = with_fake_targets(13).await;
    assert_eq!(write_small(&cluster, &file, 1).await, 1);
    cluster.ost.state.lock().reservations.restart();
    tokio::time::sleep(Duration::from_millis(25)).await;
    // The reply to the flush said that it has started again.
    assert_eq!(write_small(&cluster, &file, 1).await, 0);
    cluster.platform.clock.advance(Duration::from_secs(1));
    write_small(&cluster, &file, 1).await;
    tokio::time::sleep(Duration::from_millis(25)).await;
    assert_eq!(write_small(&cluster, &file, 10).await, 10);
}

#[tokio::test(start_paused = true)]
async fn a_client_gives_space_back_before_a_write_fails_for_lack_of_it() {
    let (cluster, file) = with_fake_targets(14).await;
    assert_eq!(write_small(&cluster, &file, 1).await, 1);
    cluster.client.fsync(&file, false).await.unwrap();
    let kept: u64 = (cluster.client.status().reservations.iter())
        .map(|target| target.reserved_bytes)
        .sum();
    assert!(kept > 4 << 20, "{kept}");
    // All that is free is reserved.
    cluster.ost.state.lock().free_blocks = Some(kept / 4_096);
    let long = vec![5; 1 << 20];
    cluster.write(&file, 8 << 20, &long).await;
    assert!(cluster.read(&file, 8 << 20, 1 << 20).await == long);
    // Now it is full.
    cluster.ost.state.lock().free_blocks = Some(0);
    let refused = cluster.try_write(&file, 16 << 20, 1 << 20).await;
    assert_eq!(refused, Err(FsError::NoSpace));
}
