//! Programs that lock at random, while requests are delivered twice and late, and the metadata server is killed, loses power and
//! is stopped: at no moment do two programs hold conflicting locks; and in the end no lock is left.

use crate::locks::{bytes, flock};
use crate::sessions::RestartCluster;
use crate::user::User;
use gupfs_client::{LockSpec, OpenFile};
use gupfs_platform::fake::FakeRandom;
use gupfs_proto::FsError;
use gupfs_proto::lock::{LockFamily, LockMode};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

const OWNERS: u64 = 3;
const BYTES: u64 = 6;

/// Locks that were granted to programs, and that they have not begun to free.
#[derive(Default)]
struct GrantedLocks {
    held: Mutex<Vec<(usize, LockSpec)>>,
    granted: AtomicU64,
    refused: AtomicU64,
    ends: AtomicBool,
}

impl GrantedLocks {
    fn add(&self, client: usize, spec: LockSpec) {
        let mut held = self.held.lock();
        for (other, other_spec) in held.iter() {
            let excludes = other_spec.family == spec.family
                && other_spec.range.overlaps(spec.range)
                && (other_spec.mode == LockMode::Exclusive || spec.mode == LockMode::Exclusive);
            assert!(
                !excludes,
                "{client} has {spec:?}, and {other} {other_spec:?}"
            );
        }
        held.push((client, spec));
        self.granted.fetch_add(1, Relaxed);
    }

    fn remove(&self, client: usize, spec: LockSpec) {
        self.held.lock().retain(|held| *held != (client, spec));
    }
}

/// One lock owner: it holds one lock at a time.
async fn program(
    granted_locks: Arc<GrantedLocks>,
    (client, user): (usize, User),
    file: Arc<OpenFile>,
    (owner, dice): (u64, FakeRandom),
) {
    let random = |below: u64| dice.u64() % below;
    let nap = async |millis| tokio::time::sleep(Duration::from_millis(random(millis))).await;
    while !granted_locks.ends.load(Relaxed) {
        nap(300).await;
        let mode = [LockMode::Shared, LockMode::Exclusive][random(2) as usize];
        let first = random(BYTES);
        let spec = match random(3) {
            0 => flock(owner, mode),
            _ => bytes(owner, first, first + random(BYTES - first), mode),
        };
        let taken = match random(4) {
            0 => user.client.try_lock(&file, spec).await,
            1 => user.client.lock(&file, spec, nap(2_000)).await,
            _ => user.client.lock(&file, spec, std::future::pending()).await,
        };
        match taken {
            Ok(()) => {}
            Err(FsError::WouldBlock | FsError::Interrupted) => {
                granted_locks.refused.fetch_add(1, Relaxed);
                continue;
            }
            Err(error) => panic!("{client}: {error}"),
        }
        granted_locks.add(client, spec);
        nap(500).await;
        granted_locks.remove(client, spec);
        match (spec.family, random(2)) {
            (LockFamily::Record, 0) => user.client.unlock_at_close(&file, owner).await.unwrap(),
            _ => user.client.unlock(&file, spec).await.unwrap(),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn no_two_programs_hold_conflicting_locks_whatever_happens_to_the_server() {
    let (mut granted, mut refused) = (0, 0);
    for seed in 0..30 {
        let dice = FakeRandom::new(seed);
        let mut cluster = RestartCluster::new(seed).await;
        let file1 = cluster.users[0].create("file").await;
        let file2 = cluster.users[1].open(file1.ino()).await;
        let files = [file1, file2];
        let granted_locks = Arc::new(GrantedLocks::default());
        let mut programs = Vec::new();
        for (client, file) in files.iter().enumerate() {
            cluster.connections[client]
                .duplicate_delay_max
                .store(1_500, Relaxed);
            for owner in 0..OWNERS {
                programs.push(tokio::spawn(program(
                    granted_locks.clone(),
                    (client, cluster.users[client].clone()),
                    file.clone(),
                    (owner, dice.fork()),
                )));
            }
        }
        for _ in 0..6 {
            let millis = dice.u64() % 6_000;
            tokio::time::sleep(Duration::from_millis(millis)).await;
            match dice.u64() % 3 {
                0 => cluster.restart(false).await,
                1 => cluster.restart(true).await,
                _ => cluster.restart_cleanly().await,
            }
            let first = (dice.u64() % 2) as usize;
            cluster.reconnect(first);
            tokio::time::sleep(Duration::from_millis(dice.u64() % 8_000)).await;
            cluster.reconnect(1 - first);
        }
        granted_locks.ends.store(true, Relaxed);
        for program in programs {
            let ended = tokio::time::timeout(Duration::from_secs(300), program);
            ended.await.expect("a lock request never ends").unwrap();
        }
        for (user, file) in cluster.users.iter().zip(files) {
            user.close(file).await;
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
        let status = cluster.servers.mds.status().await;
        assert_eq!((status.locks, status.waits), (0, vec![]), "seed {seed}");
        granted += granted_locks.granted.load(Relaxed);
        refused += granted_locks.refused.load(Relaxed);
    }
    assert!(granted > 1_000 && refused > 100, "{granted}, {refused}");
}
