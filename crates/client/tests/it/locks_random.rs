//! Programs that lock at random, while requests come twice and late, and the metadata server is killed, cut from power and
//! stopped: at no moment have two of them been told that they hold what excludes each other; and in the end nothing is left.

use crate::locks::{bytes, flock};
use crate::sessions::Site;
use crate::user::User;
use gupfs_client::{LockWish, OpenFile};
use gupfs_platform::fake::FakeDice;
use gupfs_proto::Refusal;
use gupfs_proto::lock::{Kind, Mode};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

const OWNERS: u64 = 3;
const BYTES: u64 = 6;

/// What programs were told that they hold, and have not begun to give back.
#[derive(Default)]
struct Told {
    held: Mutex<Vec<(usize, LockWish)>>,
    granted: AtomicU64,
    refused: AtomicU64,
    ends: AtomicBool,
}

impl Told {
    fn has(&self, client: usize, wish: LockWish) {
        let mut held = self.held.lock();
        for (other, theirs) in held.iter() {
            let excludes = theirs.kind == wish.kind
                && theirs.extent.overlaps(wish.extent)
                && (theirs.mode == Mode::Exclusive || wish.mode == Mode::Exclusive);
            assert!(!excludes, "{client} has {wish:?}, and {other} {theirs:?}");
        }
        held.push((client, wish));
        self.granted.fetch_add(1, Relaxed);
    }

    fn gives_back(&self, client: usize, wish: LockWish) {
        self.held.lock().retain(|held| *held != (client, wish));
    }
}

/// One owner's life: it has one lock at a time.
async fn program(
    told: Arc<Told>,
    (client, user): (usize, User),
    file: Arc<OpenFile>,
    (owner, dice): (u64, FakeDice),
) {
    let random = |below: u64| dice.u64() % below;
    let nap = async |millis| tokio::time::sleep(Duration::from_millis(random(millis))).await;
    while !told.ends.load(Relaxed) {
        nap(300).await;
        let mode = [Mode::Shared, Mode::Exclusive][random(2) as usize];
        let first = random(BYTES);
        let wish = match random(3) {
            0 => flock(owner, mode),
            _ => bytes(owner, first, first + random(BYTES - first), mode),
        };
        let taken = match random(4) {
            0 => user.client.try_lock(&file, wish).await,
            1 => user.client.lock(&file, wish, nap(2_000)).await,
            _ => user.client.lock(&file, wish, std::future::pending()).await,
        };
        match taken {
            Ok(()) => {}
            Err(Refusal::WouldBlock | Refusal::Interrupted) => {
                told.refused.fetch_add(1, Relaxed);
                continue;
            }
            Err(refusal) => panic!("{client}: {refusal}"),
        }
        told.has(client, wish);
        nap(500).await;
        told.gives_back(client, wish);
        match (wish.kind, random(2)) {
            (Kind::Record, 0) => user.client.unlock_at_close(&file, owner).await.unwrap(),
            _ => user.client.unlock(&file, wish).await.unwrap(),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn whatever_happens_to_the_server_no_two_hold_what_excludes_each_other() {
    let (mut granted, mut refused) = (0, 0);
    for seed in 0..30 {
        let dice = FakeDice::new(seed);
        let mut site = Site::new(seed).await;
        let mine = site.users[0].create("file").await;
        let his = site.users[1].open(mine.ino()).await;
        let files = [mine, his];
        let told = Arc::new(Told::default());
        let mut programs = Vec::new();
        for (client, file) in files.iter().enumerate() {
            site.ways[client].twice.store(1_500, Relaxed);
            for owner in 0..OWNERS {
                programs.push(tokio::spawn(program(
                    told.clone(),
                    (client, site.users[client].clone()),
                    file.clone(),
                    (owner, dice.fork()),
                )));
            }
        }
        for _ in 0..6 {
            let millis = dice.u64() % 6_000;
            tokio::time::sleep(Duration::from_millis(millis)).await;
            match dice.u64() % 3 {
                0 => site.restart(false).await,
                1 => site.restart(true).await,
                _ => site.restart_in_order().await,
            }
            let first = (dice.u64() % 2) as usize;
            site.reconnect(first);
            tokio::time::sleep(Duration::from_millis(dice.u64() % 8_000)).await;
            site.reconnect(1 - first);
        }
        told.ends.store(true, Relaxed);
        for program in programs {
            let ended = tokio::time::timeout(Duration::from_secs(300), program);
            ended.await.expect("somebody waits for ever").unwrap();
        }
        for (user, file) in site.users.iter().zip(files) {
            user.close(file).await;
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
        let status = site.servers.mds.status().await;
        assert_eq!((status.locks, status.waits), (0, vec![]), "seed {seed}");
        granted += told.granted.load(Relaxed);
        refused += told.refused.load(Relaxed);
    }
    assert!(granted > 1_000 && refused > 100, "{granted}, {refused}");
}
