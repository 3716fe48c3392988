//! Names, listings, space and status.

use crate::fake::Site;
use crate::user::{make, me, name};
use gupfs_proto::Refusal;
use gupfs_proto::meta::Op;

#[tokio::test(start_paused = true)]
async fn a_listing_goes_on_where_it_stopped_and_shows_what_is_held() {
    let site = Site::new(1).await;
    let root = site.client.root();
    for number in 0..5 {
        let file = site.create(&format!("f{number}")).await;
        site.write(&file, 0, &vec![1; 10_000 + number]).await;
    }
    let (mut names, mut sizes, mut cookie) = (Vec::new(), Vec::new(), 0);
    loop {
        let listing = site
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
    let rest = site
        .client
        .readdir(&me(), root, 1, 10, false)
        .await
        .unwrap();
    assert_eq!(rest.entries[0].name.as_bytes(), b"..");
}

#[tokio::test(start_paused = true)]
async fn listed_entries_are_known_only_when_they_were_passed_on() {
    let site = Site::new(2).await;
    let dir = site
        .client
        .mkdir(&me(), site.client.root(), &name("dir"), make())
        .await
        .unwrap();
    site.client.forget([(dir.ino, 1)]);
    site.client
        .readdir(&me(), site.client.root(), 0, 10, true)
        .await
        .unwrap();
    assert_eq!(site.client.status().known_inodes, 0);
    site.client.gave([dir.ino]);
    assert_eq!(site.client.status().known_inodes, 1);
}

#[tokio::test(start_paused = true)]
async fn a_file_shows_the_same_size_by_every_way_of_asking() {
    let site = Site::new(3).await;
    let file = site.create("file").await;
    let (client, root, the_name) = (&site.client, site.client.root(), name("file"));
    for size in [100u64, 5_000, 300_000] {
        site.write(&file, size - 1, &[1]).await;
        assert_eq!(
            client.lookup(&me(), root, &the_name).await.unwrap().size,
            size
        );
        assert_eq!(site.attr(file.ino()).await.size, size);
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
    let blocks = site.attr(file.ino()).await.blocks;
    let real: u64 = site
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
async fn space_is_that_of_all_disks_and_names_those_that_are_missing() {
    let site = Site::new(4).await;
    let space = site.client.statfs(&me()).await.unwrap();
    assert_eq!(
        (space.total, space.inodes, space.missing.len()),
        (3 << 40, 1, 0)
    );
    let down = Refusal::TargetDown {
        ost: gupfs_proto::OstId(2),
        why: "gone".into(),
    };
    site.ost
        .state
        .lock()
        .refused
        .push(("space", gupfs_proto::OstId(2), down));
    let space = site.client.statfs(&me()).await.unwrap();
    assert_eq!((space.total, space.missing.len()), (2 << 40, 1));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_hangs_says_what_it_waits_for() {
    let site = Site::new(5).await;
    let file = site.create("file").await;
    let ino = file.ino();
    site.mds
        .state
        .lock()
        .held_back
        .push(Op::GetAttr { ino }.name());
    let client = site.client.clone();
    let hung = tokio::spawn(async move { client.getattr(&me(), ino).await });
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    let status = site.client.status();
    let waiting = &status.waiting[0];
    assert_eq!(
        (waiting.whom.as_str(), waiting.what, waiting.for_ms),
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
    site.mds.let_go.notify_one();
    hung.await.unwrap().unwrap();
    assert!(site.client.status().waiting.is_empty());
}
