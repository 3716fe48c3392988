//! What is said to whom, and in which order.

use crate::fake::Site;
use crate::user::{flags, how, me};
use bytes::Bytes;
use expect_test::{Expect, expect};
use gupfs_client::{Durability, OpenFlags, WriteHow};
use gupfs_proto::meta::WriteAt;

/// The servers' journals since they were last looked at: metadata first.
fn check_words(site: &Site, expected: Expect) {
    let asked: Vec<&str> = std::mem::take(&mut site.mds.state.lock().journal);
    let done: Vec<String> = std::mem::take(&mut site.ost.state.lock().journal);
    expected.assert_eq(&format!(
        "mds: {}\nost: {}",
        asked.join(" "),
        done.join(", ")
    ));
}

#[tokio::test(start_paused = true)]
async fn a_new_small_file_costs_no_word_to_a_target() {
    let site = Site::new(1).await;
    let file = site.create("file").await;
    site.write(&file, 0, b"hello").await;
    site.read(&file, 0, 100).await;
    site.close(file).await;
    check_words(
        &site,
        expect![[r#"
            mds: open_session create write_inline setattr
            ost: "#]],
    );
}

#[tokio::test(start_paused = true)]
async fn a_new_file_of_two_blocks_is_begun_once_and_never_synced_unasked() {
    let site = Site::new(1).await;
    let file = site.create("file").await;
    site.write(&file, 0, &[1; 4096]).await;
    site.write(&file, 4096, &[1; 4096]).await;
    site.close(file).await;
    check_words(
        &site,
        expect![[r#"
            mds: open_session create begin_write end_write
            ost: write 2.1.0 0+4096, write 2.1.0 4096+4096"#]],
    );
}

#[tokio::test(start_paused = true)]
async fn bytes_leave_the_inode_data_before_record() {
    let site = Site::new(1).await;
    let file = site.create("file").await;
    site.write(&file, 0, b"hello").await;
    site.client.fsync(&file, false).await.unwrap();
    site.write(&file, 5, &[1; 5000]).await;
    check_words(
        &site,
        expect![[r#"
            mds: open_session create write_inline sync begin_write spilled
            ost: write 2.1.0 0+5005, sync [2.1.0]"#]],
    );
}

#[tokio::test(start_paused = true)]
async fn bytes_that_nobody_asked_to_be_durable_leave_the_inode_without_a_sync() {
    let site = Site::new(1).await;
    let file = site.create("file").await;
    site.write(&file, 0, b"hello").await;
    site.write(&file, 5, &[1; 5000]).await;
    site.client.fsync(&file, false).await.unwrap();
    check_words(
        &site,
        expect![[r#"
            mds: open_session create write_inline begin_write spilled end_write sync
            ost: write 2.1.0 0+5005, sync [2.1.0]"#]],
    );
}

#[tokio::test(start_paused = true)]
async fn fsync_syncs_objects_then_tells_then_syncs_the_log_and_does_nothing_twice() {
    let site = Site::new(1).await;
    let file = site.create("file").await;
    site.write(&file, (256 << 10) - 10, &[1; 20]).await;
    site.client.fsync(&file, false).await.unwrap();
    site.client.fsync(&file, false).await.unwrap();
    check_words(
        &site,
        expect![[r#"
            mds: open_session create begin_write end_write sync
            ost: write 2.1.0 262134+10, write 2.2.0 0+10, sync [2.1.0], sync [2.2.0]"#]],
    );
    site.write(&file, 0, b"x").await;
    site.client.fsync(&file, true).await.unwrap();
    check_words(
        &site,
        expect![[r#"
            mds: 
            ost: write 2.1.0 0+1, sync [2.1.0]"#]],
    );
}

#[tokio::test(start_paused = true)]
async fn a_file_written_and_closed_is_synced_by_whoever_opens_it_or_syncs_all() {
    let site = Site::new(1).await;
    for (number, all) in [(2, false), (3, true)] {
        let file = site.create(&format!("f{number}")).await;
        let ino = file.ino();
        site.write(&file, 0, &[1; 10_000]).await;
        site.close(file).await;
        if all {
            site.client.sync_all().await.unwrap();
        } else {
            let file = site.open(ino).await;
            site.client.fsync(&file, true).await.unwrap();
            site.close(file).await;
        }
        let state = site.ost.state.lock();
        assert!(state.objects.values().all(|object| object.synced));
        drop(state);
        let state = site.mds.state.lock();
        assert_eq!(state.durable, state.seq);
    }
}

#[tokio::test(start_paused = true)]
async fn a_synchronous_write_is_answered_when_it_is_durable() {
    let site = Site::new(1).await;
    let file = site.create("file").await;
    let sync = OpenFlags {
        sync: true,
        ..flags()
    };
    let synced = site
        .client
        .open(&me(), file.ino(), how(), sync)
        .await
        .unwrap()
        .file;
    site.write(&synced, 0, &[1; 10_000]).await;
    {
        let state = site.mds.state.lock();
        assert_eq!(state.durable, state.seq);
    }
    assert_eq!(site.mds.inode(file.ino()).attr.size, 10_000);
    let data = WriteHow {
        durability: Durability::Data,
        ..WriteHow::default()
    };
    site.client
        .write(&file, WriteAt::End, Bytes::from_static(b"x"), data)
        .await
        .unwrap();
    assert!(
        site.ost
            .state
            .lock()
            .objects
            .values()
            .all(|object| object.synced)
    );
    assert_eq!(
        site.mds.inode(file.ino()).attr.size,
        10_000,
        "the object knows"
    );
}

#[tokio::test(start_paused = true)]
async fn what_reads_find_absent_is_not_asked_for() {
    let site = Site::new(1).await;
    let file = site.create("file").await;
    site.write(&file, 600_000, b"x").await;
    check_words(
        &site,
        expect![[r#"
            mds: open_session create begin_write
            ost: write 2.2.2 75712+1"#]],
    );
    assert_eq!(site.read(&file, 0, 400_000).await.len(), 400_000);
    check_words(
        &site,
        expect![[r#"
            mds: 
            ost: read 2.2.2 0+8192"#]],
    );
}
