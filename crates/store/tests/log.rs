//! The log on a disk that crashes: durable batches are there, all recovered batches were staged, and damage is
//! distinguished from torn tails.

use gupfs_platform::fake::{CallKind, FakeDisk, FakeOptions, FakePlatform, FakeRandom};
use gupfs_proto::{ClusterId, Incarnation, OwnerEpoch, Seq};
use gupfs_store::log::{
    Headroom, Log, LogError, LogOptions, LogRecovery, LogReplay, LogSurvey, LogSurveyFindings,
    StopMode, StoreId,
};
use std::collections::BTreeSet;
use std::future::Future;
use std::time::Duration;

const SEGMENT: u64 = 16 << 10;

fn options() -> LogOptions {
    LogOptions {
        segment_bytes: SEGMENT,
        ..LogOptions::new(StoreId {
            cluster: ClusterId(1),
            incarnation: Incarnation(2),
        })
    }
}

/// Runs a future on one thread, in simulated time that passes only when all tasks sleep.
fn simulate<T>(run: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap()
        .block_on(async { tokio::time::timeout(Duration::from_secs(3600), run).await })
        .expect("a future waited forever")
}

fn disk(seed: u64) -> FakeDisk {
    let options = FakeOptions {
        yields: true,
        ..FakeOptions::default()
    };
    FakeDisk::new(options, seed)
}

type Opened = Result<(Log, LogRecovery, LogReplay), LogError>;

async fn open(disk: &FakeDisk, platform: &FakePlatform, applied: Seq) -> Opened {
    Log::open(disk.disk(), options(), applied, platform.platform()).await
}

async fn all(mut replay: LogReplay) -> Vec<(u64, Vec<u8>)> {
    let mut found = Vec::new();
    while let Some(record) = replay.next().await.unwrap() {
        found.push((record.seq.0, record.body.to_vec()));
    }
    found
}

async fn stage_and_sync(log: &Log, bodies: &[&[u8]]) {
    for body in bodies {
        log.stage(0, |out| out.extend_from_slice(body)).unwrap();
    }
    log.make_durable(log.last()).await.unwrap();
}

#[test]
fn batches_come_back_in_order_with_their_shard_and_owner() {
    simulate(async {
        let (disk, platform) = (disk(1), FakePlatform::new(1));
        let (log, recovery, _) = open(&disk, &platform, Seq(0)).await.unwrap();
        assert!(recovery.is_new);
        assert_eq!(
            log.stage(7, |out| out.extend_from_slice(b"one")),
            Ok(Seq(1))
        );
        assert_eq!(
            log.stage(8, |out| out.extend_from_slice(b"two")),
            Ok(Seq(2))
        );
        log.commit(Seq(2)).await.unwrap();
        assert_eq!((log.committed(), log.durable()), (Seq(2), Seq(0)));
        log.make_durable(Seq(1)).await.unwrap();
        assert_eq!(
            log.durable(),
            Seq(2),
            "one sync covers all committed batches"
        );
        log.stop(StopMode::Clean).await.unwrap();
        drop(log);
        let (_log, recovery, mut replay) = open(&disk, &platform, Seq(0)).await.unwrap();
        assert_eq!((recovery.last, recovery.torn_tail), (Seq(2), None));
        assert_eq!(
            (recovery.last_epoch, recovery.epoch),
            (OwnerEpoch(1), OwnerEpoch(2))
        );
        let first = replay.next().await.unwrap().unwrap();
        assert_eq!(
            (first.shard, first.epoch, &first.body[..]),
            (7, OwnerEpoch(1), &b"one"[..])
        );
        let second = replay.next().await.unwrap().unwrap();
        assert_eq!((second.shard, &second.body[..]), (8, &b"two"[..]));
        assert_eq!(replay.next().await.unwrap(), None);
    });
}

#[test]
fn batches_that_no_caller_syncs_are_synced_in_the_background() {
    simulate(async {
        let (disk, platform) = (disk(1), FakePlatform::new(1));
        let (log, ..) = open(&disk, &platform, Seq(0)).await.unwrap();
        log.stage(0, |_| {}).unwrap();
        tokio::time::sleep(Duration::from_millis(19)).await;
        assert_eq!(log.durable(), Seq(0));
        tokio::time::sleep(Duration::from_millis(2)).await;
        assert_eq!(log.durable(), Seq(1));
        // A burst of more than 1,024 batches does not wait for the timer.
        for _ in 0..1024 {
            log.stage(0, |_| {}).unwrap();
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(log.durable(), Seq(1025));
        // The idle log writes one watermark, and nothing after that.
        tokio::time::sleep(Duration::from_secs(2)).await;
        let (stats, calls) = (log.stats(), disk.counters());
        tokio::time::sleep(Duration::from_secs(100)).await;
        assert_eq!((log.stats(), disk.counters()), (stats, calls));
    });
}

#[test]
fn many_waiting_callers_share_one_write_and_one_sync() {
    simulate(async {
        let (disk, platform) = (disk(1), FakePlatform::new(1));
        let (log, ..) = open(&disk, &platform, Seq(0)).await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await; // the spare segments are made
        let (log, before) = (std::sync::Arc::new(log), log_stats(&disk));
        let mut waits = tokio::task::JoinSet::new();
        for n in 0..100u64 {
            let log = std::sync::Arc::clone(&log);
            waits.spawn(async move {
                let seq = log
                    .stage(0, |out| out.extend_from_slice(&n.to_le_bytes()))
                    .unwrap();
                log.make_durable(seq).await.unwrap();
            });
        }
        while let Some(done) = waits.join_next().await {
            done.unwrap();
        }
        let after = log_stats(&disk);
        assert!(after.0 - before.0 <= 4, "writes: {before:?} {after:?}");
        assert!(after.1 - before.1 <= 4, "syncs: {before:?} {after:?}");
    });
}

fn log_stats(disk: &FakeDisk) -> (u64, u64) {
    let calls = disk.counters();
    (calls.writes, calls.syncs)
}

#[test]
fn a_failed_sync_closes_the_log_and_all_callers_get_the_error() {
    simulate(async {
        let (disk, platform) = (disk(1), FakePlatform::new(1));
        let (log, ..) = open(&disk, &platform, Seq(0)).await.unwrap();
        log.stage(0, |_| {}).unwrap();
        disk.fail_sync(1);
        let (one, two) = tokio::join!(log.make_durable(Seq(1)), log.make_durable(Seq(1)));
        assert!(matches!(one, Err(LogError::Disk(_))), "{one:?}");
        assert!(matches!(two, Err(LogError::Disk(_))), "{two:?}");
        let seq = log.stage(0, |_| {}).unwrap();
        assert!(matches!(log.commit(seq).await, Err(LogError::Disk(_))));
        assert!(matches!(
            log.make_durable(seq).await,
            Err(LogError::Disk(_))
        ));
        assert!(matches!(
            log.stop(StopMode::Clean).await,
            Err(LogError::Disk(_))
        ));
        assert!(log.wait_durable_after(Seq(0)).await.is_err());
    });
}

#[test]
fn other_callers_take_over_the_write_of_a_caller_that_gives_up() {
    for seed in 0..50 {
        simulate(async {
            let (disk, platform) = (disk(seed), FakePlatform::new(seed));
            let (log, ..) = open(&disk, &platform, Seq(0)).await.unwrap();
            for n in 1..=20u64 {
                let seq = log
                    .stage(0, |out| out.extend_from_slice(&[n as u8; 3000]))
                    .unwrap();
                // Gives up at the first point where it would wait.
                tokio::select! {
                    biased;
                    done = log.commit(seq) => done.unwrap(),
                    () = std::future::ready(()) => {}
                }
            }
            log.commit(Seq(20)).await.unwrap();
            drop(log);
            disk.restart();
            let (_log, recovery, replay) = open(&disk, &platform, Seq(0)).await.unwrap();
            assert_eq!(
                (recovery.last, recovery.torn_tail),
                (Seq(20), None),
                "seed {seed}"
            );
            let bodies = all(replay).await;
            assert!((1..=20u8).all(|n| bodies[n as usize - 1].1 == [n; 3000]));
        });
    }
}

/// What a caller knows of a log.
#[derive(Default)]
struct Model {
    /// The body of each batch, by seq from 1.
    bodies: Vec<Vec<u8>>,
    committed: u64,
    durable: u64,
    applied: u64,
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
                model.applied = model.applied.max(random.below(durable + 1));
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

/// Writes a log with batches of 104 bytes; returns the offsets of their records.
async fn some_log(disk: &FakeDisk, platform: &FakePlatform, batches: u64) -> Vec<u64> {
    let (log, ..) = open(disk, platform, Seq(0)).await.unwrap();
    let begin = 4096 + 48; // after the header and the owner's watermark
    for n in 0..batches {
        log.stage(0, |out| out.extend_from_slice(&[n as u8; 104]))
            .unwrap();
    }
    log.make_durable(Seq(batches)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await; // idle, so that it writes a watermark
    drop(log);
    disk.crash();
    (0..batches).map(|n| begin + n * 152).collect()
}

#[test]
fn a_flipped_bit_in_a_durable_batch_is_damage() {
    simulate(async {
        for (n, bit) in [(0, 3), (3, 400), (9, 1200)] {
            let (disk, platform) = (disk(1), FakePlatform::new(1));
            let starts = some_log(&disk, &platform, 10).await;
            disk.flip_bit("0000000000000001.log", starts[n] + bit / 8, (bit % 8) as u8);
            match open(&disk, &platform, Seq(0)).await.err() {
                Some(LogError::Damage {
                    segment,
                    offset,
                    seq,
                    durable,
                }) => {
                    assert_eq!(segment, "0000000000000001.log");
                    assert_eq!((offset, seq.0, durable.0), (starts[n], n as u64 + 1, 10));
                }
                other => panic!("batch {n}: {other:?}"),
            }
            // Refused again: the first open has not "repaired" anything.
            assert!(open(&disk, &platform, Seq(0)).await.is_err());
        }
    });
}

/// The seqs of the batches that a survey returns, and its findings.
async fn survey(disk: &FakeDisk, after: u64) -> (Vec<u64>, LogSurveyFindings) {
    let mut survey = LogSurvey::begin(&disk.disk(), options().store, Seq(after))
        .await
        .unwrap();
    let mut seqs = Vec::new();
    while let Some(record) = survey.next().await.unwrap() {
        seqs.push(record.seq.0);
    }
    (seqs, survey.findings().clone())
}

#[test]
fn a_survey_returns_the_batches_before_the_first_missing_one() {
    simulate(async {
        let (disk, platform) = (disk(1), FakePlatform::new(1));
        let starts = some_log(&disk, &platform, 10).await;
        disk.flip_bit("0000000000000001.log", starts[3] + 50, 3);
        let (seqs, found) = survey(&disk, 0).await;
        assert_eq!(seqs, [1, 2, 3]);
        assert_eq!(found.lost(), Some((Seq(4), Seq(10))));
        assert_eq!((found.first, found.unproven), (Some(Seq(1)), 6));
        assert_eq!(
            found.damage,
            [("0000000000000001.log".to_string(), starts[3])]
        );
        // A caller that has the damaged batch gets all others.
        let (seqs, found) = survey(&disk, 4).await;
        assert_eq!(seqs, [5, 6, 7, 8, 9, 10]);
        assert_eq!(found.lost(), None);
    });
}

#[test]
fn a_survey_of_an_intact_log_returns_all_of_it_and_changes_nothing() {
    simulate(async {
        let (disk, platform) = (disk(1), FakePlatform::new(1));
        some_log(&disk, &platform, 300).await;
        let (seqs, found) = survey(&disk, 0).await;
        assert_eq!(seqs, (1..=300).collect::<Vec<_>>());
        assert_eq!((found.proven, found.highest), (Seq(300), Seq(300)));
        assert_eq!((found.lost(), found.damage), (None, vec![]));
        let (_log, recovery, _) = open(&disk, &platform, Seq(0)).await.unwrap();
        assert_eq!(recovery.last, Seq(300));
    });
}

#[test]
fn a_survey_continues_after_a_damaged_header_and_stops_at_a_missing_segment() {
    simulate(async {
        let (disk, platform) = (disk(1), FakePlatform::new(1));
        some_log(&disk, &platform, 300).await;
        let second = "0000000000000002.log";
        disk.flip_bit(second, 20, 1);
        assert_eq!(survey(&disk, 0).await.0.len(), 300);
        disk.disk().remove_file(second).await.unwrap();
        let (seqs, found) = survey(&disk, 0).await;
        let last = *seqs.last().unwrap();
        assert!(last < 300, "{last}");
        assert_eq!(found.lost(), Some((Seq(last + 1), Seq(300))));
    });
}

#[test]
fn a_new_log_may_begin_after_a_non_empty_index() {
    simulate(async {
        let (disk, platform) = (disk(1), FakePlatform::new(1));
        let mut behind = options();
        behind.start_after_index = true;
        behind.epoch = Some(OwnerEpoch(70));
        let opened = Log::open(disk.disk(), behind, Seq(1_000), platform.platform()).await;
        let (log, recovery, _) = opened.unwrap();
        assert!(recovery.is_new && recovery.last == Seq(1_000));
        stage_and_sync(&log, &[b"one"]).await;
        log.stop(StopMode::Clean).await.unwrap();
        drop(log);
        let (_log, recovery, replay) = open(&disk, &platform, Seq(1_000)).await.unwrap();
        assert_eq!(
            (recovery.last, recovery.last_epoch),
            (Seq(1_001), OwnerEpoch(70))
        );
        assert_eq!(all(replay).await, [(1_001, b"one".to_vec())]);
    });
}

#[test]
fn the_log_must_have_the_batches_of_the_index() {
    simulate(async {
        let (disk, platform) = (disk(1), FakePlatform::new(1));
        some_log(&disk, &platform, 10).await;
        assert!(matches!(
            open(&disk, &platform, Seq(11)).await.err(),
            Some(LogError::Damage { seq: Seq(11), .. })
        ));
        let empty = crate::disk(2);
        assert!(matches!(
            open(&empty, &platform, Seq(11)).await.err(),
            Some(LogError::NoLog { .. })
        ));
        assert!(open(&disk, &platform, Seq(10)).await.is_ok());
    });
}

#[test]
fn a_damaged_header_or_a_missing_segment_is_not_taken_for_the_end() {
    simulate(async {
        for lose in [false, true] {
            let (disk, platform) = (disk(1), FakePlatform::new(1));
            some_log(&disk, &platform, 300).await;
            let second = "0000000000000002.log";
            if lose {
                disk.disk().remove_file(second).await.unwrap();
                disk.disk().sync_dir(".").await.unwrap();
            } else {
                disk.flip_bit(second, 20, 1);
            }
            let refused = open(&disk, &platform, Seq(0)).await.err();
            assert!(
                matches!(refused, Some(LogError::Damage { .. })),
                "{refused:?}"
            );
        }
    });
}

#[test]
fn segments_that_the_index_still_needs_are_reported_as_missing() {
    simulate(async {
        let (disk, platform) = (disk(1), FakePlatform::new(1));
        some_log(&disk, &platform, 300).await;
        disk.disk()
            .remove_file("0000000000000001.log")
            .await
            .unwrap();
        let refused = open(&disk, &platform, Seq(3)).await.err();
        assert!(
            matches!(
                refused,
                Some(LogError::Gap {
                    applied: Seq(3),
                    ..
                })
            ),
            "{refused:?}"
        );
    });
}

#[test]
fn the_log_of_another_store_and_an_older_owner_are_refused() {
    simulate(async {
        let (disk, platform) = (disk(1), FakePlatform::new(1));
        some_log(&disk, &platform, 1).await;
        let mut other = options();
        other.store.incarnation = Incarnation(3);
        let opened = Log::open(disk.disk(), other, Seq(0), platform.platform()).await;
        assert!(matches!(opened.err(), Some(LogError::OtherStore { .. })));
        let mut newer = options();
        newer.epoch = Some(OwnerEpoch(9));
        drop(
            Log::open(disk.disk(), newer, Seq(0), platform.platform())
                .await
                .unwrap(),
        );
        let mut older = options();
        older.epoch = Some(OwnerEpoch(8));
        let opened = Log::open(disk.disk(), older, Seq(0), platform.platform()).await;
        assert!(matches!(
            opened.err(),
            Some(LogError::StaleEpoch {
                found: OwnerEpoch(9),
                ..
            })
        ));
    });
}

/// Complete records of the former end are on disk after a torn record. Recovery must neither take them for the
/// continuation of records that are written over the torn one, nor leave them when it erases the tail.
#[test]
fn stale_records_after_a_torn_one_never_come_back() {
    let mut tears_with_records_behind = 0;
    let mut seqs = BTreeSet::new();
    for seed in 0..300 {
        simulate(async {
            let disk = disk(seed);
            let platform = FakePlatform::new(seed);
            let (log, ..) = open(&disk, &platform, Seq(0)).await.unwrap();
            stage_and_sync(&log, &[b"kept"]).await;
            // Records of exactly one sector each: any subset of them may survive.
            for n in 0..12u8 {
                let seq = log
                    .stage(0, |out| out.extend_from_slice(&[n; 464]))
                    .unwrap();
                log.commit(seq).await.unwrap();
            }
            drop(log);
            disk.crash();
            let (log, recovery, replay) = open(&disk, &platform, Seq(0)).await.unwrap();
            let kept = all(replay).await.len() as u64;
            let Some(torn) = recovery.torn_tail else {
                return;
            };
            tears_with_records_behind += u64::from(torn.dropped > 0);
            // New records of the same size are at the offsets of the old ones.
            let seq = log
                .stage(0, |out| out.extend_from_slice(&[99; 464]))
                .unwrap();
            log.make_durable(seq).await.unwrap();
            assert_eq!(seq.0, kept + 1);
            drop(log);
            disk.crash();
            let (_log, recovery, replay) = open(&disk, &platform, Seq(0)).await.unwrap();
            assert_eq!(
                (recovery.last, recovery.torn_tail),
                (seq, None),
                "seed {seed}"
            );
            assert_eq!(all(replay).await.last().unwrap().1, [99; 464]);
            seqs.insert(seq);
        });
    }
    assert!(
        tears_with_records_behind >= 50,
        "{tears_with_records_behind}"
    );
    assert!(seqs.len() >= 3, "{seqs:?}");
}

/// Erasing the tail is not the only protection: even if a disk keeps the old sectors, and even if the same owner
/// continues, an old record does not continue the chain.
#[test]
fn an_old_record_at_the_right_offset_does_not_continue_a_new_one() {
    simulate(async {
        let (disk, platform) = (disk(1), FakePlatform::new(1));
        let name = "0000000000000001.log";
        let open = async |disk: &FakeDisk, platform: &FakePlatform, applied| {
            let mut same_owner = options();
            same_owner.epoch = Some(OwnerEpoch(1));
            Log::open(disk.disk(), same_owner, applied, platform.platform()).await
        };
        let (log, ..) = open(&disk, &platform, Seq(0)).await.unwrap();
        stage_and_sync(&log, &[b"one"]).await;
        let begin = 4096 + 48 + 56;
        log.stage(0, |out| out.extend_from_slice(&[2; 464]))
            .unwrap();
        log.stage(0, |out| out.extend_from_slice(&[3; 464]))
            .unwrap();
        log.commit(Seq(3)).await.unwrap();
        let old = disk.bytes(name);
        drop(log);
        disk.crash(); // erases what survived of 2 and 3:
        disk.overwrite(name, begin, &vec![0; SEGMENT as usize - begin as usize]);
        let (log, recovery, _) = open(&disk, &platform, Seq(0)).await.unwrap();
        assert_eq!(recovery.last, Seq(1));
        log.stage(0, |out| out.extend_from_slice(&[22; 464 - 48]))
            .unwrap(); // after the new owner's watermark
        log.commit(Seq(2)).await.unwrap();
        drop(log);
        disk.restart();
        // The old batch 3 is on disk right after the new batch 2.
        let third = begin as usize + 512;
        disk.overwrite(name, third as u64, &old[third..third + 512]);
        let (_log, recovery, replay) = open(&disk, &platform, Seq(0)).await.unwrap();
        assert_eq!(recovery.last, Seq(2));
        assert_eq!(recovery.torn_tail.unwrap().dropped, 1);
        assert_eq!(all(replay).await.len(), 2);
    });
}

#[test]
fn headroom_reports_a_full_disk_early_and_space_is_reused() {
    simulate(async {
        let disk = FakeDisk::new(
            FakeOptions {
                capacity: SEGMENT * 4,
                ..FakeOptions::default()
            },
            1,
        );
        let platform = FakePlatform::new(1);
        let (log, ..) = open(&disk, &platform, Seq(0)).await.unwrap();
        let fill = async |n: u64| {
            for _ in 0..n {
                let seq = log
                    .stage(0, |out| out.extend_from_slice(&[1; 1000]))
                    .unwrap();
                log.make_durable(seq).await?;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
            Ok::<(), LogError>(())
        };
        fill(1).await.unwrap();
        assert_eq!(log.headroom(), Headroom::Plenty);
        fill(24).await.unwrap(); // into the third segment: a fifth does not fit on the disk
        let Headroom::Low(left) = log.headroom() else {
            panic!("{:?}", log.headroom());
        };
        assert!(left > 0 && left < 2 * SEGMENT, "{left}");
        // The index has caught up: the log reuses its segments.
        log.trim_to(log.durable());
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(log.headroom(), Headroom::Plenty);
        fill(24).await.unwrap();
        // No space is freed now: finally there is none left, and that is an error, not a hang.
        let last = log.last();
        assert!(matches!(fill(60).await, Err(LogError::DiskFull)));
        assert!(log.durable() > last);
        assert_eq!(log.headroom(), Headroom::None);
        let durable = log.durable();
        drop(log);
        disk.crash();
        let (_log, recovery, _) = open(&disk, &platform, Seq(25)).await.unwrap();
        assert!(recovery.last >= durable);
    });
}

#[test]
fn a_batch_above_the_limit_is_refused_and_leaves_the_log_unchanged() {
    simulate(async {
        let (disk, platform) = (disk(31), FakePlatform::new(31));
        let (log, ..) = open(&disk, &platform, Seq(0)).await.unwrap();
        assert_eq!(
            log.stage(0, |out| out.extend_from_slice(b"one")),
            Ok(Seq(1))
        );
        let most = options().record_max();
        let refused = log
            .stage(0, |out| out.resize(out.len() + most, 7))
            .unwrap_err();
        assert!(refused.bytes > most && refused.most == most, "{refused:?}");
        assert_eq!((log.last(), log.stats().batches), (Seq(1), 1));
        assert_eq!(
            log.stage(0, |out| out.extend_from_slice(b"two")),
            Ok(Seq(2))
        );
        log.make_durable(Seq(2)).await.unwrap();
        drop(log);
        platform.tasks.kill();
        tokio::task::yield_now().await;
        disk.restart();
        let platform = FakePlatform::new(32);
        let (_log, recovery, replay) = open(&disk, &platform, Seq(0)).await.unwrap();
        assert_eq!((recovery.last, recovery.torn_tail), (Seq(2), None));
        let found = all(replay).await;
        assert_eq!(found, [(1, b"one".to_vec()), (2, b"two".to_vec())]);
    });
}
