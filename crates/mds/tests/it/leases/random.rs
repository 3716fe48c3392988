//! Sessions that read, change and answer revocations at random moments: what one may answer from its memory is always what a session without
//! leases reads from the server.

mod memory;
mod operations;

use super::session::start;
use crate::client::Client;
use crate::fixture::{Simulated, simulate};
use gupfs_platform::fake::FakeRandom;
use gupfs_proto::meta::MetaOp;
use memory::RememberingSession;
use operations::{Files, read_value};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

const SESSIONS: usize = 3;
const STEPS: usize = 400;

/// The work of one session: mostly reads, a few at a time.
async fn work(session: Arc<RememberingSession>, files: Arc<Files>, dice: FakeRandom) {
    let mut under_way = JoinSet::new();
    for _ in 0..STEPS {
        let op = match dice.u64() % 5 {
            0 => files.random_change(&dice),
            _ => files.random_read(&dice),
        };
        let (session, files) = (session.clone(), files.clone());
        under_way.spawn(async move { session.send(op, &files).await });
        if dice.one_in(4) {
            tokio::time::sleep(Duration::from_millis(dice.u64() % 40)).await;
        }
        if under_way.len() > 3 {
            under_way.join_next().await;
        }
    }
    under_way.join_all().await;
}

/// Compares what sessions remember with what the server says, until it is aborted. Returns never; counts the comparisons.
async fn compare(
    observer: Client,
    sessions: Vec<Arc<RememberingSession>>,
    files: Arc<Files>,
    dice: FakeRandom,
    compared: Arc<std::sync::atomic::AtomicU64>,
) {
    loop {
        tokio::time::sleep(Duration::from_millis(dice.u64() % 3)).await;
        let op = files.random_read(&dice);
        let before: Vec<_> = sessions.iter().map(|one| one.remembered(&op)).collect();
        if before.iter().all(Option::is_none) {
            continue;
        }
        let now = read_value(&op, &observer.read(op.clone()).await);
        // A file without a name is opened by those only who have it open.
        if now.is_none() && matches!(op, MetaOp::Open { .. }) {
            continue;
        }
        for (session, before) in sessions.iter().zip(before) {
            let Some((number, value)) = before else {
                continue;
            };
            // It is still remembered: so no change of it was made meanwhile.
            if session
                .remembered(&op)
                .is_some_and(|(again, _)| again == number)
            {
                assert_eq!(
                    Some(&value),
                    now.as_ref(),
                    "{op:?}, session {}",
                    session.id()
                );
                compared.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            }
        }
    }
}

async fn run(seed: u64) -> u64 {
    let fixture = Simulated::new(seed);
    let instance = start(&fixture).await;
    let dice = FakeRandom::new(seed);
    let observer = Client::open(&instance.mds).await;
    let files = Arc::new(Files::new(&observer).await);
    let mut sessions = Vec::new();
    for _ in 0..SESSIONS {
        sessions.push(RememberingSession::open(&instance.mds, dice.fork()).await);
    }
    let compared = Arc::default();
    let comparing = tokio::spawn(compare(
        observer,
        sessions.clone(),
        files.clone(),
        dice.fork(),
        Arc::clone(&compared),
    ));
    let working: Vec<_> = (sessions.iter())
        .map(|session| tokio::spawn(work(session.clone(), files.clone(), dice.fork())))
        .collect();
    for work in working {
        work.await.unwrap();
    }
    assert!(!comparing.is_finished(), "{:?}", comparing.await);
    comparing.abort();
    let revocations: usize = sessions.iter().map(|one| one.revocations()).sum();
    assert!(revocations > 20, "seed {seed}: {revocations} revocations");
    compared.load(std::sync::atomic::Ordering::Relaxed)
}

#[test]
fn what_a_session_remembers_is_always_what_the_server_says() {
    let seeds = std::env::var("GUPFS_SEEDS").map_or(6, |seeds| seeds.parse().unwrap());
    let only = std::env::var("GUPFS_SEED")
        .ok()
        .map(|seed| seed.parse().unwrap());
    let mut compared = 0;
    for seed in only.map_or(1..=seeds, |seed: u64| seed..=seed) {
        eprintln!("seed {seed}");
        compared += simulate(run(seed));
    }
    assert!(compared > 100, "{compared} comparisons");
}
