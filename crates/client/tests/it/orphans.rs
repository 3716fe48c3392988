//! Files whose last name is gone.

use crate::fake::Site;
use crate::user::{flags, make, me, name};
use gupfs_client::limits::FORGET_DELAY;
use gupfs_proto::Refusal;
use gupfs_proto::meta::{Access, RenameHow};

async fn wait() {
    tokio::time::sleep(FORGET_DELAY * 4).await;
}

#[tokio::test(start_paused = true)]
async fn an_unlinked_file_lives_until_closed_and_forgotten() {
    let site = Site::new(1).await;
    let file = site.create("file").await;
    let (ino, root) = (file.ino(), site.client.root());
    site.write(&file, 0, &[1; 10_000]).await;
    let removed = site
        .client
        .unlink(&me(), root, &name("file"))
        .await
        .unwrap();
    assert!(removed.orphan);
    site.write(&file, 5_000, &[2; 10_000]).await;
    assert_eq!(site.read(&file, 4_999, 2).await, [1, 2]);
    site.client.forget([(ino, 1)]);
    wait().await;
    assert!(site.mds.exists(ino), "it is open");
    site.close(file).await;
    wait().await;
    assert!(!site.mds.exists(ino));
    assert!(site.ost.state.lock().objects.is_empty());
    assert_eq!(site.client.status().known_inodes, 0);
}

#[tokio::test(start_paused = true)]
async fn a_file_renamed_over_goes_when_the_kernel_forgets_it() {
    let site = Site::new(2).await;
    let (old, new) = (site.create("old").await, site.create("new").await);
    let (victim, root) = (old.ino(), site.client.root());
    site.close(old).await;
    site.write(&new, 0, &[3; 9_000]).await;
    let removed = site
        .client
        .rename(
            &me(),
            (root, &name("new")),
            (root, &name("old")),
            RenameHow::Replace,
        )
        .await
        .unwrap();
    assert_eq!(removed.victim, Some(victim));
    assert_eq!(
        removed.attr.unwrap().size,
        9_000,
        "the moved file is held: its size is ours"
    );
    wait().await;
    assert!(site.mds.exists(victim));
    site.client.forget([(victim, 1)]);
    wait().await;
    assert!(!site.mds.exists(victim));
}

#[tokio::test(start_paused = true)]
async fn a_file_without_a_name_can_get_one_and_else_goes() {
    let site = Site::new(3).await;
    let (client, root) = (&site.client, site.client.root());
    let access = Access::READ | Access::WRITE;
    for named in [true, false] {
        let opened = client
            .tmpfile(&me(), root, make(), access, flags())
            .await
            .unwrap();
        let ino = opened.attr.ino;
        site.write(&opened.file, 0, b"bytes").await;
        let mut given = 1;
        if named {
            let attr = client.link(&me(), ino, root, &name("named")).await.unwrap();
            assert_eq!(attr.size, 5);
            given = 2;
        }
        site.close(opened.file).await;
        client.forget([(ino, given)]);
        wait().await;
        assert_eq!(site.mds.exists(ino), named);
    }
}

#[tokio::test(start_paused = true)]
async fn forgotten_files_go_in_batches_and_none_is_lost_to_an_error() {
    let site = Site::new(4).await;
    let root = site.client.root();
    let mut inodes = Vec::new();
    for number in 0..100 {
        let text = format!("f{number}");
        let file = site.create(&text).await;
        inodes.push(file.ino());
        site.close(file).await;
        site.client.unlink(&me(), root, &name(&text)).await.unwrap();
    }
    site.mds
        .state
        .lock()
        .refused
        .push(("forgotten", Refusal::Overloaded));
    site.client.forget(inodes.iter().map(|ino| (*ino, 1)));
    wait().await;
    assert!(site.mds.exists(inodes[0]));
    site.client.forget([]);
    wait().await;
    assert!(inodes.iter().all(|ino| !site.mds.exists(*ino)));
    let asked = site
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
async fn at_the_stop_everything_is_closed_told_and_given_up() {
    let site = Site::new(5).await;
    let (kept, gone) = (site.create("kept").await, site.create("gone").await);
    site.write(&kept, 0, &[1; 10_000]).await;
    site.write(&gone, 0, &[1; 10_000]).await;
    site.client
        .unlink(&me(), site.client.root(), &name("gone"))
        .await
        .unwrap();
    site.client.stop().await.unwrap();
    let inode = site.mds.inode(kept.ino());
    assert_eq!((inode.attr.size, inode.writers.len()), (10_000, 0));
    assert!(!site.mds.exists(gone.ino()));
    let state = site.mds.state.lock();
    assert_eq!(state.journal.last(), Some(&"close_session"));
    assert!(
        site.ost
            .state
            .lock()
            .objects
            .values()
            .all(|object| object.synced)
    );
}
