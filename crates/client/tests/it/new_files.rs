//! New files: they come with their write lease, so that a program waits for the creation only.

use crate::leases::Pair;
use crate::shared_cluster::SharedCluster;
use crate::user::{User, create_mode, flags, me, name, open_mode};
use gupfs_client::{OpenFile, OpenFileFlags, SessionOptions};
use gupfs_proto::meta::{RenameMode, SetAttr, SetTime};
use gupfs_proto::{Caller, FsError, InodeId, Timestamp};
use std::sync::Arc;
use std::time::Duration;

/// A client whose targets have reserved space for it, with no request listed.
async fn ready(seed: u64) -> Pair {
    let pair = Pair::new(seed).await;
    let room = pair.one.create("room").await;
    for at in (0..4 << 20).step_by(60 << 10) {
        pair.one.write(&room, at, &[1; 60 << 10]).await;
    }
    pair.one.close(room).await;
    pair.requests.take();
    pair
}

const NOTHING: [&str; 0] = [];

/// The bytes of a file, as another client finds them.
async fn found(user: &User, ino: InodeId) -> Vec<u8> {
    let file = user.open(ino).await;
    let bytes = user.read(&file, 0, 1 << 20).await;
    user.close(file).await;
    bytes
}

fn flushes(user: &User) -> u64 {
    user.client.counts().flushes
}

/// Whether the file has no objects.
async fn is_in_inode(user: &User, ino: InodeId) -> bool {
    user.client.layout(ino).await.unwrap().is_empty()
}

#[tokio::test(start_paused = true)]
async fn a_small_new_file_costs_its_creation_and_one_request_after_its_close() {
    let pair = ready(1).await;
    let flushed = flushes(&pair.one);
    for size in [0, 1, 1000, 4095] {
        let file = pair.one.create(&format!("f{size}")).await;
        let ino = file.ino();
        assert_eq!(pair.requests.take(), ["create"]);
        if size > 0 {
            pair.one.write(&file, 0, &vec![7; size / 2]).await;
            pair.one
                .write(&file, size as u64 / 2, &vec![7; size.div_ceil(2)])
                .await;
        }
        assert_eq!(pair.one.attr(ino).await.size, size as u64);
        assert_eq!(pair.one.read(&file, 0, 5000).await, vec![7; size]);
        assert_eq!(pair.requests.take(), NOTHING);
        pair.one.close(file).await;
        assert_eq!(pair.requests.take(), ["end_write"]);
        assert!(is_in_inode(pair.two(), ino).await);
        assert_eq!(found(pair.two(), ino).await, vec![7; size]);
        assert_eq!(found(&pair.one, ino).await, vec![7; size]);
        pair.requests.take();
    }
    assert_eq!(flushes(&pair.one), flushed);
    assert_eq!(pair.one.client.status().unsent_bytes, 0);
}

#[tokio::test(start_paused = true)]
async fn a_larger_new_file_costs_no_more_requests_to_the_metadata_server() {
    let pair = ready(2).await;
    for size in [4096, 8192, 300_000] {
        let file = pair.one.create(&format!("f{size}")).await;
        let ino = file.ino();
        pair.one.write(&file, 0, &vec![7; size]).await;
        assert_eq!(pair.requests.take(), ["create"]);
        pair.one.close(file).await;
        assert_eq!(pair.requests.take(), ["end_write"]);
        assert!(!is_in_inode(pair.two(), ino).await);
        assert_eq!(found(pair.two(), ino).await, vec![7; size]);
    }
}

#[tokio::test(start_paused = true)]
async fn another_client_sees_a_small_new_file_before_its_close() {
    let pair = ready(3).await;
    let flushed = flushes(&pair.one);
    let (one, two) = (&pair.one, pair.two());
    for asks in ["stat", "read", "write", "truncate"] {
        let file = one.create(asks).await;
        let ino = file.ino();
        one.write(&file, 0, b"small").await;
        match asks {
            "stat" => assert_eq!(two.attr(ino).await.size, 5),
            "read" => assert_eq!(found(two, ino).await, b"small"),
            "write" => {
                let other = two.open(ino).await;
                two.write(&other, 5, b"er").await;
                assert_eq!(one.read(&file, 0, 9).await, b"smaller");
                two.close(other).await;
            }
            _ => {
                let cut = two.client.truncate(&me(), ino, 1, false, false).await;
                assert_eq!(cut.unwrap().size, 1);
                assert_eq!(one.attr(ino).await.size, 1);
            }
        }
        one.write(&file, 1, b"MALL").await;
        assert_eq!(found(two, ino).await[..5], *b"sMALL");
        one.close(file).await;
        assert!(is_in_inode(two, ino).await, "{asks}");
    }
    assert_eq!(flushes(one), flushed);
}

#[tokio::test(start_paused = true)]
async fn a_small_file_that_stays_open_is_in_its_inode_after_a_moment() {
    let pair = ready(4).await;
    let (file, flushed) = (pair.one.create("f").await, flushes(&pair.one));
    pair.one.write(&file, 0, b"one").await;
    tokio::time::sleep(Duration::from_millis(25)).await;
    assert_eq!(pair.requests.take(), ["create", "end_write"]);
    pair.one.write(&file, 3, b"two").await;
    assert_eq!(pair.requests.take(), ["write_inline"]);
    pair.one.write(&file, 6, &[3; 5000]).await;
    let expected = [b"onetwo".as_slice(), &[3; 5000]].concat();
    assert_eq!(found(pair.two(), file.ino()).await, expected);
    assert_eq!(pair.one.client.counts().spills, 1);
    assert_eq!(flushes(&pair.one), flushed);
}

/// What survives a power loss of all servers.
async fn after_a_power_loss(pair: Pair, ino: InodeId) -> Vec<u8> {
    let SharedCluster { disks, servers, .. } = pair.cluster;
    disks.power_loss_of(servers).await;
    let servers = disks.servers(|_| {}).await;
    let user = servers.connect(SessionOptions::default()).await;
    found(&user, ino).await
}

#[tokio::test(start_paused = true)]
async fn fsync_of_a_small_new_file_makes_it_durable_in_its_inode() {
    let pair = ready(5).await;
    let file = pair.one.create("f").await;
    pair.one.write(&file, 0, b"small").await;
    pair.one.client.fsync(&file, false).await.unwrap();
    assert_eq!(pair.requests.take(), ["create", "end_write", "sync"]);
    assert!(is_in_inode(pair.two(), file.ino()).await);
    let ino = file.ino();
    assert_eq!(after_a_power_loss(pair, ino).await, b"small");
}

#[tokio::test(start_paused = true)]
async fn a_small_file_that_replaces_another_is_whole() {
    let pair = ready(6).await;
    let old = pair.one.create("old").await;
    pair.one.write(&old, 0, b"old").await;
    pair.one.close(old).await;
    let file = pair.one.create("new").await;
    pair.one.write(&file, 0, b"new").await;
    pair.requests.take();
    let (root, from, to) = (pair.one.client.root(), name("new"), name("old"));
    let (us, client) = (me(), &pair.one.client);
    let renamed = client.rename(&us, (root, &from), (root, &to), RenameMode::Replace);
    renamed.await.unwrap();
    assert_eq!(pair.requests.take(), ["end_write", "rename"]);
}

#[tokio::test(start_paused = true)]
async fn a_write_for_which_no_space_is_reserved_yet_stays_in_the_inode() {
    let pair = Pair::new(7).await;
    pair.requests.take();
    let file = pair.one.create("f").await;
    pair.one.write(&file, 0, b"small").await;
    assert_eq!(
        pair.requests.take(),
        ["create", "end_write", "write_inline"]
    );
    assert!(is_in_inode(pair.two(), file.ino()).await);
}

async fn create_with(user: &User, text: &str, flags: OpenFileFlags) -> Arc<OpenFile> {
    let (us, root, name) = (me(), user.client.root(), name(text));
    let created = user
        .client
        .create(&us, root, &name, create_mode(), true, open_mode(), flags);
    created.await.unwrap().file
}

#[tokio::test(start_paused = true)]
async fn a_file_of_synchronous_writes_is_created_without_the_lease() {
    let pair = ready(8).await;
    let sync = OpenFileFlags {
        sync: true,
        ..flags()
    };
    let file = create_with(&pair.one, "f", sync).await;
    pair.one.write(&file, 0, b"small").await;
    assert_eq!(
        pair.requests.take(),
        ["create", "write_inline", "open", "sync"]
    );
}

#[tokio::test(start_paused = true)]
async fn an_existing_name_is_opened_and_its_file_not_taken() {
    let pair = ready(9).await;
    let file = pair.two().create("f").await;
    pair.two().write(&file, 0, b"theirs").await;
    let (root, text) = (pair.one.client.root(), name("f"));
    let (us, client) = (me(), &pair.one.client);
    let opened = client.create(&us, root, &text, create_mode(), false, open_mode(), flags());
    let opened = opened.await.unwrap();
    assert!(!opened.created);
    assert_eq!(pair.one.read(&opened.file, 0, 9).await, b"theirs");
    pair.two().write(&file, 6, b" again").await;
    assert_eq!(pair.one.read(&opened.file, 0, 20).await, b"theirs again");
}

fn at(secs: i64) -> Timestamp {
    Timestamp::new(secs, 0)
}

fn times(atime: i64, mtime: i64) -> SetAttr {
    SetAttr {
        atime: Some(SetTime::To(at(atime))),
        mtime: Some(SetTime::To(at(mtime))),
        ..SetAttr::default()
    }
}

/// As tar(1) unpacks a file: the owner sets its times, owner and mode before the close.
#[tokio::test(start_paused = true)]
async fn times_that_a_program_sets_on_a_new_file_travel_with_its_release() {
    let pair = ready(10).await;
    let one = &pair.one;
    for size in [1000, 8192] {
        let file = one.create(&format!("f{size}")).await;
        let ino = file.ino();
        one.write(&file, 0, &vec![7; size]).await;
        pair.requests.take();
        one.client.setattr(&me(), ino, times(10, 20)).await.unwrap();
        let same_owner = SetAttr {
            uid: Some(1000),
            gid: Some(1000),
            ..SetAttr::default()
        };
        let set = one.client.setattr(&me(), ino, same_owner).await.unwrap();
        assert_eq!((set.atime, set.mtime), (at(10), at(20)));
        assert_eq!(one.attr(ino).await, set);
        assert_eq!(pair.requests.take(), NOTHING);
        let mode = SetAttr {
            mode: Some(0o640),
            ..SetAttr::default()
        };
        let set = one.client.setattr(&me(), ino, mode).await.unwrap();
        assert_eq!((set.mtime, set.mode.0), (at(20), 0o640));
        one.close(file).await;
        assert_eq!(pair.requests.take(), ["setattr", "end_write"]);
        for user in [pair.two(), one] {
            let seen = user.attr(ino).await;
            assert_eq!((seen.atime, seen.mtime), (at(10), at(20)));
            assert_eq!((seen.ctime, seen.size), (set.ctime, size as u64));
        }
        pair.requests.take();
    }
}

#[tokio::test(start_paused = true)]
async fn set_times_are_seen_by_other_clients_at_once_and_reported_within_a_moment() {
    let pair = ready(11).await;
    let (one, two) = (&pair.one, pair.two());
    let file = one.create("f").await;
    let ino = file.ino();
    one.write(&file, 0, &[7; 9000]).await;
    let far = 1 << 40;
    for (round, mtime) in [20, far].into_iter().enumerate() {
        let before = two.attr(ino).await;
        one.client
            .setattr(&me(), ino, times(10, mtime))
            .await
            .unwrap();
        let seen = two.attr(ino).await;
        assert_eq!((seen.atime, seen.mtime), (at(10), at(mtime)));
        assert!(
            seen.ctime >= before.ctime && seen.ctime < at(far),
            "{round}"
        );
        assert_eq!(one.attr(ino).await.ctime, seen.ctime);
    }
    pair.requests.take();
    one.client.setattr(&me(), ino, times(11, 21)).await.unwrap();
    assert_eq!(pair.requests.take(), NOTHING);
    tokio::time::sleep(Duration::from_millis(25)).await;
    assert_eq!(pair.requests.take(), ["end_write"]);
    // A later write counts, and a client that writes beside this one gets what was set.
    one.client.setattr(&me(), ino, times(12, 22)).await.unwrap();
    let other = two.open(ino).await;
    two.write(&other, 9000, b"theirs").await;
    let seen = one.attr(ino).await;
    assert!(seen.mtime > at(22) && seen.atime == at(12));
}

#[tokio::test(start_paused = true)]
async fn what_the_owner_alone_may_set_is_left_to_the_server_for_all_others() {
    let pair = ready(12).await;
    let file = pair.one.create("f").await;
    pair.one.write(&file, 0, &[7; 9000]).await;
    pair.requests.take();
    let client = &pair.one.client;
    let other = Caller::new(7, 7, []);
    let set = client.setattr(&other, file.ino(), times(10, 20)).await;
    assert_eq!(set, Err(FsError::NotPermitted));
    let to_other = SetAttr {
        gid: Some(7),
        ..SetAttr::default()
    };
    let set = client.setattr(&me(), file.ino(), to_other).await;
    assert_eq!(set, Err(FsError::NotPermitted));
    assert_eq!(pair.requests.take(), ["setattr", "setattr"]);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_client_loses_only_times_that_were_set_a_moment_before() {
    let set_by_one = times(10, 20);
    let rename = async |user: &User, _: InodeId| {
        let (root, from, to) = (user.client.root(), name("f"), name("other"));
        let (us, mode) = (me(), RenameMode::Replace);
        let renamed = user.client.rename(&us, (root, &from), (root, &to), mode);
        renamed.await.unwrap();
    };
    for replaces in [false, true] {
        let cluster = SharedCluster::new(13, 1).await;
        let (one, two) = (&cluster.mortal_client().await, &cluster.users[0]);
        let file = one.create("f").await;
        let ino = file.ino();
        one.write(&file, 0, &[7; 200_000]).await;
        one.client.setattr(&me(), ino, set_by_one).await.unwrap();
        match replaces {
            true => rename(one, ino).await,
            false => tokio::time::sleep(Duration::from_secs(1)).await,
        }
        one.platform.tasks.kill();
        cluster.servers.mds.detach(one.client.session());
        tokio::time::sleep(Duration::from_secs(60)).await;
        let seen = two.attr(ino).await;
        assert_eq!((seen.size, seen.mtime), (200_000, at(20)), "{replaces}");
    }
}
