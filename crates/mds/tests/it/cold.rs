//! Records that are not in memory: every operation fetches them and has the same result.

use crate::client::{Client, name};
use crate::fixture::{DirFixture, Start};
use bytes::Bytes;
use gupfs_proto::InodeId;
use gupfs_proto::meta::{MetaOp, MetaReplyBody, XattrMode, XattrName};

fn cold(fixture: &DirFixture) -> Start {
    Start {
        cache_bytes: 0,
        ..fixture.start_options()
    }
}

/// The driver reads a few records under the lock, many with one hand-off.
#[tokio::test]
async fn operations_on_records_that_are_only_in_the_index_work() {
    let fixture = DirFixture::new();
    let mds = fixture.start().await;
    let client = Client::open(&mds).await;
    let dir = client.mkdir(0, InodeId::ROOT, "dir").await.unwrap();
    for i in 0..50 {
        client.create(0, dir, &format!("f{i}")).await.unwrap();
    }
    mds.stop().await.unwrap();
    drop((client, mds));

    let mds = fixture.start_as(fixture.start_options()).await.unwrap();
    let client = Client::open(&mds).await;
    let before = mds.status().await.fetch_rounds;
    assert_eq!(client.list_names(dir, 1_000).await.len(), 50);
    let file = client.lookup(dir, "f7").await.unwrap();
    client.unlink(0, dir, "f7").await.unwrap();
    client.forget(file.ino).await;
    client.mkdir(0, dir, "new").await.unwrap();
    let after = mds.status().await.fetch_rounds;
    assert!(after > before, "everything was in memory");
    // Once more, with warm records: nothing is fetched.
    client.list_names(dir, 1_000).await;
    assert_eq!(mds.status().await.fetch_rounds, after);
    mds.stop().await.unwrap();
}

#[tokio::test]
async fn a_cache_too_small_for_one_operation_ends_in_an_error_and_not_in_a_loop() {
    let fixture = DirFixture::new();
    let mds = fixture.start().await;
    let client = Client::open(&mds).await;
    for i in 0..200 {
        client
            .create(0, InodeId::ROOT, &format!("f{i}"))
            .await
            .unwrap();
    }
    mds.stop().await.unwrap();
    drop((client, mds));
    let started = fixture.start_as(cold(&fixture)).await;
    // Not even a recovery fits; the point is that it ends.
    if let Ok(mds) = started {
        let client = Client::open(&mds).await;
        let op = MetaOp::Readdir {
            dir: InodeId::ROOT,
            after: 0,
            limit: 1_000,
            plus: true,
        };
        assert!(client.read(op).await.is_err());
    }
}

/// Removing a file with attributes scans for them: one scan per file, several files in one request.
#[tokio::test]
async fn forgetting_several_files_with_attributes_takes_them_all() {
    let fixture = DirFixture::new();
    let mds = fixture.start().await;
    let client = Client::open(&mds).await;
    let mut inodes = Vec::new();
    for i in 0..5 {
        let ino = client
            .create(0, InodeId::ROOT, &format!("f{i}"))
            .await
            .unwrap();
        for attribute in ["user.a", "user.b"] {
            let op = MetaOp::SetXattr {
                ino,
                name: XattrName::new(attribute.as_bytes()).unwrap(),
                value: Bytes::from_static(b"value"),
                mode: XattrMode::Create,
            };
            client.change(0, op).await.unwrap();
        }
        inodes.push(ino);
    }
    for i in 0..5 {
        let op = MetaOp::Unlink {
            dir: InodeId::ROOT,
            name: name(&format!("f{i}")),
        };
        client.change(0, op).await.unwrap();
    }
    let answer = client
        .change(
            0,
            MetaOp::Forget {
                inodes: inodes.clone(),
            },
        )
        .await;
    assert_eq!(answer, Ok(MetaReplyBody::Done));
    assert_eq!(mds.status().await.inodes, Some(1));
    mds.stop().await.unwrap();
}
