//! Paths and symbolic links, as path_resolution(7) describes them.

use crate::fixture::{Fixture, make, read};
use gupfs_files::{FollowLinks, OpenRequest};
use gupfs_proto::FsError;

#[tokio::test(start_paused = true)]
async fn a_path_is_resolved_as_linux_does() {
    let fixture = Fixture::new().await;
    let root = &fixture.root;
    root.make_directory(b"/d", 0o777).await.unwrap();
    make(root, "/d/f", "x").await.close().await.unwrap();
    root.symlink(b"f", b"/d/to_file").await.unwrap();
    root.symlink(b"/d", b"/to_dir").await.unwrap();
    root.symlink(b"none", b"/dangling").await.unwrap();
    root.symlink(b"loop", b"/loop").await.unwrap();
    root.symlink(b"/d/f/", b"/with_slash").await.unwrap();
    let stat = async |path: &str, follow| {
        let attr = root.stat(path.as_bytes(), follow).await;
        attr.map(|attr| attr.ino)
    };
    let file = stat("/d/f", FollowLinks::Yes).await.unwrap();
    let dir = stat("/d", FollowLinks::Yes).await.unwrap();
    let top = fixture.files.client().root();
    for (path, expected) in [
        ("d/f", Ok(file)),
        ("//d///f", Ok(file)),
        ("/d/./../d/f", Ok(file)),
        ("/../../d/f", Ok(file)),
        ("/d/to_file", Ok(file)),
        ("/to_dir/to_file", Ok(file)),
        ("/to_dir/", Ok(dir)),
        ("/to_dir/.", Ok(dir)),
        ("/d/..", Ok(top)),
        ("/", Ok(top)),
        ("", Err(FsError::NotFound)),
        ("/d/f/", Err(FsError::NotDirectory)),
        ("/d/f/.", Err(FsError::NotDirectory)),
        ("/d/f/..", Err(FsError::NotDirectory)),
        ("/d/to_file/", Err(FsError::NotDirectory)),
        ("/with_slash", Err(FsError::NotDirectory)),
        ("/dangling", Err(FsError::NotFound)),
        ("/loop", Err(FsError::Loop)),
        ("/loop/x", Err(FsError::Loop)),
        ("/none/..", Err(FsError::NotFound)),
    ] {
        assert_eq!(stat(path, FollowLinks::Yes).await, expected, "{path}");
    }
    assert_ne!(stat("/d/to_file", FollowLinks::No).await, Ok(file));
    assert_eq!(stat("/to_dir/", FollowLinks::No).await, Ok(dir));
    let long = format!("/none/{}", "x".repeat(256));
    let found = stat(&long, FollowLinks::Yes).await;
    assert_eq!(found, Err(FsError::NotFound));
    let found = stat(&long[5..], FollowLinks::Yes).await;
    assert_eq!(found, Err(FsError::NameTooLong));
    let found = stat(&"/d/..".repeat(1000), FollowLinks::Yes).await;
    assert_eq!(found, Err(FsError::NameTooLong));
}

#[tokio::test(start_paused = true)]
async fn forty_links_are_followed_and_one_more_is_not() {
    let fixture = Fixture::new().await;
    let root = &fixture.root;
    make(root, "/0", "end").await.close().await.unwrap();
    for link in 1..=41 {
        let target = format!("{}", link - 1);
        let path = format!("/{link}");
        root.symlink(target.as_bytes(), path.as_bytes())
            .await
            .unwrap();
    }
    root.stat(b"/40", FollowLinks::Yes).await.unwrap();
    let found = root.stat(b"/41", FollowLinks::Yes).await;
    assert_eq!(found, Err(FsError::Loop));
}

#[tokio::test(start_paused = true)]
async fn creating_through_a_dangling_link_creates_its_target() {
    let fixture = Fixture::new().await;
    let root = &fixture.root;
    root.make_directory(b"/d", 0o777).await.unwrap();
    root.symlink(b"d/new", b"/l").await.unwrap();
    let exclusive = OpenRequest {
        exclusive: true,
        ..OpenRequest::create(0o666)
    };
    let refused = root.open(b"/l", exclusive).await.map(drop);
    assert_eq!(refused, Err(FsError::Exists));
    let no_follow = OpenRequest {
        no_follow: true,
        ..OpenRequest::create(0o666)
    };
    let refused = root.open(b"/l", no_follow).await.map(drop);
    assert_eq!(refused, Err(FsError::Loop));
    make(root, "/l", "through").await.close().await.unwrap();
    let file = root.open(b"/d/new", OpenRequest::read()).await.unwrap();
    assert_eq!(read(&file).await, "through");
    let slash = root.open(b"/d/other/", OpenRequest::create(0o666)).await;
    assert_eq!(slash.map(drop), Err(FsError::IsDirectory));
}
