//! A log on a simulated disk, and what the tests do with it.

use gupfs_platform::fake::{FakeDisk, FakeOptions, FakePlatform};
use gupfs_proto::{ClusterId, Incarnation, Seq};
use gupfs_store::log::{Log, LogError, LogOptions, LogRecovery, LogReplay, StoreId};
use std::future::Future;
use std::time::Duration;

pub const SEGMENT: u64 = 16 << 10;

pub fn options() -> LogOptions {
    LogOptions {
        segment_bytes: SEGMENT,
        ..LogOptions::new(StoreId {
            cluster: ClusterId(1),
            incarnation: Incarnation(2),
        })
    }
}

/// Runs a future on one thread, in simulated time that passes only when all tasks sleep.
pub fn simulate<T>(run: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap()
        .block_on(async { tokio::time::timeout(Duration::from_secs(3600), run).await })
        .expect("a future waited forever")
}

pub fn disk(seed: u64) -> FakeDisk {
    let options = FakeOptions {
        yields: true,
        ..FakeOptions::default()
    };
    FakeDisk::new(options, seed)
}

pub type Opened = Result<(Log, LogRecovery, LogReplay), LogError>;

pub async fn open(disk: &FakeDisk, platform: &FakePlatform, applied: Seq) -> Opened {
    Log::open(disk.disk(), options(), applied, platform.platform()).await
}

pub async fn all(mut replay: LogReplay) -> Vec<(u64, Vec<u8>)> {
    let mut found = Vec::new();
    while let Some(record) = replay.next().await.unwrap() {
        found.push((record.seq.0, record.body.to_vec()));
    }
    found
}

pub async fn stage_and_sync(log: &Log, bodies: &[&[u8]]) {
    for body in bodies {
        log.stage(0, |out| out.extend_from_slice(body)).unwrap();
    }
    log.make_durable(log.last()).await.unwrap();
}

/// Writes a log with batches of 104 bytes; returns the offsets of their records.
pub async fn some_log(disk: &FakeDisk, platform: &FakePlatform, batches: u64) -> Vec<u64> {
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
