//! File locks of programs on two clients: grants, conflicts, waits, and what frees a lock.

use crate::sessions::{RestartCluster, seconds};
use crate::user::User;
use gupfs_client::{LockSpec, OpenFile};
use gupfs_proto::FsError;
use gupfs_proto::limits::SERVER_TERM;
use gupfs_proto::lock::{LockFamily, LockMode, LockRange};
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::Instant;

pub fn bytes(owner: u64, first: u64, last: u64, mode: LockMode) -> LockSpec {
    LockSpec {
        family: LockFamily::Record,
        owner,
        range: LockRange { first, last },
        mode,
        pid: owner as u32 + 1000,
    }
}

pub fn flock(owner: u64, mode: LockMode) -> LockSpec {
    LockSpec {
        family: LockFamily::Flock,
        ..bytes(owner, 0, LockRange::END, mode)
    }
}

use LockMode::{Exclusive, Shared};

type WaitingLock = JoinHandle<Result<(), FsError>>;

fn spawn_lock(user: &User, file: &Arc<OpenFile>, spec: LockSpec) -> WaitingLock {
    let (client, file) = (user.client.clone(), file.clone());
    tokio::spawn(async move { client.lock(&file, spec, pending()).await })
}

/// Waits for the lock's result, with a deadline for the test.
async fn finish(waiting: WaitingLock) -> Result<(), FsError> {
    let over = tokio::time::timeout(Duration::from_secs(300), waiting);
    over.await.expect("the lock request still waits").unwrap()
}

async fn try_lock(user: &User, file: &Arc<OpenFile>, spec: LockSpec) -> Result<(), FsError> {
    user.client.try_lock(file, spec).await
}

/// A file that is open on both clients.
async fn shared_file(cluster: &RestartCluster) -> (Arc<OpenFile>, Arc<OpenFile>) {
    let (one, two) = cluster.clients();
    let file1 = one.create("file").await;
    let file2 = two.open(file1.ino()).await;
    (file1, file2)
}

#[tokio::test(start_paused = true)]
async fn a_lock_of_one_client_excludes_the_other() {
    let cluster = RestartCluster::new(1).await;
    let (one, two) = cluster.clients();
    let (file1, file2) = shared_file(&cluster).await;
    for (mode, other, allowed) in [
        (Exclusive, Exclusive, false),
        (Exclusive, Shared, false),
        (Shared, Exclusive, false),
        (Shared, Shared, true),
    ] {
        for spec in [bytes, |owner, _, _, mode| flock(owner, mode)] {
            let (my, other) = (spec(1, 10, 19, mode), spec(1, 19, 30, other));
            try_lock(one, &file1, my).await.unwrap();
            let found = two.client.test_lock(&file2, other).await.unwrap();
            assert_eq!(found.map(|lock| lock.pid), (!allowed).then_some(0));
            let expected = match allowed {
                true => Ok(()),
                false => Err(FsError::WouldBlock),
            };
            assert_eq!(try_lock(two, &file2, other).await, expected);
            one.client.unlock(&file1, my).await.unwrap();
            try_lock(two, &file2, other).await.unwrap();
            two.client.unlock(&file2, other).await.unwrap();
        }
    }
    // Locks of other bytes or of the other family do not conflict.
    try_lock(one, &file1, bytes(1, 10, 19, Exclusive))
        .await
        .unwrap();
    try_lock(two, &file2, bytes(1, 20, 29, Exclusive))
        .await
        .unwrap();
    try_lock(two, &file2, flock(1, Exclusive)).await.unwrap();
    // On the same client the conflicting lock's pid is visible.
    let found = one.client.test_lock(&file1, bytes(2, 0, 99, Shared)).await;
    assert_eq!(found.unwrap().unwrap().pid, 1001);
}

#[tokio::test(start_paused = true)]
async fn closing_frees_locks_that_the_kernel_does_not_free() {
    let cluster = RestartCluster::new(2).await;
    let (one, two) = cluster.clients();
    let (file1, file2) = shared_file(&cluster).await;
    let again = one.open(file1.ino()).await;
    // A process loses its record locks in a file when it closes any descriptor of the file.
    try_lock(one, &file1, bytes(1, 0, 9, Exclusive))
        .await
        .unwrap();
    try_lock(one, &file1, bytes(2, 20, 29, Exclusive))
        .await
        .unwrap();
    one.client.unlock_at_close(&again, 1).await.unwrap();
    try_lock(two, &file2, bytes(1, 0, 9, Exclusive))
        .await
        .unwrap();
    let refused = try_lock(two, &file2, bytes(1, 20, 20, Exclusive)).await;
    assert_eq!(refused, Err(FsError::WouldBlock));
    // Locks of the open file itself end with RELEASE, without a FLUSH. Those of another open file stay.
    try_lock(one, &again, bytes(3, 40, 49, Exclusive))
        .await
        .unwrap();
    try_lock(one, &again, flock(4, Exclusive)).await.unwrap();
    one.close(again).await;
    try_lock(two, &file2, flock(1, Exclusive)).await.unwrap();
    try_lock(two, &file2, bytes(1, 40, 49, Exclusive))
        .await
        .unwrap();
    let refused = try_lock(two, &file2, bytes(1, 20, 20, Exclusive)).await;
    assert_eq!(refused, Err(FsError::WouldBlock));
    one.close(file1).await;
    try_lock(two, &file2, bytes(1, 20, 20, Exclusive))
        .await
        .unwrap();
    two.close(file2).await;
    assert_eq!(cluster.servers.mds.status().await.locks, 0);
}

#[tokio::test(start_paused = true)]
async fn closing_many_files_while_the_server_is_down_waits_once() {
    let cluster = RestartCluster::new(9).await;
    let (one, two) = cluster.clients();
    let mut files = Vec::new();
    for number in 0..50 {
        let file = one.create(&format!("file{number}")).await;
        try_lock(one, &file, bytes(1, 0, 9, Exclusive))
            .await
            .unwrap();
        files.push(file);
    }
    let file2 = two.open(files[49].ino()).await;
    cluster.cut_off(0);
    let begun = Instant::now();
    for file in &files {
        one.client.unlock_at_close(file, 1).await.unwrap();
    }
    assert!(begun.elapsed() < Duration::from_secs(1));
    let held = try_lock(two, &file2, bytes(1, 0, 9, Shared)).await;
    assert_eq!(held, Err(FsError::WouldBlock));
    cluster.reconnect(0);
    seconds(1).await;
    assert_eq!(cluster.servers.mds.status().await.locks, 0);
}

#[tokio::test(start_paused = true)]
async fn a_lock_granted_after_its_file_was_closed_is_freed() {
    let cluster = RestartCluster::new(3).await;
    let (one, two) = cluster.clients();
    let (file1, file2) = shared_file(&cluster).await;
    try_lock(two, &file2, flock(1, Exclusive)).await.unwrap();
    let waiting = spawn_lock(one, &file1, flock(1, Exclusive));
    seconds(1).await;
    one.client.release(file1.id()).await.unwrap();
    two.client.unlock(&file2, flock(1, Shared)).await.unwrap();
    seconds(1).await;
    assert_eq!(finish(waiting).await, Err(FsError::Stale));
    assert_eq!(cluster.servers.mds.status().await.locks, 0);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_gets_the_lock_when_it_is_freed_and_status_shows_the_wait() {
    let cluster = RestartCluster::new(4).await;
    let (one, two) = cluster.clients();
    let (file1, file2) = shared_file(&cluster).await;
    try_lock(one, &file1, bytes(1, 0, 9, Exclusive))
        .await
        .unwrap();
    let waiting = spawn_lock(two, &file2, bytes(7, 5, 19, Shared));
    // Longer than the deadline of any other operation.
    seconds(600).await;
    assert!(!waiting.is_finished());
    let listed = cluster.servers.mds.status().await.waits;
    let (session, ino) = (one.client.session(), file1.ino().0);
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
    let here = two.client.status().pending_calls;
    assert_eq!(
        (here[0].operation, here[0].for_ms >= 600_000),
        ("lock", true)
    );
    one.client
        .unlock(&file1, bytes(1, 0, 9, Shared))
        .await
        .unwrap();
    assert_eq!(finish(waiting).await, Ok(()));
    let refused = try_lock(one, &file1, bytes(1, 0, 9, Exclusive)).await;
    assert_eq!(refused, Err(FsError::WouldBlock));
    assert_eq!(cluster.servers.mds.status().await.waits, []);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_wait_takes_no_lock() {
    let cluster = RestartCluster::new(5).await;
    let (one, two) = cluster.clients();
    let (file1, file2) = shared_file(&cluster).await;
    try_lock(one, &file1, flock(1, Exclusive)).await.unwrap();
    let given_up = two.client.lock(&file2, flock(1, Shared), seconds(3)).await;
    assert_eq!(given_up, Err(FsError::Interrupted));
    // Neither does a dropped future.
    spawn_lock(two, &file2, flock(1, Shared)).abort();
    let dropped = spawn_lock(two, &file2, flock(1, Shared));
    seconds(1).await;
    dropped.abort();
    seconds(1).await;
    assert_eq!(cluster.servers.mds.status().await.waits, []);
    one.client.unlock(&file1, flock(1, Shared)).await.unwrap();
    seconds(1).await;
    assert_eq!(cluster.servers.mds.status().await.locks, 0);
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_would_deadlock_is_refused() {
    let cluster = RestartCluster::new(6).await;
    let (one, two) = cluster.clients();
    let (file1, file2) = shared_file(&cluster).await;
    try_lock(one, &file1, bytes(1, 0, 0, Exclusive))
        .await
        .unwrap();
    try_lock(two, &file2, bytes(1, 1, 1, Exclusive))
        .await
        .unwrap();
    let waiting = spawn_lock(one, &file1, bytes(1, 1, 1, Exclusive));
    seconds(1).await;
    let refused = two.client.lock(&file2, bytes(1, 0, 0, Shared), pending());
    let refused = tokio::time::timeout(Duration::from_secs(60), refused);
    assert_eq!(refused.await.unwrap(), Err(FsError::Deadlock));
    two.client.unlock_at_close(&file2, 1).await.unwrap();
    assert_eq!(finish(waiting).await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn locks_of_a_lost_client_are_freed_after_its_term() {
    let cluster = RestartCluster::new(7).await;
    let (one, two) = cluster.clients();
    let (file1, file2) = shared_file(&cluster).await;
    try_lock(one, &file1, bytes(1, 0, 9, Exclusive))
        .await
        .unwrap();
    try_lock(two, &file2, bytes(1, 20, 29, Exclusive))
        .await
        .unwrap();
    let lost = spawn_lock(one, &file1, bytes(2, 20, 29, Exclusive));
    let waiting = spawn_lock(two, &file2, bytes(2, 0, 19, Exclusive));
    seconds(1).await;
    cluster.cut_off(0);
    let begun = Instant::now();
    assert_eq!(finish(waiting).await, Ok(()));
    let waited = begun.elapsed();
    let expected = SERVER_TERM - Duration::from_secs(7)..SERVER_TERM + Duration::from_secs(3);
    assert!(expected.contains(&waited), "{waited:?}");
    // The client learns that it has no locks and no waiters any more.
    cluster.reconnect(0);
    assert_eq!(finish(lost).await, Err(FsError::Stale));
    seconds(5).await;
    let stale = try_lock(one, &file1, bytes(1, 0, 9, Exclusive)).await;
    assert_eq!(stale, Err(FsError::Stale));
    one.client.unlock_at_close(&file1, 1).await.unwrap();
    one.close(file1).await;
    assert_eq!(cluster.servers.mds.status().await.locks, 2);
}

#[tokio::test(start_paused = true)]
async fn locks_survive_a_restart_of_the_metadata_server() {
    for (seed, how) in [(20, "killed"), (21, "power loss"), (22, "stopped")] {
        let mut cluster = RestartCluster::new(seed).await;
        let (one, two) = (cluster.users[0].clone(), cluster.users[1].clone());
        let (file1, file2) = shared_file(&cluster).await;
        try_lock(&one, &file1, bytes(1, 0, 9, Exclusive))
            .await
            .unwrap();
        try_lock(&one, &file1, flock(2, Shared)).await.unwrap();
        let waiting = spawn_lock(&two, &file2, bytes(1, 5, 5, Shared));
        seconds(1).await;
        match how {
            "stopped" => cluster.restart_cleanly().await,
            _ => cluster.restart(how == "power loss").await,
        }
        cluster.reconnect(1);
        let (user, file) = (two.clone(), file2.clone());
        let early = tokio::spawn(async move { try_lock(&user, &file, flock(1, Exclusive)).await });
        seconds(5).await;
        // The client that has not reconnected may hold it.
        assert!(!early.is_finished() && !waiting.is_finished(), "{how}");
        cluster.reconnect(0);
        assert_eq!(finish(early).await, Err(FsError::WouldBlock), "{how}");
        try_lock(&two, &file2, flock(1, Shared)).await.unwrap();
        seconds(30).await;
        assert!(!waiting.is_finished(), "{how}");
        one.client
            .unlock(&file1, bytes(1, 0, 9, Shared))
            .await
            .unwrap();
        assert_eq!(finish(waiting).await, Ok(()), "{how}");
        one.close(file1).await;
        two.close(file2).await;
        assert_eq!(cluster.servers.mds.status().await.locks, 0, "{how}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lock_is_granted_to_another_only_once_the_end_of_its_session_is_durable() {
    for seed in 20..30 {
        let mut cluster = RestartCluster::new(seed).await;
        let (one, two) = (cluster.users[0].clone(), cluster.users[1].clone());
        let (file1, file2) = shared_file(&cluster).await;
        try_lock(&one, &file1, flock(1, Exclusive)).await.unwrap();
        let waiting = spawn_lock(&two, &file2, flock(1, Exclusive));
        seconds(1).await;
        cluster.cut_off(0);
        assert_eq!(finish(waiting).await, Ok(()));
        let session = two.client.session();
        cluster.restart(true).await;
        // The former holder reconnects first, and reclaims the lock.
        cluster.reconnect(0);
        seconds(1).await;
        cluster.reconnect(1);
        let stale = try_lock(&one, &file1, flock(1, Exclusive)).await;
        assert_eq!(stale, Err(FsError::Stale), "seed {seed}");
        two.client.unlock(&file2, flock(1, Shared)).await.unwrap();
        assert_eq!(two.client.session(), session, "seed {seed}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lock_request_delivered_twice_is_done_once() {
    let cluster = RestartCluster::new(8).await;
    let (one, two) = cluster.clients();
    let (file1, file2) = shared_file(&cluster).await;
    cluster.connections[0]
        .duplicate_delay_max
        .store(40, Relaxed);
    cluster.connections[1]
        .duplicate_delay_max
        .store(40, Relaxed);
    for round in 0..100 {
        let mode = [Shared, Exclusive][round % 2];
        try_lock(one, &file1, bytes(1, 0, 9, mode)).await.unwrap();
        // A late copy of an earlier unlock would have freed it.
        tokio::time::sleep(Duration::from_millis(round as u64 % 50)).await;
        let other = try_lock(two, &file2, bytes(1, 9, 9, Exclusive)).await;
        assert_eq!(other, Err(FsError::WouldBlock), "round {round}");
        one.client
            .unlock(&file1, bytes(1, 0, 9, Shared))
            .await
            .unwrap();
        // A late copy of an earlier lock request would have taken it.
        tokio::time::sleep(Duration::from_millis(round as u64 * 3 % 50)).await;
        try_lock(two, &file2, bytes(1, 9, 9, Exclusive))
            .await
            .unwrap();
        two.client
            .unlock(&file2, bytes(1, 9, 9, Shared))
            .await
            .unwrap();
    }
    seconds(1).await;
    assert_eq!(cluster.servers.mds.status().await.locks, 0);
}
