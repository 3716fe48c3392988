//! Times and privileges of files that are held.

use crate::fake::{Shape, Site};
use crate::user::{flags, how, me};
use bytes::Bytes;
use gupfs_client::{AtimeRule, Options, ReadHow, WriteHow};
use gupfs_proto::meta::{Access, OpenHow, SetAttr, SetTime, WriteAt};
use gupfs_proto::{Mode, Timestamp};
use std::sync::Arc;
use std::time::Duration;

async fn pass(site: &Site) {
    site.platform.clock.advance(Duration::from_secs(10));
}

#[tokio::test(start_paused = true)]
async fn a_write_moves_mtime_and_ctime_at_once_and_the_server_hears_it_at_the_close() {
    let site = Site::new(1).await;
    let file = site.create("file").await;
    let ino = file.ino();
    let before = site.attr(ino).await;
    pass(&site).await;
    site.write(&file, 0, &[1; 10_000]).await;
    let held = site.attr(ino).await;
    assert!(held.mtime > before.mtime && held.ctime == held.mtime && held.change > before.change);
    assert_eq!(site.mds.inode(ino).attr.size, 0, "not told yet");
    site.close(file).await;
    let told = site.mds.inode(ino).attr;
    assert_eq!(
        (told.mtime, told.ctime, told.size),
        (held.mtime, held.ctime, 10_000)
    );
    assert_eq!(site.attr(ino).await.mtime, held.mtime);
}

#[tokio::test(start_paused = true)]
async fn a_write_while_an_older_word_is_under_way_is_told_too() {
    let site = Arc::new(Site::new(6).await);
    let file = site.create("file").await;
    let ino = file.ino();
    site.write(&file, 0, &[1; 10_000]).await;
    pass(&site).await;
    site.mds.state.lock().held_back.push("end_write");
    let syncing = {
        let (site, file) = (site.clone(), file.clone());
        tokio::spawn(async move { site.client.fsync(&file, false).await })
    };
    tokio::time::sleep(Duration::from_millis(1)).await;
    pass(&site).await;
    site.write(&file, 10_000, &[2; 10_000]).await;
    let written = site.attr(ino).await;
    site.mds.let_go.notify_one();
    syncing.await.unwrap().unwrap();
    assert_eq!(site.attr(ino).await.mtime, written.mtime);
    site.close(file).await;
    let told = site.mds.inode(ino).attr;
    assert_eq!((told.mtime, told.size), (written.mtime, 20_000));
}

#[tokio::test(start_paused = true)]
async fn a_time_that_was_set_is_not_overwritten_by_an_older_write() {
    let site = Site::new(2).await;
    let file = site.create("file").await;
    let ino = file.ino();
    site.write(&file, 0, &[1; 10_000]).await;
    let then = Timestamp::new(1_000_000_000, 5);
    let set = SetAttr {
        mtime: Some(SetTime::To(then)),
        atime: Some(SetTime::To(then)),
        ..SetAttr::default()
    };
    let attr = site.client.setattr(&me(), ino, set).await.unwrap();
    assert_eq!((attr.mtime, attr.atime, attr.size), (then, then, 10_000));
    assert_eq!(site.attr(ino).await.mtime, then);
    site.close(file).await;
    assert_eq!(site.mds.inode(ino).attr.mtime, then);
}

#[tokio::test(start_paused = true)]
async fn reading_moves_atime_as_the_rule_says_and_no_other_time() {
    for (rule, moves) in [
        (AtimeRule::Relative, [true, false, true]),
        (AtimeRule::Always, [true, true, true]),
        (AtimeRule::Never, [false, false, false]),
    ] {
        let options = Options {
            atime: rule,
            ..Options::default()
        };
        let site = Site::shaped(3, Shape::Small, options).await;
        let file = site.create("file").await;
        let ino = file.ino();
        site.write(&file, 0, b"bytes").await;
        site.close(file).await;
        let access = OpenHow {
            access: Access::READ,
            ..how()
        };
        for (round, moves) in moves.into_iter().enumerate() {
            // The third is a day later.
            site.platform
                .clock
                .advance(Duration::from_secs(10 + (round as u64 / 2) * 100_000));
            let before = site.attr(ino).await;
            let file = site
                .client
                .open(&me(), ino, access, flags())
                .await
                .unwrap()
                .file;
            site.read(&file, 0, 3).await;
            let after = site.attr(ino).await;
            assert_eq!(after.atime > before.atime, moves, "{rule:?}, round {round}");
            site.close(file).await;
            let told = site.mds.inode(ino).attr;
            assert_eq!(
                (told.atime, told.mtime, told.ctime),
                (after.atime, before.mtime, before.ctime)
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_read_that_leaves_the_access_time_leaves_it() {
    let site = Site::new(5).await;
    let file = site.create("file").await;
    site.write(&file, 0, b"bytes").await;
    site.platform.clock.advance(Duration::from_secs(10));
    let before = site.attr(file.ino()).await.atime;
    let how = ReadHow { leaves_atime: true };
    site.client.read(&file, 0, 5, how).await.unwrap();
    assert_eq!(site.attr(file.ino()).await.atime, before);
    site.client
        .read(&file, 0, 5, ReadHow::default())
        .await
        .unwrap();
    assert!(site.attr(file.ino()).await.atime > before);
}

#[tokio::test(start_paused = true)]
async fn privileges_go_with_the_first_unprivileged_write_and_are_asked_about_once() {
    let site = Site::new(4).await;
    let file = site.create("file").await;
    let ino = file.ino();
    site.write(&file, 0, &[1; 10_000]).await;
    let kill = WriteHow {
        kill_privileges: true,
        ..WriteHow::default()
    };
    for _ in 0..2 {
        let set = SetAttr {
            mode: Some(0o6755),
            ..SetAttr::default()
        };
        let attr = site.client.setattr(&me(), ino, set).await.unwrap();
        assert!(attr.mode.has(Mode::SETUID));
        let asked = site.mds.state.lock().journal.len();
        for at in 0..3 {
            let data = Bytes::from_static(b"bytes");
            site.client
                .write(&file, WriteAt::Offset(at), data, kill)
                .await
                .unwrap();
        }
        assert_eq!(site.mds.state.lock().journal.len(), asked + 1);
        assert_eq!(site.attr(ino).await.mode, Mode(0o755));
    }
}

#[tokio::test(start_paused = true)]
async fn listing_a_directory_moves_its_atime_once_until_it_changes() {
    let site = Site::new(5).await;
    let root = site.client.root();
    for _ in 0..2 {
        pass(&site).await;
        let before = site.attr(root).await;
        site.client
            .readdir(&me(), root, 0, 10, false)
            .await
            .unwrap();
        let listed = site.attr(root).await;
        assert!(listed.atime > before.atime);
        assert_eq!((listed.mtime, listed.ctime), (before.mtime, before.ctime));
        pass(&site).await;
        site.client
            .readdir(&me(), root, 0, 10, false)
            .await
            .unwrap();
        assert_eq!(site.attr(root).await.atime, listed.atime);
        pass(&site).await;
        let touched = SetAttr {
            mtime: Some(SetTime::Now),
            ..SetAttr::default()
        };
        site.client.setattr(&me(), root, touched).await.unwrap();
    }
}

/// No object has that time, so only the server can keep it should the client end.
#[tokio::test(start_paused = true)]
async fn the_time_of_a_hole_punched_where_there_was_one_is_told_at_once() {
    let site = Site::new(9).await;
    let file = site.create("file").await;
    site.write(&file, 0, &[1; 10_000]).await;
    let ino = file.ino();
    site.client
        .truncate(&me(), ino, 1 << 20, true, false)
        .await
        .unwrap();
    let before = site.attr(ino).await.mtime;
    pass(&site).await;
    let how = gupfs_client::AllocateHow::Punch;
    let punched = site.client.allocate(&file, how, 500_000, 100_000, false);
    punched.await.unwrap();
    let told = site.mds.inode(ino).attr.mtime;
    assert_eq!(told, site.attr(ino).await.mtime);
    assert!(told > before, "{told:?}, {before:?}");
}
