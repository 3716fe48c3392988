//! Listing and changing directories.

use crate::fixture::{Fixture, make};
use gupfs_files::FollowLinks;
use gupfs_proto::meta::RenameMode;
use gupfs_proto::{FileKind, FsError};
use std::collections::BTreeSet;

#[tokio::test(start_paused = true)]
async fn a_long_listing_has_each_name_once_with_its_attributes() {
    let fixture = Fixture::new().await;
    let root = &fixture.root;
    root.make_directory(b"/d", 0o777).await.unwrap();
    let mut names = BTreeSet::new();
    for file in 0..2_500 {
        let name = format!("f{file}");
        let path = format!("/d/{name}");
        make(root, &path, "bytes").await.close().await.unwrap();
        names.insert(name.into_bytes());
    }
    let listed = root.list(b"/d/", true).await.unwrap();
    assert_eq!(listed.len(), names.len());
    let found: BTreeSet<Vec<u8>> = listed
        .iter()
        .map(|entry| entry.name.as_bytes().to_vec())
        .collect();
    assert_eq!(found, names);
    for entry in listed {
        let attr = entry.attr.unwrap();
        assert_eq!((attr.kind, attr.size), (FileKind::Regular, 5));
    }
    let plain = root.list(b"/d", false).await.unwrap();
    assert!(plain.iter().all(|entry| entry.attr.is_none()));
    assert_eq!(root.list(b"/d/f1", false).await, Err(FsError::NotDirectory));
}

#[tokio::test(start_paused = true)]
async fn names_that_are_no_names_have_the_errors_of_linux() {
    let fixture = Fixture::new().await;
    let root = &fixture.root;
    root.make_directory(b"/d/", 0o777).await.unwrap();
    let made = |path: &'static str| {
        let made = root.make_directory(path.as_bytes(), 0o777);
        async { made.await.map(drop) }
    };
    assert_eq!(made("/d").await, Err(FsError::Exists));
    assert_eq!(made("/").await, Err(FsError::Exists));
    assert_eq!(made("/d/.").await, Err(FsError::Exists));
    assert_eq!(made("/none/d").await, Err(FsError::NotFound));
    assert_eq!(root.remove_directory(b"/").await, Err(FsError::Busy));
    assert_eq!(root.remove_directory(b"/d/.").await, Err(FsError::Invalid));
    let removed = root.remove_directory(b"/d/..").await;
    assert_eq!(removed, Err(FsError::NotEmpty));
    assert_eq!(root.remove_file(b"/d").await, Err(FsError::IsDirectory));
    let renamed = root.rename(b"/d/.", b"/e", RenameMode::Replace).await;
    assert_eq!(renamed, Err(FsError::Busy));
    root.rename(b"/d/", b"/e/", RenameMode::Replace)
        .await
        .unwrap();
    root.remove_directory(b"/e/").await.unwrap();
    let not_utf8 = b"/\xff\xfe";
    root.make_directory(not_utf8, 0o777).await.unwrap();
    root.stat(not_utf8, FollowLinks::No).await.unwrap();
}
