//! The log compared with what its callers know, over many crashes.

use super::fixture::{disk, open, simulate};
use gupfs_platform::fake::{CallKind, FakeDisk, FakePlatform, FakeRandom};
use gupfs_proto::{OwnerEpoch, Seq};
use gupfs_store::log::{Log, LogError, StopMode};
use std::time::Duration;

/// What a caller knows of a log.
#[derive(Default)]
struct Model {
    /// The body of each batch, by seq from 1.
    bodies: Vec<Vec<u8>>,
    committed: u64,
    durable: u64,
    applied: u64,
    /// The newest owner that opened the log.
    owner: OwnerEpoch,
}

/// Counts of what happened, to prove that the test covers it.
#[derive(Default, Debug)]
struct Coverage {
    torn: u64,
    dropped: u64,
    deaths_in_opening: u64,
    lost: u64,
    rolled: u64,
    removed: u64,
    failed_syncs: u64,
    stopped: u64,
}

/// One instance of a log: opens it, checks its content, works, dies.
async fn run_instance(
    disk: &FakeDisk,
    random: &FakeRandom,
    model: &mut Model,
    seen: &mut Coverage,
) {
    let platform = FakePlatform::new(random.u64());
    let kinds = [
        CallKind::Any,
        CallKind::Sync,
        CallKind::Write,
        CallKind::Name,
    ];
    let kind = kinds[random.below(4) as usize];
    let far = if kind == CallKind::Any { 400 } else { 60 };
    if random.one_in(2) {
        disk.die_at(kind, random.below(far) + 1);
    } else if random.one_in(4) {
        disk.fail_sync(random.below(20) + 5);
    }
    let opened = open(disk, &platform, Seq(model.applied)).await;
    let (log, recovery, replay) = match opened {
        Ok(opened) => opened,
        Err(LogError::Disk(_)) => {
            seen.deaths_in_opening += 1;
            platform.tasks.kill();
            return;
        }
        Err(error) => panic!("an ordinary crash was reported as damage: {error}"),
    };
    let last = recovery.last.0;
    assert!(
        last >= model.committed,
        "batch {} lost: {recovery:?}",
        model.committed
    );
    assert!(
        last <= model.bodies.len() as u64,
        "a batch was recovered that was never staged: {recovery:?}"
    );
    assert!(
        recovery.epoch > model.owner,
        "the owner after {} is {}: {recovery:?}",
        model.owner,
        recovery.epoch
    );
    model.owner = recovery.epoch;
    seen.torn += u64::from(recovery.torn_tail.is_some());
    seen.dropped += recovery.torn_tail.map_or(0, |torn| torn.dropped);
    seen.lost += model.bodies.len() as u64 - last;
    model.bodies.truncate(last as usize);
    (model.committed, model.durable) = (last, last);
    let mut expected = model.applied;
    let mut replay = replay;
    loop {
        match replay.next().await {
            Ok(Some(record)) => {
                expected += 1;
                assert_eq!(record.seq.0, expected);
                assert_eq!(record.body, model.bodies[expected as usize - 1]);
            }
            Ok(None) => break,
            Err(LogError::Disk(_)) => return platform.tasks.kill(),
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(expected, last);
    let before = log.stats();
    // `work` returns at the first failure: the log is closed then.
    let worked = work(&log, random, model).await;
    if worked.is_ok() && random.one_in(4) && log.stop(StopMode::Clean).await.is_ok() {
        seen.stopped += 1;
        model.durable = log.last().0;
        model.committed = model.durable;
    }
    seen.rolled += log.stats().segments;
    seen.removed += (before.live + log.stats().segments).saturating_sub(log.stats().live);
    seen.failed_syncs += u64::from(log.closed().is_some() && !disk.is_dead());
    platform.tasks.kill();
}

async fn work(log: &Log, random: &FakeRandom, model: &mut Model) -> Result<(), LogError> {
    for _ in 0..random.below(60) {
        match random.below(10) {
            0..=4 => {
                for _ in 0..random.below(8) + 1 {
                    let len = match random.below(4) {
                        0 => 0,
                        1 => random.below(4000),
                        _ => random.below(200),
                    };
                    let mut body = vec![0; len as usize];
                    random.fill(&mut body);
                    let seq = log.stage(0, |out| out.extend_from_slice(&body)).unwrap();
                    model.bodies.push(body);
                    assert_eq!(seq.0, model.bodies.len() as u64);
                }
            }
            5 => {
                let seq = random.below(model.bodies.len() as u64 + 1);
                log.commit(Seq(seq)).await?;
                model.committed = model.committed.max(seq);
            }
            6 => {
                let seq = random.below(model.bodies.len() as u64 + 1);
                log.make_durable(Seq(seq)).await?;
                model.durable = model.durable.max(seq);
            }
            7 => tokio::time::sleep(Duration::from_millis(random.below(60))).await,
            8 => {
                let durable = log.durable().0;
                model.durable = model.durable.max(durable);
                // Often all of it: then the next scan may begin in a segment that has no record yet.
                let applied = match random.one_in(2) {
                    true => durable,
                    false => random.below(durable + 1),
                };
                model.applied = model.applied.max(applied);
                log.trim_to(Seq(model.applied));
            }
            _ => tokio::task::yield_now().await,
        }
        model.durable = model.durable.max(log.durable().0);
        model.committed = model.committed.max(log.committed().0);
    }
    Ok(())
}

fn run_instances(seed: u64, seen: &mut Coverage) -> u64 {
    simulate(async {
        let disk = disk(seed);
        let random = FakeRandom::new(seed ^ 0x5eed);
        let mut model = Model::default();
        for _ in 0..8 {
            run_instance(&disk, &random, &mut model, seen).await;
            disk.kill();
            tokio::task::yield_now().await;
            if random.one_in(4) {
                disk.restart();
            } else {
                disk.crash();
                model.committed = model.durable; // the page cache is gone
            }
        }
        model
            .bodies
            .iter()
            .fold(disk.counters().reads, |sum, body| {
                sum.wrapping_mul(31).wrapping_add(body.len() as u64)
            })
    })
}

#[test]
fn durable_batches_survive_every_crash_and_no_batch_is_invented() {
    let mut seen = Coverage::default();
    for seed in 0..500 {
        run_instances(seed, &mut seen);
    }
    println!("{seen:?}");
    assert!(seen.torn >= 100, "{seen:?}");
    assert!(
        seen.dropped >= 50,
        "complete records after a torn one: {seen:?}"
    );
    assert!(seen.deaths_in_opening >= 50, "{seen:?}");
    assert!(seen.lost >= 500, "{seen:?}");
    assert!(seen.rolled >= 500 && seen.removed >= 100, "{seen:?}");
    assert!(seen.failed_syncs >= 20 && seen.stopped >= 100, "{seen:?}");
}

#[test]
fn the_same_seed_gives_the_same_history() {
    for seed in 0..20 {
        let run = || run_instances(seed, &mut Coverage::default());
        assert_eq!(run(), run(), "seed {seed}");
    }
}
