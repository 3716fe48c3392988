//! Times and privileges of files with a write lease.

use crate::fake::{FakeCluster, LayoutShape};
use crate::user::{flags, me, open_mode};
use bytes::Bytes;
use gupfs_client::{AtimeMode, ReadOptions, SessionOptions, WriteOptions};
use gupfs_proto::meta::{AccessMode, OpenMode, SetAttr, SetTime, WritePosition};
use gupfs_proto::{FileMode, Timestamp};
use std::sync::Arc;
use std::time::Duration;

async fn pass(cluster: &FakeCluster) {
    cluster.platform.clock.advance(Duration::from_secs(10));
}

#[tokio::test(start_paused = true)]
async fn a_write_sets_mtime_and_ctime_at_once_and_reports_them_at_close() {
    let cluster = FakeCluster::new(1).await;
    let file = cluster.create("file").await;
    let ino = file.ino();
    let before = cluster.attr(ino).await;
    pass(&cluster).await;
    cluster.write(&file, 0, &[1; 10_000]).await;
    let leased = cluster.attr(ino).await;
    assert!(
        leased.mtime > before.mtime
            && leased.ctime == leased.mtime
            && leased.change > before.change
    );
    assert_eq!(cluster.mds.inode(ino).attr.size, 0, "not reported yet");
    cluster.close(file).await;
    let reported = cluster.mds.inode(ino).attr;
    assert_eq!(
        (reported.mtime, reported.ctime, reported.size),
        (leased.mtime, leased.ctime, 10_000)
    );
    assert_eq!(cluster.attr(ino).await.mtime, leased.mtime);
}

#[tokio::test(start_paused = true)]
async fn a_write_during_an_older_report_is_reported_too() {
    let cluster = Arc::new(FakeCluster::new(6).await);
    let file = cluster.create("file").await;
    let ino = file.ino();
    cluster.write(&file, 0, &[1; 10_000]).await;
    pass(&cluster).await;
    cluster.mds.state.lock().delayed.push("end_write");
    let syncing = {
        let (cluster, file) = (cluster.clone(), file.clone());
        tokio::spawn(async move { cluster.client.fsync(&file, false).await })
    };
    tokio::time::sleep(Duration::from_millis(1)).await;
    pass(&cluster).await;
    cluster.write(&file, 10_000, &[2; 10_000]).await;
    let written = cluster.attr(ino).await;
    cluster.mds.release_delayed.notify_one();
    syncing.await.unwrap().unwrap();
    assert_eq!(cluster.attr(ino).await.mtime, written.mtime);
    cluster.close(file).await;
    let reported = cluster.mds.inode(ino).attr;
    assert_eq!((reported.mtime, reported.size), (written.mtime, 20_000));
}

#[tokio::test(start_paused = true)]
async fn a_time_that_was_set_is_not_overwritten_by_an_older_write() {
    let cluster = FakeCluster::new(2).await;
    let file = cluster.create("file").await;
    let ino = file.ino();
    cluster.write(&file, 0, &[1; 10_000]).await;
    let then = Timestamp::new(1_000_000_000, 5);
    let set = SetAttr {
        mtime: Some(SetTime::To(then)),
        atime: Some(SetTime::To(then)),
        ..SetAttr::default()
    };
    let attr = cluster.client.setattr(&me(), ino, set).await.unwrap();
    assert_eq!((attr.mtime, attr.atime, attr.size), (then, then, 10_000));
    assert_eq!(cluster.attr(ino).await.mtime, then);
    cluster.close(file).await;
    assert_eq!(cluster.mds.inode(ino).attr.mtime, then);
}

#[tokio::test(start_paused = true)]
async fn reading_updates_atime_by_the_mode_and_no_other_time() {
    for (rule, moves) in [
        (AtimeMode::Relative, [true, false, true]),
        (AtimeMode::Always, [true, true, true]),
        (AtimeMode::Never, [false, false, false]),
    ] {
        let options = SessionOptions {
            atime: rule,
            ..SessionOptions::default()
        };
        let cluster = FakeCluster::with_shape(3, LayoutShape::Small, options).await;
        let file = cluster.create("file").await;
        let ino = file.ino();
        cluster.write(&file, 0, b"bytes").await;
        cluster.close(file).await;
        let access = OpenMode {
            access: AccessMode::READ,
            ..open_mode()
        };
        for (round, moves) in moves.into_iter().enumerate() {
            // The third round is a day later.
            cluster
                .platform
                .clock
                .advance(Duration::from_secs(10 + (round as u64 / 2) * 100_000));
            let before = cluster.attr(ino).await;
            let file = cluster
                .client
                .open(&me(), ino, access, flags())
                .await
                .unwrap()
                .file;
            cluster.read(&file, 0, 3).await;
            let after = cluster.attr(ino).await;
            assert_eq!(after.atime > before.atime, moves, "{rule:?}, round {round}");
            cluster.close(file).await;
            let reported = cluster.mds.inode(ino).attr;
            assert_eq!(
                (reported.atime, reported.mtime, reported.ctime),
                (after.atime, before.mtime, before.ctime)
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_noatime_read_does_not_update_atime() {
    let cluster = FakeCluster::new(5).await;
    let file = cluster.create("file").await;
    cluster.write(&file, 0, b"bytes").await;
    cluster.platform.clock.advance(Duration::from_secs(10));
    let before = cluster.attr(file.ino()).await.atime;
    let how = ReadOptions::new(true);
    cluster.client.read(&file, 0, 5, how).await.unwrap();
    assert_eq!(cluster.attr(file.ino()).await.atime, before);
    cluster
        .client
        .read(&file, 0, 5, ReadOptions::default())
        .await
        .unwrap();
    assert!(cluster.attr(file.ino()).await.atime > before);
}

#[tokio::test(start_paused = true)]
async fn the_first_unprivileged_write_kills_privileges_with_one_request() {
    let cluster = FakeCluster::new(4).await;
    let file = cluster.create("file").await;
    let ino = file.ino();
    cluster.write(&file, 0, &[1; 10_000]).await;
    let kill = WriteOptions {
        kill_privileges: true,
        ..WriteOptions::default()
    };
    for _ in 0..2 {
        let set = SetAttr {
            mode: Some(0o6755),
            ..SetAttr::default()
        };
        let attr = cluster.client.setattr(&me(), ino, set).await.unwrap();
        assert!(attr.mode.has(FileMode::SETUID));
        let asked = cluster.mds.state.lock().journal.len();
        for at in 0..3 {
            let data = Bytes::from_static(b"bytes");
            cluster
                .client
                .write(&file, WritePosition::Offset(at), data, kill)
                .await
                .unwrap();
        }
        assert_eq!(cluster.mds.state.lock().journal.len(), asked + 1);
        assert_eq!(cluster.attr(ino).await.mode, FileMode(0o755));
    }
}

#[tokio::test(start_paused = true)]
async fn listing_a_directory_updates_its_atime_once_until_it_changes() {
    let cluster = FakeCluster::new(5).await;
    let root = cluster.client.root();
    for _ in 0..2 {
        pass(&cluster).await;
        let before = cluster.attr(root).await;
        cluster
            .client
            .readdir(&me(), root, 0, 10, false)
            .await
            .unwrap();
        let listed = cluster.attr(root).await;
        assert!(listed.atime > before.atime);
        assert_eq!((listed.mtime, listed.ctime), (before.mtime, before.ctime));
        pass(&cluster).await;
        cluster
            .client
            .readdir(&me(), root, 0, 10, false)
            .await
            .unwrap();
        assert_eq!(cluster.attr(root).await.atime, listed.atime);
        pass(&cluster).await;
        let touched = SetAttr {
            mtime: Some(SetTime::Now),
            ..SetAttr::default()
        };
        cluster.client.setattr(&me(), root, touched).await.unwrap();
    }
}

/// No object has that time, so only the server can keep it if the client ends.
#[tokio::test(start_paused = true)]
async fn punching_a_hole_into_a_hole_reports_its_time_at_once() {
    let cluster = FakeCluster::new(9).await;
    let file = cluster.create("file").await;
    cluster.write(&file, 0, &[1; 10_000]).await;
    let ino = file.ino();
    cluster
        .client
        .truncate(&me(), ino, 1 << 20, true, false)
        .await
        .unwrap();
    let before = cluster.attr(ino).await.mtime;
    pass(&cluster).await;
    let how = gupfs_client::AllocateMode::Punch;
    let punched = cluster.client.allocate(&file, how, 500_000, 100_000, false);
    punched.await.unwrap();
    let reported = cluster.mds.inode(ino).attr.mtime;
    assert_eq!(reported, cluster.attr(ino).await.mtime);
    assert!(reported > before, "{reported:?}, {before:?}");
}
