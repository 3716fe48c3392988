//! Locks of programs on two clients: who gets one, who waits, what ends it.

use crate::sessions::{Site, seconds};
use crate::user::User;
use gupfs_client::{LockWish, OpenFile};
use gupfs_proto::Refusal;
use gupfs_proto::limits::SERVER_TERM;
use gupfs_proto::lock::{Extent, Kind, Mode};
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::Instant;

pub fn bytes(owner: u64, first: u64, last: u64, mode: Mode) -> LockWish {
    LockWish {
        kind: Kind::Record,
        owner,
        extent: Extent { first, last },
        mode,
        pid: owner as u32 + 1000,
    }
}

pub fn flock(owner: u64, mode: Mode) -> LockWish {
    LockWish {
        kind: Kind::Flock,
        ..bytes(owner, 0, Extent::END, mode)
    }
}

use Mode::{Exclusive, Shared};

type Waiting = JoinHandle<Result<(), Refusal>>;

fn waits(user: &User, file: &Arc<OpenFile>, wish: LockWish) -> Waiting {
    let (client, file) = (user.client.clone(), file.clone());
    tokio::spawn(async move { client.lock(&file, wish, pending()).await })
}

/// What comes of it, before the test is over.
async fn over(waiting: Waiting) -> Result<(), Refusal> {
    let over = tokio::time::timeout(Duration::from_secs(300), waiting);
    over.await.expect("it waits").unwrap()
}

async fn try_lock(user: &User, file: &Arc<OpenFile>, wish: LockWish) -> Result<(), Refusal> {
    user.client.try_lock(file, wish).await
}

/// A file that both clients have open.
async fn shared_file(site: &Site) -> (Arc<OpenFile>, Arc<OpenFile>) {
    let (one, two) = site.two();
    let mine = one.create("file").await;
    let his = two.open(mine.ino()).await;
    (mine, his)
}

#[tokio::test(start_paused = true)]
async fn what_one_client_locks_the_other_cannot() {
    let site = Site::new(1).await;
    let (one, two) = site.two();
    let (mine, his) = shared_file(&site).await;
    for (mode, other, allowed) in [
        (Exclusive, Exclusive, false),
        (Exclusive, Shared, false),
        (Shared, Exclusive, false),
        (Shared, Shared, true),
    ] {
        for wish in [bytes, |owner, _, _, mode| flock(owner, mode)] {
            let (my, other) = (wish(1, 10, 19, mode), wish(1, 19, 30, other));
            try_lock(one, &mine, my).await.unwrap();
            let found = two.client.lock_in_the_way(&his, other).await.unwrap();
            assert_eq!(found.map(|lock| lock.pid), (!allowed).then_some(0));
            let expected = match allowed {
                true => Ok(()),
                false => Err(Refusal::WouldBlock),
            };
            assert_eq!(try_lock(two, &his, other).await, expected);
            one.client.unlock(&mine, my).await.unwrap();
            try_lock(two, &his, other).await.unwrap();
            two.client.unlock(&his, other).await.unwrap();
        }
    }
    // Other bytes, and the other kind, are nobody's affair.
    try_lock(one, &mine, bytes(1, 10, 19, Exclusive))
        .await
        .unwrap();
    try_lock(two, &his, bytes(1, 20, 29, Exclusive))
        .await
        .unwrap();
    try_lock(two, &his, flock(1, Exclusive)).await.unwrap();
    // On one's own client one learns whose it is.
    let found = one
        .client
        .lock_in_the_way(&mine, bytes(2, 0, 99, Shared))
        .await;
    assert_eq!(found.unwrap().unwrap().pid, 1001);
}

#[tokio::test(start_paused = true)]
async fn closing_frees_what_the_kernel_does_not() {
    let site = Site::new(2).await;
    let (one, two) = site.two();
    let (mine, his) = shared_file(&site).await;
    let again = one.open(mine.ino()).await;
    // Records of a process go with any descriptor of the file that it closes.
    try_lock(one, &mine, bytes(1, 0, 9, Exclusive))
        .await
        .unwrap();
    try_lock(one, &mine, bytes(2, 20, 29, Exclusive))
        .await
        .unwrap();
    one.client.unlock_at_close(&again, 1).await.unwrap();
    try_lock(two, &his, bytes(1, 0, 9, Exclusive))
        .await
        .unwrap();
    let refused = try_lock(two, &his, bytes(1, 20, 20, Exclusive)).await;
    assert_eq!(refused, Err(Refusal::WouldBlock));
    // Of an open file's own the kernel says nothing: they go with it. Another open file's stay.
    try_lock(one, &again, bytes(3, 40, 49, Exclusive))
        .await
        .unwrap();
    try_lock(one, &again, flock(4, Exclusive)).await.unwrap();
    one.close(again).await;
    try_lock(two, &his, flock(1, Exclusive)).await.unwrap();
    try_lock(two, &his, bytes(1, 40, 49, Exclusive))
        .await
        .unwrap();
    let refused = try_lock(two, &his, bytes(1, 20, 20, Exclusive)).await;
    assert_eq!(refused, Err(Refusal::WouldBlock));
    one.close(mine).await;
    try_lock(two, &his, bytes(1, 20, 20, Exclusive))
        .await
        .unwrap();
    two.close(his).await;
    assert_eq!(site.servers.mds.status().await.locks, 0);
}

#[tokio::test(start_paused = true)]
async fn who_closes_many_files_while_the_server_is_away_waits_once() {
    let site = Site::new(9).await;
    let (one, two) = site.two();
    let mut files = Vec::new();
    for number in 0..50 {
        let file = one.create(&format!("file{number}")).await;
        try_lock(one, &file, bytes(1, 0, 9, Exclusive))
            .await
            .unwrap();
        files.push(file);
    }
    let his = two.open(files[49].ino()).await;
    site.cut_off(0);
    let begun = Instant::now();
    for file in &files {
        one.client.unlock_at_close(file, 1).await.unwrap();
    }
    assert!(begun.elapsed() < Duration::from_secs(1));
    let held = try_lock(two, &his, bytes(1, 0, 9, Shared)).await;
    assert_eq!(held, Err(Refusal::WouldBlock));
    site.reconnect(0);
    seconds(1).await;
    assert_eq!(site.servers.mds.status().await.locks, 0);
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_comes_after_its_file_was_closed_is_not_kept() {
    let site = Site::new(3).await;
    let (one, two) = site.two();
    let (mine, his) = shared_file(&site).await;
    try_lock(two, &his, flock(1, Exclusive)).await.unwrap();
    let waiting = waits(one, &mine, flock(1, Exclusive));
    seconds(1).await;
    one.client.release(mine.id()).await.unwrap();
    two.client.unlock(&his, flock(1, Shared)).await.unwrap();
    seconds(1).await;
    assert_eq!(over(waiting).await, Err(Refusal::Stale));
    assert_eq!(site.servers.mds.status().await.locks, 0);
}

#[tokio::test(start_paused = true)]
async fn who_waits_gets_it_when_it_is_free_and_the_status_says_for_what() {
    let site = Site::new(4).await;
    let (one, two) = site.two();
    let (mine, his) = shared_file(&site).await;
    try_lock(one, &mine, bytes(1, 0, 9, Exclusive))
        .await
        .unwrap();
    let waiting = waits(two, &his, bytes(7, 5, 19, Shared));
    // Longer than any other wait may be.
    seconds(600).await;
    assert!(!waiting.is_finished());
    let listed = site.servers.mds.status().await.waits;
    let (session, ino) = (one.client.session(), mine.ino().0);
    assert_eq!(
        listed[0].waits_for,
        format!(
            "a shared lock of bytes 5 to 19 of inode {ino:x} for pid 1007, held by session {session}, pid 1001"
        )
    );
    assert_eq!(
        (listed[0].session, listed[0].op),
        (two.client.session(), "lock")
    );
    let here = two.client.status().waiting;
    assert_eq!((here[0].what, here[0].for_ms >= 600_000), ("lock", true));
    one.client
        .unlock(&mine, bytes(1, 0, 9, Shared))
        .await
        .unwrap();
    assert_eq!(over(waiting).await, Ok(()));
    let refused = try_lock(one, &mine, bytes(1, 0, 9, Exclusive)).await;
    assert_eq!(refused, Err(Refusal::WouldBlock));
    assert_eq!(site.servers.mds.status().await.waits, []);
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_is_given_up_takes_nothing() {
    let site = Site::new(5).await;
    let (one, two) = site.two();
    let (mine, his) = shared_file(&site).await;
    try_lock(one, &mine, flock(1, Exclusive)).await.unwrap();
    let given_up = two.client.lock(&his, flock(1, Shared), seconds(3)).await;
    assert_eq!(given_up, Err(Refusal::Interrupted));
    // Neither does a future that is dropped.
    waits(two, &his, flock(1, Shared)).abort();
    let dropped = waits(two, &his, flock(1, Shared));
    seconds(1).await;
    dropped.abort();
    seconds(1).await;
    assert_eq!(site.servers.mds.status().await.waits, []);
    one.client.unlock(&mine, flock(1, Shared)).await.unwrap();
    seconds(1).await;
    assert_eq!(site.servers.mds.status().await.locks, 0);
}

#[tokio::test(start_paused = true)]
async fn who_would_wait_for_ever_is_told_so() {
    let site = Site::new(6).await;
    let (one, two) = site.two();
    let (mine, his) = shared_file(&site).await;
    try_lock(one, &mine, bytes(1, 0, 0, Exclusive))
        .await
        .unwrap();
    try_lock(two, &his, bytes(1, 1, 1, Exclusive))
        .await
        .unwrap();
    let waiting = waits(one, &mine, bytes(1, 1, 1, Exclusive));
    seconds(1).await;
    let refused = two.client.lock(&his, bytes(1, 0, 0, Shared), pending());
    let refused = tokio::time::timeout(Duration::from_secs(60), refused);
    assert_eq!(refused.await.unwrap(), Err(Refusal::Deadlock));
    two.client.unlock_at_close(&his, 1).await.unwrap();
    assert_eq!(over(waiting).await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn locks_of_a_client_that_is_gone_are_free_after_its_term() {
    let site = Site::new(7).await;
    let (one, two) = site.two();
    let (mine, his) = shared_file(&site).await;
    try_lock(one, &mine, bytes(1, 0, 9, Exclusive))
        .await
        .unwrap();
    try_lock(two, &his, bytes(1, 20, 29, Exclusive))
        .await
        .unwrap();
    let lost = waits(one, &mine, bytes(2, 20, 29, Exclusive));
    let waiting = waits(two, &his, bytes(2, 0, 19, Exclusive));
    seconds(1).await;
    site.cut_off(0);
    let begun = Instant::now();
    assert_eq!(over(waiting).await, Ok(()));
    let waited = begun.elapsed();
    let expected = SERVER_TERM - Duration::from_secs(7)..SERVER_TERM + Duration::from_secs(3);
    assert!(expected.contains(&waited), "{waited:?}");
    // It learns that it has nothing any more, and neither waits for anything.
    site.reconnect(0);
    assert_eq!(over(lost).await, Err(Refusal::Stale));
    seconds(5).await;
    let stale = try_lock(one, &mine, bytes(1, 0, 9, Exclusive)).await;
    assert_eq!(stale, Err(Refusal::Stale));
    one.client.unlock_at_close(&mine, 1).await.unwrap();
    one.close(mine).await;
    assert_eq!(site.servers.mds.status().await.locks, 2);
}

#[tokio::test(start_paused = true)]
async fn locks_outlive_the_metadata_server() {
    for (seed, how) in [(20, "killed"), (21, "cut from power"), (22, "stopped")] {
        let mut site = Site::new(seed).await;
        let (one, two) = (site.users[0].clone(), site.users[1].clone());
        let (mine, his) = shared_file(&site).await;
        try_lock(&one, &mine, bytes(1, 0, 9, Exclusive))
            .await
            .unwrap();
        try_lock(&one, &mine, flock(2, Shared)).await.unwrap();
        let waiting = waits(&two, &his, bytes(1, 5, 5, Shared));
        seconds(1).await;
        match how {
            "stopped" => site.restart_in_order().await,
            _ => site.restart(how == "cut from power").await,
        }
        site.reconnect(1);
        let (user, file) = (two.clone(), his.clone());
        let early = tokio::spawn(async move { try_lock(&user, &file, flock(1, Exclusive)).await });
        seconds(5).await;
        // Who has not come back may hold it.
        assert!(!early.is_finished() && !waiting.is_finished(), "{how}");
        site.reconnect(0);
        assert_eq!(over(early).await, Err(Refusal::WouldBlock), "{how}");
        try_lock(&two, &his, flock(1, Shared)).await.unwrap();
        seconds(30).await;
        assert!(!waiting.is_finished(), "{how}");
        one.client
            .unlock(&mine, bytes(1, 0, 9, Shared))
            .await
            .unwrap();
        assert_eq!(over(waiting).await, Ok(()), "{how}");
        one.close(mine).await;
        two.close(his).await;
        assert_eq!(site.servers.mds.status().await.locks, 0, "{how}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lock_is_given_on_when_the_end_of_its_holder_is_recorded() {
    for seed in 20..30 {
        let mut site = Site::new(seed).await;
        let (one, two) = (site.users[0].clone(), site.users[1].clone());
        let (mine, his) = shared_file(&site).await;
        try_lock(&one, &mine, flock(1, Exclusive)).await.unwrap();
        let waiting = waits(&two, &his, flock(1, Exclusive));
        seconds(1).await;
        site.cut_off(0);
        assert_eq!(over(waiting).await, Ok(()));
        let session = two.client.session();
        site.restart(true).await;
        // Who had it before says that he has it still, and first.
        site.reconnect(0);
        seconds(1).await;
        site.reconnect(1);
        let stale = try_lock(&one, &mine, flock(1, Exclusive)).await;
        assert_eq!(stale, Err(Refusal::Stale), "seed {seed}");
        two.client.unlock(&his, flock(1, Shared)).await.unwrap();
        assert_eq!(two.client.session(), session, "seed {seed}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_delivered_twice_is_done_once() {
    let site = Site::new(8).await;
    let (one, two) = site.two();
    let (mine, his) = shared_file(&site).await;
    site.ways[0].twice.store(40, Relaxed);
    site.ways[1].twice.store(40, Relaxed);
    for round in 0..100 {
        let mode = [Shared, Exclusive][round % 2];
        try_lock(one, &mine, bytes(1, 0, 9, mode)).await.unwrap();
        // A copy of the unlock before it would have freed it.
        tokio::time::sleep(Duration::from_millis(round as u64 % 50)).await;
        let other = try_lock(two, &his, bytes(1, 9, 9, Exclusive)).await;
        assert_eq!(other, Err(Refusal::WouldBlock), "round {round}");
        one.client
            .unlock(&mine, bytes(1, 0, 9, Shared))
            .await
            .unwrap();
        // A copy of the lock before it would have taken it.
        tokio::time::sleep(Duration::from_millis(round as u64 * 3 % 50)).await;
        try_lock(two, &his, bytes(1, 9, 9, Exclusive))
            .await
            .unwrap();
        two.client
            .unlock(&his, bytes(1, 9, 9, Shared))
            .await
            .unwrap();
    }
    seconds(1).await;
    assert_eq!(site.servers.mds.status().await.locks, 0);
}
