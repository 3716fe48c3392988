//! A full disk, and batches that are too large.

use super::fixture::{SEGMENT, all, disk, open, options, simulate};
use gupfs_platform::fake::{FakeDisk, FakeOptions, FakePlatform};
use gupfs_proto::Seq;
use gupfs_store::log::{Headroom, LogError};
use std::time::Duration;

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
