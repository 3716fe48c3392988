//! Each lookup is given back: when a call ends, when it fails half-way, and when its caller drops it.

use crate::fixture::{Fixture, make};
use gupfs_files::{FileRange, FollowLinks, OpenRequest};
use gupfs_proto::FsError;
use gupfs_proto::meta::{AccessMode, RenameMode};
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

#[tokio::test(start_paused = true)]
async fn no_call_keeps_a_lookup() {
    let fixture = Fixture::new().await;
    let root = &fixture.root;
    root.make_directory(b"/a", 0o777).await.unwrap();
    root.make_directory(b"/a/b", 0o777).await.unwrap();
    make(root, "/a/b/f", "bytes").await.close().await.unwrap();
    root.symlink(b"b/../b/f", b"/a/l").await.unwrap();
    root.link(b"/a/b/f", b"/a/b/g").await.unwrap();
    root.rename(b"/a/b/g", b"/a/h", RenameMode::Replace)
        .await
        .unwrap();
    root.stat(b"/a/l", FollowLinks::Yes).await.unwrap();
    root.stat(b"/a/./b/../l", FollowLinks::No).await.unwrap();
    root.read_link(b"/a/l").await.unwrap();
    root.access(b"/a/h", AccessMode::READ).await.unwrap();
    root.set_mode(b"/a/l", 0o600, FollowLinks::Yes)
        .await
        .unwrap();
    root.truncate(b"/a/h", 3).await.unwrap();
    assert_eq!(root.list(b"/a", true).await.unwrap().len(), 3);
    root.copy_file(b"/a/h", b"/a/copy", 0o666).await.unwrap();
    let range = |path: &[u8]| FileRange {
        path: path.to_vec(),
        offset: 1,
        len: 9,
    };
    let read = root.read_ranges(vec![range(b"/a/h"), range(b"/a/l"), range(b"/none")]);
    let read = read.await.unwrap();
    assert_eq!(read[0].as_ref().unwrap().concat(), b"yt");
    assert_eq!(read[2], Err(FsError::NotFound));
    // These fail at their last step.
    for result in [
        root.make_directory(b"/a/b", 0o777).await.map(|_| ()),
        root.symlink(b"x", b"/a/b/").await,
        root.link(b"/a/h", b"/a/b").await,
        root.remove_file(b"/a/h/").await,
        root.remove_directory(b"/a/h").await,
        root.rename(b"/a/h", b"/a/b", RenameMode::Replace).await,
        root.open(b"/a/b", OpenRequest::create(0o666))
            .await
            .map(drop),
        root.open(b"/a/h/x", OpenRequest::read()).await.map(drop),
        root.stat(b"/a/h/", FollowLinks::Yes).await.map(drop),
    ] {
        result.unwrap_err();
    }
    root.remove_file(b"/a/copy").await.unwrap();
    tokio::task::yield_now().await;
    assert_eq!(fixture.known_inodes(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_open_file_holds_one_lookup_until_it_is_dropped() {
    let fixture = Fixture::new().await;
    let file = make(&fixture.root, "/f", "bytes").await;
    assert_eq!(fixture.known_inodes(), 1);
    fixture.root.remove_file(b"/f").await.unwrap();
    assert_eq!(crate::fixture::read(&file).await, "bytes");
    drop(file);
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    let status = fixture.files.client().status();
    assert_eq!((status.known_inodes, status.open_files), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_its_caller_drops_runs_to_its_end() {
    let fixture = Fixture::new().await;
    let root = &fixture.root;
    root.make_directory(b"/a", 0o777).await.unwrap();
    for polls in 1..12 {
        let name = format!("/a/../a/d{polls}");
        {
            let mut call = pin!(root.make_directory(name.as_bytes(), 0o777));
            for _ in 0..polls {
                let polled = poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx))).await;
                if polled.is_ready() {
                    break;
                }
                tokio::task::yield_now().await;
            }
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        root.stat(name.as_bytes(), FollowLinks::No).await.unwrap();
        assert_eq!(fixture.known_inodes(), 0, "after {polls} polls");
    }
    // One that was never polled has not begun.
    drop(root.make_directory(b"/a/never", 0o777));
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    let there = root.stat(b"/a/never", FollowLinks::No).await;
    assert_eq!(there, Err(FsError::NotFound));
}
