//! Opens a log with changed bytes: it opens with batches that were staged, or is refused.

use crate::patches::lay;
use gupfs_platform::fake::{FakeDisk, FakeOptions, FakePlatform};
use gupfs_proto::{ClusterId, Incarnation, Seq};
use gupfs_store::log::{Log, LogOptions, StoreId};

const BATCHES: [&[u8]; 6] = [b"one", b"two", &[3; 3_000], b"", &[5; 9_000], b"six"];

fn options() -> LogOptions {
    LogOptions {
        segment_bytes: 16 << 10,
        ..LogOptions::new(StoreId {
            cluster: ClusterId(1),
            incarnation: Incarnation(2),
        })
    }
}

pub fn log(input: &[u8]) {
    crate::simulate(async {
        let platform = FakePlatform::new(1);
        let disk = FakeDisk::new(FakeOptions::default(), 1);
        let (log, ..) = Log::open(disk.disk(), options(), Seq(0), platform.platform())
            .await
            .expect("a log opens on an empty disk");
        for batch in BATCHES {
            // The log refuses a batch that is too large.
            let _ = log.stage(0, |out| out.extend_from_slice(batch));
        }
        log.make_durable(log.last()).await.expect("the disk works");
        drop(log);
        platform.tasks.kill();
        disk.restart();
        lay(&disk, input, |_| true);
        let opened = Log::open(
            disk.disk(),
            options(),
            Seq(0),
            FakePlatform::new(2).platform(),
        )
        .await;
        let Ok((_log, recovery, mut replay)) = opened else {
            return;
        };
        assert!(recovery.last.0 <= BATCHES.len() as u64);
        let mut next = 1;
        while let Ok(Some(record)) = replay.next().await {
            assert_eq!(record.seq.0, next);
            assert_eq!(&record.body[..], BATCHES[next as usize - 1]);
            next += 1;
        }
    });
}
