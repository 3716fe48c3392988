//! Bytes of open files.

use crate::fixture::{Fixture, make, read};
use bytes::Bytes;
use gupfs_files::limits::PIECE;
use gupfs_files::{FollowLinks, OpenRequest};
use gupfs_proto::FsError;

#[tokio::test(start_paused = true)]
async fn a_write_longer_than_a_piece_is_read_again() {
    let fixture = Fixture::new().await;
    let root = &fixture.root;
    let file = root.open(b"/f", OpenRequest::create(0o666)).await.unwrap();
    let len = 2 * PIECE as usize + 4321;
    let bytes: Bytes = (0..len).map(|at| (at / 1000) as u8).collect();
    assert_eq!(file.write_at(77, bytes.clone()).await, Ok(len as u64));
    let mut found = Vec::new();
    loop {
        let at = 77 + found.len() as u64;
        let piece = file.read_at(at, u64::MAX - at).await.unwrap().concat();
        if piece.is_empty() {
            break;
        }
        assert!(piece.len() as u64 <= PIECE);
        found.extend(piece);
    }
    assert!(found == bytes);
    file.truncate(80).await.unwrap();
    assert_eq!(file.attr().await.unwrap().size, 80);
    file.sync(false).await.unwrap();
    file.close().await.unwrap();
    file.close().await.unwrap();
    assert_eq!(file.read_at(0, 1).await.map(drop), Err(FsError::Stale));
}

#[tokio::test(start_paused = true)]
async fn appends_go_to_the_end_and_truncating_opens_empty_the_file() {
    let fixture = Fixture::new().await;
    let root = &fixture.root;
    make(root, "/f", "one").await.close().await.unwrap();
    let append = OpenRequest {
        append: true,
        ..OpenRequest::create(0o666)
    };
    let file = root.open(b"/f", append).await.unwrap();
    assert_eq!(file.write_at(0, " two".into()).await, Ok(4));
    assert_eq!(read(&file).await, "one two");
    let empty = OpenRequest {
        truncate: true,
        ..OpenRequest::create(0o666)
    };
    root.open(b"/f", empty)
        .await
        .unwrap()
        .close()
        .await
        .unwrap();
    let attr = root.stat(b"/f", FollowLinks::Yes).await.unwrap();
    assert_eq!(attr.size, 0);
    let only_truncate = OpenRequest {
        truncate: true,
        ..OpenRequest::read()
    };
    let refused = root.open(b"/f", only_truncate).await.map(drop);
    assert_eq!(refused, Err(FsError::Invalid));
}
