//! Which messages the client sends to which server, and in which order.

use crate::fake::FakeCluster;
use crate::user::{flags, me, open_mode};
use bytes::Bytes;
use expect_test::{Expect, expect};
use gupfs_client::{Durability, OpenFileFlags, WriteOptions};
use gupfs_proto::meta::WritePosition;

/// The servers' journals since the last check: the metadata server's first.
fn check_messages(cluster: &FakeCluster, expected: Expect) {
    let asked: Vec<&str> = std::mem::take(&mut cluster.mds.state.lock().journal);
    let done: Vec<String> = std::mem::take(&mut cluster.ost.state.lock().journal);
    expected.assert_eq(&format!(
        "mds: {}\nost: {}",
        asked.join(" "),
        done.join(", ")
    ));
}

#[tokio::test(start_paused = true)]
async fn a_new_small_file_sends_no_message_to_an_ost() {
    let cluster = FakeCluster::new(1).await;
    let file = cluster.create("file").await;
    cluster.write(&file, 0, b"hello").await;
    cluster.read(&file, 0, 100).await;
    cluster.close(file).await;
    check_messages(
        &cluster,
        expect![[r#"
            mds: open_session create write_inline setattr
            ost: "#]],
    );
}

#[tokio::test(start_paused = true)]
async fn a_new_file_of_two_blocks_sends_one_begin_write_and_no_sync() {
    let cluster = FakeCluster::new(1).await;
    let file = cluster.create("file").await;
    cluster.write(&file, 0, &[1; 4096]).await;
    cluster.write(&file, 4096, &[1; 4096]).await;
    cluster.close(file).await;
    check_messages(
        &cluster,
        expect![[r#"
            mds: open_session create begin_write end_write
            ost: write 2.1.0 0+4096, write 2.1.0 4096+4096"#]],
    );
}

#[tokio::test(start_paused = true)]
async fn inline_data_moves_to_objects_data_before_record() {
    let cluster = FakeCluster::new(1).await;
    let file = cluster.create("file").await;
    cluster.write(&file, 0, b"hello").await;
    cluster.client.fsync(&file, false).await.unwrap();
    cluster.write(&file, 5, &[1; 5000]).await;
    check_messages(
        &cluster,
        expect![[r#"
            mds: open_session create write_inline sync begin_write spilled
            ost: write 2.1.0 0+5005, sync [2.1.0]"#]],
    );
}

#[tokio::test(start_paused = true)]
async fn inline_data_that_was_never_synced_moves_without_a_sync() {
    let cluster = FakeCluster::new(1).await;
    let file = cluster.create("file").await;
    cluster.write(&file, 0, b"hello").await;
    cluster.write(&file, 5, &[1; 5000]).await;
    cluster.client.fsync(&file, false).await.unwrap();
    check_messages(
        &cluster,
        expect![[r#"
            mds: open_session create write_inline begin_write spilled end_write sync
            ost: write 2.1.0 0+5005, sync [2.1.0]"#]],
    );
}

#[tokio::test(start_paused = true)]
async fn fsync_syncs_objects_then_reports_then_syncs_the_log_and_repeats_nothing() {
    let cluster = FakeCluster::new(1).await;
    let file = cluster.create("file").await;
    cluster.write(&file, (256 << 10) - 10, &[1; 20]).await;
    cluster.client.fsync(&file, false).await.unwrap();
    cluster.client.fsync(&file, false).await.unwrap();
    check_messages(
        &cluster,
        expect![[r#"
            mds: open_session create begin_write end_write sync
            ost: write 2.1.0 262134+10, write 2.2.0 0+10, sync [2.1.0], sync [2.2.0]"#]],
    );
    cluster.write(&file, 0, b"x").await;
    cluster.client.fsync(&file, true).await.unwrap();
    check_messages(
        &cluster,
        expect![[r#"
            mds: 
            ost: write 2.1.0 0+1, sync [2.1.0]"#]],
    );
}

#[tokio::test(start_paused = true)]
async fn a_closed_unsynced_file_is_synced_by_a_later_fsync_or_syncfs() {
    let cluster = FakeCluster::new(1).await;
    for (number, all) in [(2, false), (3, true)] {
        let file = cluster.create(&format!("f{number}")).await;
        let ino = file.ino();
        cluster.write(&file, 0, &[1; 10_000]).await;
        cluster.close(file).await;
        if all {
            cluster.client.sync_all().await.unwrap();
        } else {
            let file = cluster.open(ino).await;
            cluster.client.fsync(&file, true).await.unwrap();
            cluster.close(file).await;
        }
        let state = cluster.ost.state.lock();
        assert!(state.objects.values().all(|object| object.synced));
        drop(state);
        let state = cluster.mds.state.lock();
        assert_eq!(state.durable, state.seq);
    }
}

#[tokio::test(start_paused = true)]
async fn a_synchronous_write_is_answered_when_it_is_durable() {
    let cluster = FakeCluster::new(1).await;
    let file = cluster.create("file").await;
    let sync = OpenFileFlags {
        sync: true,
        ..flags()
    };
    let synced = cluster
        .client
        .open(&me(), file.ino(), open_mode(), sync)
        .await
        .unwrap()
        .file;
    cluster.write(&synced, 0, &[1; 10_000]).await;
    {
        let state = cluster.mds.state.lock();
        assert_eq!(state.durable, state.seq);
    }
    assert_eq!(cluster.mds.inode(file.ino()).attr.size, 10_000);
    let data = WriteOptions {
        durability: Durability::Data,
        ..WriteOptions::default()
    };
    cluster
        .client
        .write(&file, WritePosition::End, Bytes::from_static(b"x"), data)
        .await
        .unwrap();
    assert!(
        cluster
            .ost
            .state
            .lock()
            .objects
            .values()
            .all(|object| object.synced)
    );
    assert_eq!(
        cluster.mds.inode(file.ino()).attr.size,
        10_000,
        "the object has the size"
    );
}

#[tokio::test(start_paused = true)]
async fn reads_send_no_request_for_objects_known_absent() {
    let cluster = FakeCluster::new(1).await;
    let file = cluster.create("file").await;
    cluster.write(&file, 600_000, b"x").await;
    check_messages(
        &cluster,
        expect![[r#"
            mds: open_session create begin_write
            ost: write 2.2.2 75712+1"#]],
    );
    assert_eq!(cluster.read(&file, 0, 400_000).await.len(), 400_000);
    check_messages(
        &cluster,
        expect![[r#"
            mds: 
            ost: read 2.2.2 0+8192"#]],
    );
}
