//! Every answered change survives the end of the server, by a stop or without one.

use crate::client::Client;
use crate::fixture::DirFixture;
use gupfs_proto::InodeId;

#[tokio::test]
async fn a_stopped_server_starts_with_everything() {
    let fixture = DirFixture::new();
    let mds = fixture.start().await;
    assert!(mds.recovery().formatted);
    let client = Client::open(&mds).await;
    let dir = client.mkdir(0, InodeId::ROOT, "dir").await.unwrap();
    let file = client.create(0, dir, "file").await.unwrap();
    let before = client.attr(file).await.unwrap();
    mds.stop().await.unwrap();
    drop((client, mds));

    let mds = fixture.start().await;
    assert!(!mds.recovery().formatted);
    assert_eq!(mds.recovery().dead_sessions, 1);
    assert_eq!(mds.recovery().replayed, 0);
    let client = Client::open(&mds).await;
    assert_eq!(client.lookup(InodeId::ROOT, "dir").await.unwrap().ino, dir);
    assert_eq!(client.lookup(dir, "file").await.unwrap(), before);
    mds.stop().await.unwrap();
}

#[tokio::test]
async fn a_killed_server_starts_with_everything_that_was_answered() {
    let fixture = DirFixture::new();
    let mut count = 0;
    for instance in 0..4 {
        let mds = fixture.start().await;
        let client = Client::open(&mds).await;
        assert_eq!(client.list_names(InodeId::ROOT, 100).await.len(), count);
        for i in 0..100 {
            let name = format!("instance{instance}-{i}");
            client.create(0, InodeId::ROOT, &name).await.unwrap();
            count += 1;
        }
        drop((client, mds)); // no stop
    }
    let mds = fixture.start().await;
    let client = Client::open(&mds).await;
    assert_eq!(client.list_names(InodeId::ROOT, 9).await.len(), 400);
    assert_eq!(mds.status().await.inodes, Some(401));
    mds.stop().await.unwrap();
}

#[tokio::test]
async fn inode_numbers_rise_over_restarts() {
    let fixture = DirFixture::new();
    let mut last = InodeId(0);
    for instance in 0..3 {
        let mds = fixture.start().await;
        let client = Client::open(&mds).await;
        for i in 0..10 {
            let name = format!("{instance}-{i}");
            let ino = client.create(0, InodeId::ROOT, &name).await.unwrap();
            assert!(ino > last);
            last = ino;
        }
    }
}
