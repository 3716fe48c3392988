//! A caller may do what POSIX permits, and what the host's rules leave of it. (`gupfs`'s test `cluster library` compares with a mount.)

use crate::fixture::{Fixture, USER, make};
use gupfs_files::{FollowLinks, OpenRequest};
use gupfs_proto::meta::RenameMode;
use gupfs_proto::{Caller, FsError};

#[tokio::test(start_paused = true)]
async fn each_directory_of_a_path_needs_search_permission() {
    let fixture = Fixture::new().await;
    let (root, user) = (&fixture.root, &fixture.user);
    root.make_directory(b"/closed", 0o700).await.unwrap();
    root.make_directory(b"/closed/open", 0o777).await.unwrap();
    root.set_mode(b"/closed/open", 0o777, FollowLinks::No)
        .await
        .unwrap();
    make(root, "/closed/open/f", "x")
        .await
        .close()
        .await
        .unwrap();
    root.symlink(b"/closed/open/f", b"/l").await.unwrap();
    let denied = Err(FsError::Denied);
    for path in [
        "/closed/open/f",
        "/l",
        "/closed/.",
        "/closed/..",
        "/closed/x",
    ] {
        let found = user.stat(path.as_bytes(), FollowLinks::Yes).await;
        assert_eq!(found.map(drop), denied, "{path}");
    }
    user.stat(b"/closed", FollowLinks::Yes).await.unwrap();
    assert_eq!(user.list(b"/closed", true).await.map(drop), denied);
    let opened = user.open(b"/closed/open/f", OpenRequest::read()).await;
    assert_eq!(opened.map(drop), denied);
    assert_eq!(user.remove_file(b"/closed/open/f").await, denied);
}

#[tokio::test(start_paused = true)]
async fn opening_needs_the_right_and_the_open_file_keeps_it() {
    let fixture = Fixture::new().await;
    let (root, user) = (&fixture.root, &fixture.user);
    root.set_mode(b"/", 0o777, FollowLinks::No).await.unwrap();
    let file = make(user, "/f", "mine").await;
    user.set_mode(b"/f", 0, FollowLinks::No).await.unwrap();
    let denied = Err(FsError::Denied);
    assert_eq!(
        user.open(b"/f", OpenRequest::read()).await.map(drop),
        denied
    );
    assert_eq!(file.write_at(0, "MINE".into()).await, Ok(4));
    assert_eq!(crate::fixture::read(&file).await, "MINE");
    let other = fixture.files.user(Caller::new(2000, 2000, [USER]), 0);
    assert_eq!(
        other
            .set_mode(b"/f", 0o666, FollowLinks::No)
            .await
            .map(drop),
        Err(FsError::NotPermitted)
    );
    user.set_mode(b"/f", 0o040, FollowLinks::No).await.unwrap();
    let reader = other.open(b"/f", OpenRequest::read()).await.unwrap();
    assert_eq!(reader.write_at(0, "x".into()).await, Err(FsError::Denied));
    assert_eq!(
        user.open(b"/f", OpenRequest::read()).await.map(drop),
        denied
    );
}

#[tokio::test(start_paused = true)]
async fn a_sticky_directory_protects_names_links_and_files_of_others() {
    let fixture = Fixture::new().await;
    let (root, user) = (&fixture.root, &fixture.user);
    let other = fixture.files.user(Caller::new(2000, 2000, []), 0);
    root.make_directory(b"/tmp", 0o777).await.unwrap();
    root.set_mode(b"/tmp", 0o1777, FollowLinks::No)
        .await
        .unwrap();
    make(&other, "/tmp/f", "x").await.close().await.unwrap();
    other.symlink(b"f", b"/tmp/l").await.unwrap();
    let not_permitted = Err(FsError::NotPermitted);
    assert_eq!(user.remove_file(b"/tmp/f").await, not_permitted);
    let renamed = user.rename(b"/tmp/f", b"/tmp/g", RenameMode::Replace).await;
    assert_eq!(renamed, not_permitted);
    // What a kernel adds.
    let denied = Err(FsError::Denied);
    let followed = user.stat(b"/tmp/l", FollowLinks::Yes).await;
    assert_eq!(followed.map(drop), denied);
    let created = user.open(b"/tmp/f", OpenRequest::create(0o666)).await;
    assert_eq!(created.map(drop), denied);
    let opened = user.open(b"/tmp/f", OpenRequest::read()).await;
    opened.unwrap().close().await.unwrap();
    make(user, "/tmp/mine", "x").await.close().await.unwrap();
    let again = user.open(b"/tmp/mine", OpenRequest::create(0o666)).await;
    again.unwrap().close().await.unwrap();
    root.set_mode(b"/tmp/f", 0o600, FollowLinks::No)
        .await
        .unwrap();
    assert_eq!(user.link(b"/tmp/f", b"/tmp/h").await, not_permitted);
    root.set_mode(b"/tmp/f", 0o666, FollowLinks::No)
        .await
        .unwrap();
    user.link(b"/tmp/f", b"/tmp/h").await.unwrap();
}
