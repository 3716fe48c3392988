//! Files whose last name is gone.

use crate::fake::FakeCluster;
use crate::user::{create_mode, flags, me, name};
use gupfs_client::limits::FORGET_DELAY;
use gupfs_proto::FsError;
use gupfs_proto::meta::{AccessMode, RenameMode};

async fn wait() {
    tokio::time::sleep(FORGET_DELAY * 4).await;
}

#[tokio::test(start_paused = true)]
async fn an_unlinked_file_lives_until_closed_and_forgotten() {
    let cluster = FakeCluster::new(1).await;
    let file = cluster.create("file").await;
    let (ino, root) = (file.ino(), cluster.client.root());
    cluster.write(&file, 0, &[1; 10_000]).await;
    let removed = cluster
        .client
        .unlink(&me(), root, &name("file"))
        .await
        .unwrap();
    assert!(removed.is_orphan);
    cluster.write(&file, 5_000, &[2; 10_000]).await;
    assert_eq!(cluster.read(&file, 4_999, 2).await, [1, 2]);
    cluster.client.forget([(ino, 1)]);
    wait().await;
    assert!(cluster.mds.exists(ino), "it is open");
    cluster.close(file).await;
    wait().await;
    assert!(!cluster.mds.exists(ino));
    assert!(cluster.ost.state.lock().objects.is_empty());
    assert_eq!(cluster.client.status().known_inodes, 0);
}

#[tokio::test(start_paused = true)]
async fn a_file_renamed_over_goes_when_the_kernel_forgets_it() {
    let cluster = FakeCluster::new(2).await;
    let (old, new) = (cluster.create("old").await, cluster.create("new").await);
    let (victim, root) = (old.ino(), cluster.client.root());
    cluster.close(old).await;
    cluster.write(&new, 0, &[3; 9_000]).await;
    let removed = cluster
        .client
        .rename(
            &me(),
            (root, &name("new")),
            (root, &name("old")),
            RenameMode::Replace,
        )
        .await
        .unwrap();
    assert_eq!(removed.victim, Some(victim));
    assert_eq!(
        removed.attr.unwrap().size,
        9_000,
        "this client has the renamed file's write lease: its size is authoritative"
    );
    wait().await;
    assert!(cluster.mds.exists(victim));
    cluster.client.forget([(victim, 1)]);
    wait().await;
    assert!(!cluster.mds.exists(victim));
}

#[tokio::test(start_paused = true)]
async fn a_tmpfile_that_is_not_linked_is_removed() {
    let cluster = FakeCluster::new(3).await;
    let (client, root) = (&cluster.client, cluster.client.root());
    let access = AccessMode::READ | AccessMode::WRITE;
    for named in [true, false] {
        let opened = client
            .tmpfile(&me(), root, create_mode(), access, flags())
            .await
            .unwrap();
        let ino = opened.attr.ino;
        cluster.write(&opened.file, 0, b"bytes").await;
        let mut given = 1;
        if named {
            let attr = client.link(&me(), ino, root, &name("named")).await.unwrap();
            assert_eq!(attr.size, 5);
            given = 2;
        }
        cluster.close(opened.file).await;
        client.forget([(ino, given)]);
        wait().await;
        assert_eq!(cluster.mds.exists(ino), named);
    }
}

#[tokio::test(start_paused = true)]
async fn forgotten_files_go_in_batches_and_none_is_lost_to_an_error() {
    let cluster = FakeCluster::new(4).await;
    let root = cluster.client.root();
    let mut inodes = Vec::new();
    for number in 0..100 {
        let text = format!("f{number}");
        let file = cluster.create(&text).await;
        inodes.push(file.ino());
        cluster.close(file).await;
        cluster
            .client
            .unlink(&me(), root, &name(&text))
            .await
            .unwrap();
    }
    cluster
        .mds
        .state
        .lock()
        .errors
        .push(("forgotten", FsError::Overloaded));
    cluster.client.forget(inodes.iter().map(|ino| (*ino, 1)));
    wait().await;
    assert!(cluster.mds.exists(inodes[0]));
    cluster.client.forget([]);
    wait().await;
    assert!(inodes.iter().all(|ino| !cluster.mds.exists(*ino)));
    let asked = cluster
        .mds
        .state
        .lock()
        .journal
        .iter()
        .filter(|name| **name == "forgotten")
        .count();
    assert_eq!(asked, 2);
}

#[tokio::test(start_paused = true)]
async fn stop_closes_reports_and_forgets_everything() {
    let cluster = FakeCluster::new(5).await;
    let (kept, gone) = (cluster.create("kept").await, cluster.create("gone").await);
    cluster.write(&kept, 0, &[1; 10_000]).await;
    cluster.write(&gone, 0, &[1; 10_000]).await;
    cluster
        .client
        .unlink(&me(), cluster.client.root(), &name("gone"))
        .await
        .unwrap();
    cluster.client.stop().await.unwrap();
    let inode = cluster.mds.inode(kept.ino());
    assert_eq!((inode.attr.size, inode.writers.len()), (10_000, 0));
    assert!(!cluster.mds.exists(gone.ino()));
    let state = cluster.mds.state.lock();
    assert_eq!(state.journal.last(), Some(&"close_session"));
    assert!(
        cluster
            .ost
            .state
            .lock()
            .objects
            .values()
            .all(|object| object.synced)
    );
}
