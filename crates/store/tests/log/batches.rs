//! Batches come back in order; callers share writes and syncs; a failed sync closes the log.

use super::fixture::{SEGMENT, all, disk, open, simulate, some_log};
use gupfs_platform::fake::{FakeDisk, FakePlatform};
use gupfs_proto::{OwnerEpoch, Seq};
use gupfs_store::log::{LogError, StopMode};
use std::time::Duration;

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

/// The server was killed after it had begun a segment and before it wrote a record there, and the index has all batches: the scan
/// reads only that segment. Headers of older programs do not name the owner.
#[test]
fn the_owner_is_known_even_if_the_newest_segment_has_no_record() {
    for is_old_header in [false, true] {
        simulate(async {
            let (disk, platform) = (disk(1), FakePlatform::new(1));
            for _ in 0..3 {
                drop(open(&disk, &platform, Seq(0)).await.unwrap());
                disk.crash();
            }
            some_log(&disk, &platform, 150).await;
            let newest = "0000000000000002.log";
            let mut header = disk.bytes(newest)[..512].to_vec();
            let first = u64::from_le_bytes(header[48..56].try_into().unwrap());
            assert!((2..150).contains(&first), "{first}");
            disk.overwrite(newest, 4096, &vec![0; SEGMENT as usize - 4096]);
            if is_old_header {
                header[72..80].fill(0);
                let crc = crc32c::crc32c(&header[..508]);
                header[508..].copy_from_slice(&crc.to_le_bytes());
                disk.overwrite(newest, 0, &header);
            }
            let (_log, recovery, _) = open(&disk, &platform, Seq(first - 1)).await.unwrap();
            let found = (recovery.last, recovery.last_epoch, recovery.epoch);
            assert_eq!(found, (Seq(first - 1), OwnerEpoch(4), OwnerEpoch(5)));
        });
    }
}
