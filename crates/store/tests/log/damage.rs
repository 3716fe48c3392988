//! Damage, missing segments, foreign logs and torn tails: what a start refuses, and what never comes back.

use super::fixture::{SEGMENT, all, disk, open, options, simulate, some_log, stage_and_sync};
use gupfs_platform::fake::{FakeDisk, FakePlatform};
use gupfs_proto::{Incarnation, OwnerEpoch, Seq, ShardGroup};
use gupfs_store::log::{Log, LogError, StopMode};
use std::collections::BTreeSet;

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
        let empty = crate::fixture::disk(2);
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
        let mut of_other_group = options();
        of_other_group.epoch = Some(OwnerEpoch::new(ShardGroup(1), 10));
        let opened = Log::open(disk.disk(), of_other_group, Seq(0), platform.platform()).await;
        assert!(matches!(opened.err(), Some(LogError::StaleEpoch { .. })));
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
