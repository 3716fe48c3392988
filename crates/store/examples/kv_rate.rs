//! Measures how fast one thread stages and commits small batches, how long a peek takes, and how much memory the
//! records of a million files take: `cargo run --release -p gupfs-store --example kv_rate -- DIR`. DIR must be empty
//! and on the disk to measure.
#![allow(clippy::disallowed_methods)] // a benchmark uses the real clock

use bytes::Bytes;
use gupfs_platform::{Disk, Platform};
use gupfs_proto::{ClusterId, Incarnation};
use gupfs_store::index::{Index, OPEN_TABLES_MAX};
use gupfs_store::kv::{Kv, KvOptions};
use gupfs_store::log::{LogOptions, StopMode, StoreId};
use std::path::Path;
use std::time::Instant;

const BATCHES: u64 = 1_000_000;

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = std::env::args()
        .nth(1)
        .ok_or("usage: kv_rate DIR (an empty directory on the disk to measure)")?;
    let store = StoreId {
        cluster: ClusterId(1),
        incarnation: Incarnation(2),
    };
    let index = Index::open_fjall(&Path::new(&dir).join("index"), OPEN_TABLES_MAX)?;
    let options = KvOptions::new(LogOptions::new(store));
    let (kv, _) = Kv::open(Disk::real(&dir)?, index, options, Platform::real()).await?;
    // On a worker thread, as a reactor would.
    tokio::spawn(async move { measure(&kv).await }).await??;
    Ok(())
}

async fn measure(kv: &Kv) -> Result<(), gupfs_store::kv::KvError> {
    burst(kv).await?;
    let start = Instant::now();
    let mut slowest = 0;
    for number in 0..BATCHES {
        if !kv.has_space() {
            kv.wait_for_space().await?;
        }
        let before = Instant::now();
        let seq = kv.stage(0, create(number)).unwrap();
        kv.wait_committed(seq).await?;
        slowest = slowest.max(before.elapsed().as_micros());
        if (number + 1) % (BATCHES / 5) == 0 {
            report(kv, number + 1, start, slowest);
            slowest = 0;
        }
    }
    peeks(kv);
    let start = Instant::now();
    kv.stop(StopMode::Clean).await?;
    println!("stop: {:.2} s", start.elapsed().as_secs_f64());
    Ok(())
}

/// Stages as many batches as fit into memory before the index slows them down, and measures this thread's CPU time,
/// which other load does not lengthen.
async fn burst(kv: &Kv) -> Result<(), gupfs_store::kv::KvError> {
    const BURST: u64 = 50_000;
    let batches: Vec<_> = (0..BURST).map(create).collect();
    let start = thread_time();
    for batch in batches {
        let seq = kv.stage(0, batch).unwrap();
        kv.wait_committed(seq).await?; // no other task commits, so this thread writes itself
    }
    let micros = (thread_time() - start) as f64 / 1000.0 / BURST as f64;
    println!("stage + commit: {micros:.2} µs of CPU time per batch");
    kv.wait_durable(kv.last_seq()).await
}

/// CPU time of this thread in nanoseconds.
fn thread_time() -> i64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// The batch of a file's creation: its inode, its dentry, its directory's inode.
fn create(number: u64) -> Vec<(Bytes, Option<Bytes>)> {
    let inode = [&b"\0\0I"[..], &number.to_be_bytes()].concat();
    let hash = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let entry = [
        &b"\0\0E\0\0\0\0\0\0\0\x01"[..],
        &hash.to_be_bytes(),
        b"file-name",
    ]
    .concat();
    vec![
        (inode.into(), Some(Bytes::from(vec![7; 200]))),
        (entry.into(), Some(Bytes::from_static(&[1; 20]))),
        (
            Bytes::from_static(b"\0\0I\0\0\0\0\0\0\0\0"),
            Some(Bytes::from(vec![3; 220])),
        ),
    ]
}

fn report(kv: &Kv, number: u64, start: Instant, slowest: u128) {
    let rate = number as f64 / start.elapsed().as_secs_f64() / 1000.0;
    let stats = kv.stats();
    println!(
        "{number:>8} batches, {rate:.0} k/s, slowest {slowest} µs, behind {}, {} batches per group, {} syncs, {} MiB resident",
        stats.staged.0 - stats.applied.0,
        stats.grouped.checked_div(stats.groups).unwrap_or(0),
        stats.log.syncs,
        resident_mib(),
    );
}

fn peeks(kv: &Kv) {
    let keys: Vec<Bytes> = (BATCHES - 10_000..BATCHES)
        .map(|n| create(n)[0].0.clone())
        .collect();
    let start = thread_time();
    let known = (0..100)
        .flat_map(|_| &keys)
        .filter(|key| kv.peek(key) != gupfs_store::kv::PeekResult::Unknown)
        .count();
    let nanos = (thread_time() - start) / (100 * keys.len() as i64);
    println!("peek: {nanos} ns, {known} of {} known", 100 * keys.len());
}

fn resident_mib() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = pages
        .split(' ')
        .nth(1)
        .and_then(|word| word.parse::<u64>().ok());
    pages.unwrap_or(0) * 4096 / (1 << 20)
}
