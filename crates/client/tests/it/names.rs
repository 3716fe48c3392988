//! Names, directory listings, space and status.

use crate::fake::FakeCluster;
use crate::user::{create_mode, me, name};
use gupfs_proto::FsError;
use gupfs_proto::meta::MetaOp;

#[tokio::test(start_paused = true)]
async fn a_listing_continues_at_its_cookie_and_shows_leased_files() {
    let cluster = FakeCluster::new(1).await;
    let root = cluster.client.root();
    for number in 0..5 {
        let file = cluster.create(&format!("f{number}")).await;
        cluster.write(&file, 0, &vec![1; 10_000 + number]).await;
    }
    let (mut names, mut sizes, mut cookie) = (Vec::new(), Vec::new(), 0);
    loop {
        let listing = cluster
            .client
            .readdir(&me(), root, cookie, 2, true)
            .await
            .unwrap();
        for entry in &listing.entries {
            names.push(String::from_utf8_lossy(entry.name.as_bytes()).into_owned());
            sizes.extend(entry.attr.map(|attr| attr.size));
            cookie = entry.cookie;
        }
        if listing.end {
            break;
        }
    }
    assert_eq!(names, [".", "..", "f0", "f1", "f2", "f3", "f4"]);
    assert_eq!(sizes, [10_000, 10_001, 10_002, 10_003, 10_004]);
    let rest = cluster
        .client
        .readdir(&me(), root, 1, 10, false)
        .await
        .unwrap();
    assert_eq!(rest.entries[0].name.as_bytes(), b"..");
}

#[tokio::test(start_paused = true)]
async fn listed_entries_count_as_lookups_only_when_added() {
    let cluster = FakeCluster::new(2).await;
    let dir = cluster
        .client
        .mkdir(&me(), cluster.client.root(), &name("dir"), create_mode())
        .await
        .unwrap();
    cluster.client.forget([(dir.ino, 1)]);
    cluster
        .client
        .readdir(&me(), cluster.client.root(), 0, 10, true)
        .await
        .unwrap();
    assert_eq!(cluster.client.status().known_inodes, 0);
    cluster.client.add_lookups([dir.ino]);
    assert_eq!(cluster.client.status().known_inodes, 1);
}

#[tokio::test(start_paused = true)]
async fn lookup_getattr_and_link_return_the_same_size() {
    let cluster = FakeCluster::new(3).await;
    let file = cluster.create("file").await;
    let (client, root, the_name) = (&cluster.client, cluster.client.root(), name("file"));
    for size in [100u64, 5_000, 300_000] {
        cluster.write(&file, size - 1, &[1]).await;
        assert_eq!(
            client.lookup(&me(), root, &the_name).await.unwrap().size,
            size
        );
        assert_eq!(cluster.attr(file.ino()).await.size, size);
        let other = name(&format!("link{size}"));
        assert_eq!(
            client
                .link(&me(), file.ino(), root, &other)
                .await
                .unwrap()
                .size,
            size
        );
    }
    let blocks = cluster.attr(file.ino()).await.blocks;
    let real: u64 = cluster
        .ost
        .state
        .lock()
        .objects
        .values()
        .map(|object| object.stat().blocks)
        .sum();
    assert_eq!(blocks, real);
}

#[tokio::test(start_paused = true)]
async fn statfs_sums_all_disks_and_lists_missing_targets() {
    let cluster = FakeCluster::new(4).await;
    let space = cluster.client.statfs(&me()).await.unwrap();
    assert_eq!(
        (space.total, space.inodes, space.missing.len()),
        (3 << 40, 1, 0)
    );
    let down = FsError::TargetDown {
        ost: gupfs_proto::OstId(2),
        reason: "gone".into(),
    };
    cluster
        .ost
        .state
        .lock()
        .errors
        .push(("space", gupfs_proto::OstId(2), down));
    let space = cluster.client.statfs(&me()).await.unwrap();
    assert_eq!((space.total, space.missing.len()), (2 << 40, 1));
}

#[tokio::test(start_paused = true)]
async fn status_shows_the_request_of_a_hanging_call() {
    let cluster = FakeCluster::new(5).await;
    let file = cluster.create("file").await;
    let ino = file.ino();
    cluster
        .mds
        .state
        .lock()
        .delayed
        .push(MetaOp::GetAttr { ino }.name());
    let client = cluster.client.clone();
    let hung = tokio::spawn(async move { client.getattr(&me(), ino).await });
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    let status = cluster.client.status();
    let waiting = &status.pending_calls[0];
    assert_eq!(
        (waiting.server.as_str(), waiting.operation, waiting.for_ms),
        ("mds", "getattr", 3_000)
    );
    assert_eq!(
        (
            status.open_files,
            status.files[0].handles,
            status.files[0].writers
        ),
        (1, 1, 1)
    );
    cluster.mds.release_delayed.notify_one();
    hung.await.unwrap().unwrap();
    assert!(cluster.client.status().pending_calls.is_empty());
}
