//! A metadata server whose owner is killed, and another that goes on with everything that was answered: nothing waits for a session that has
//! not reconnected but what the session may have leases or locks on.

use crate::locks::bytes;
use crate::sessions::{RestartCluster, seconds};
use crate::user::{User, me, name};
use gupfs_client::OpenFile;
use gupfs_proto::InodeId;
use gupfs_proto::limits::SERVER_TERM;
use gupfs_proto::lock::LockMode::{Exclusive, Shared};
use gupfs_proto::meta::CreateMode;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

const DIR: CreateMode = CreateMode {
    mode: 0o777,
    umask: 0,
};

/// A directory of a client, with a file on which the client has a lock.
struct Work {
    dir: InodeId,
    file: Arc<OpenFile>,
}

impl Work {
    async fn begin(user: &User, text: &str) -> Work {
        let root = user.client.root();
        let dir = user.client.mkdir(&me(), root, &name(text), DIR).await;
        let dir = dir.unwrap().ino;
        let file = user.try_create_in(dir, "file").await.unwrap();
        user.attr(file.ino()).await;
        let lock = bytes(1, 0, 9, Exclusive);
        user.client.try_lock(&file, lock).await.unwrap();
        Work { dir, file }
    }

    /// Work in the directory by this client: a new file, a change of the attributes of the old one, and a lock on its other bytes.
    async fn go_on(user: &User, dir: InodeId, file: InodeId, text: &str) {
        user.try_create_in(dir, text).await.unwrap();
        let open = user.open(file).await;
        let lock = bytes(2, 20, 29, Shared);
        user.client.try_lock(&open, lock).await.unwrap();
        user.write(&open, 0, b"changed").await;
        user.close(open).await;
    }
}

fn spawn_work(user: &User, dir: InodeId, file: InodeId, text: &str) -> JoinHandle<()> {
    let (user, text) = (user.clone(), text.to_owned());
    tokio::spawn(async move { Work::go_on(&user, dir, file, &text).await })
}

#[tokio::test(start_paused = true)]
async fn after_a_take_over_only_what_a_missing_session_uses_waits_for_it() {
    let mut cluster = RestartCluster::new_with_copies(31).await;
    let (one, two) = (cluster.users[0].clone(), cluster.users[1].clone());
    let (work1, work2) = (
        Work::begin(&one, "one").await,
        Work::begin(&two, "two").await,
    );
    let sessions = [one.client.session(), two.client.session()];
    // What is recorded outlives any number of owners.
    for round in 0..3 {
        cluster.take_over().await;
        assert_eq!(cluster.servers.mds.recovery().kept_sessions, 2);
        cluster.reconnect(1);
        let own = spawn_work(&two, work2.dir, work2.file.ino(), &format!("own{round}"));
        let ones = work1.file.ino();
        let other = spawn_work(&two, work1.dir, ones, &format!("other{round}"));
        let (user, locked) = (two.clone(), two.open(ones).await);
        let lock = tokio::spawn(async move {
            let lock = bytes(3, 40, 49, Shared);
            user.client.try_lock(&locked, lock).await.unwrap();
            user.close(locked).await;
        });
        let (user, dir, text) = (two.clone(), work1.dir, format!("made{round}"));
        let made = tokio::spawn(async move { user.try_create_in(dir, &text).await.map(|_| ()) });
        seconds(1).await;
        own.await.unwrap();
        assert_eq!(cluster.servers.mds.status().await.missing, [sessions[0]]);
        assert!(!other.is_finished() && !lock.is_finished() && !made.is_finished());
        cluster.reconnect(0);
        seconds(1).await;
        other.await.unwrap();
        made.await.unwrap().unwrap();
        lock.await.unwrap();
        assert!(cluster.servers.mds.status().await.missing.is_empty());
        // The first client remembers nothing of before, and has its lock.
        let (caller, new) = (me(), name(&format!("other{round}")));
        let found = one.client.lookup(&caller, work1.dir, &new);
        found.await.unwrap();
        assert_eq!(one.attr(ones).await.size, 7);
        let open = two.open(ones).await;
        let conflict = two.client.try_lock(&open, bytes(2, 5, 5, Shared)).await;
        assert!(conflict.is_err());
        two.close(open).await;
    }
    assert_eq!([one.client.session(), two.client.session()], sessions);
}

#[tokio::test(start_paused = true)]
async fn a_client_lost_with_the_owner_delays_only_what_it_used() {
    let mut cluster = RestartCluster::new_with_copies(32).await;
    let (one, two) = (cluster.users[0].clone(), cluster.users[1].clone());
    let (work1, work2) = (
        Work::begin(&one, "one").await,
        Work::begin(&two, "two").await,
    );
    cluster.take_over().await;
    cluster.reconnect(1);
    let begun = tokio::time::Instant::now();
    Work::go_on(&two, work2.dir, work2.file.ino(), "own").await;
    assert!(begun.elapsed() < Duration::from_secs(1));
    // A new client finds everything.
    Work::go_on(&two, work1.dir, work1.file.ino(), "other").await;
    let waited = begun.elapsed();
    assert!(
        (SERVER_TERM..SERVER_TERM + Duration::from_secs(3)).contains(&waited),
        "{waited:?}"
    );
    let session = cluster.users[1].client.session();
    assert_eq!(
        cluster
            .servers
            .mds
            .status()
            .await
            .sessions
            .keys()
            .collect::<Vec<_>>(),
        [&session]
    );
    // Nothing of it delays the next owner.
    cluster.take_over().await;
    cluster.reconnect(1);
    let begun = tokio::time::Instant::now();
    Work::go_on(&two, work1.dir, work1.file.ino(), "again").await;
    assert!(begun.elapsed() < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn what_an_owner_without_copies_granted_is_waited_for_with_all_sessions() {
    let mut cluster = RestartCluster::new_with_copies(33).await;
    let (one, two) = (cluster.users[0].clone(), cluster.users[1].clone());
    cluster.restart(false).await;
    cluster.reconnect(0);
    cluster.reconnect(1);
    let work1 = Work::begin(&one, "one").await;
    let work2 = Work::begin(&two, "two").await;
    cluster.take_over().await;
    cluster.reconnect(1);
    let own = spawn_work(&two, work2.dir, work2.file.ino(), "own");
    seconds(3).await;
    assert!(!own.is_finished());
    cluster.reconnect(0);
    seconds(1).await;
    own.await.unwrap();
    // The lock that the first client has reclaimed is recorded now.
    one.attr(work1.file.ino()).await;
    cluster.take_over().await;
    cluster.reconnect(1);
    let (user, locked) = (two.clone(), two.open(work1.file.ino()).await);
    let lock = tokio::spawn(async move {
        let other = bytes(3, 40, 49, Shared);
        user.client.try_lock(&locked, other).await.unwrap();
    });
    seconds(3).await;
    assert!(!lock.is_finished());
    cluster.reconnect(0);
    seconds(1).await;
    lock.await.unwrap();
}
