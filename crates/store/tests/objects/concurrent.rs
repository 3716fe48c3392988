//! Concurrent operations on one object: each byte that is read is one that some writer wrote, and the checksums are
//! correct.

use crate::fixture::*;
use gupfs_platform::fake::FakeRandom;
use gupfs_proto::limits::REGION;
use gupfs_store::object::{Objects, ScrubOptions, ScrubScope};
use std::sync::Arc;

const LEN: u64 = 3 * REGION;

async fn writer(objects: Objects, random: FakeRandom, version: u64) {
    for _ in 0..30 {
        let at = random.below(LEN - 100_000);
        let len = 1 + random.below(100_000);
        write(&objects, object(5), at, &pattern(version, at, len))
            .await
            .unwrap();
    }
}

async fn reader(objects: Objects, random: FakeRandom, versions: u64) {
    for _ in 0..30 {
        let at = random.below(LEN);
        let bytes = read(&objects, object(5), at, 1 + random.below(200_000))
            .await
            .unwrap();
        for (index, byte) in bytes.iter().enumerate() {
            let place = at + index as u64;
            let written = (0..versions).any(|version| pattern(version, place, 1)[0] == *byte);
            assert!(written, "no writer wrote byte {place}");
        }
    }
}

async fn checksum_flusher(objects: Objects) {
    for _ in 0..20 {
        objects.flush_checksums().await.unwrap();
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn overlapping_writers_readers_and_checksum_flushes_agree() {
    for seed in 0..12 {
        let fixture = Fixture::new(seed, true);
        let objects = fixture.fresh().await;
        write(&objects, object(5), 0, &pattern(0, 0, LEN))
            .await
            .unwrap();
        let spawner = fixture.tasks();
        let mut running = Vec::new();
        for version in 1..4 {
            running.push(spawner.spawn(
                "writer",
                writer(objects.clone(), fixture.platform.random.fork(), version),
            ));
            running.push(spawner.spawn(
                "reader",
                reader(objects.clone(), fixture.platform.random.fork(), 4),
            ));
        }
        running.push(spawner.spawn("checksum flusher", checksum_flusher(objects.clone())));
        for task in running {
            task.await.unwrap();
        }
        objects.flush_checksums().await.unwrap();
        assert_eq!(objects.status().await.dirty_regions, 0);
        let found = objects
            .scrub(ScrubOptions::new(ScrubScope::All), |_| {})
            .await
            .unwrap();
        assert_eq!((found.damaged.len(), found.verified), (0, 3));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn overlapping_writers_on_a_real_disk_agree() {
    let (_dir, objects) = real().await;
    write(&objects, object(5), 0, &pattern(0, 0, LEN))
        .await
        .unwrap();
    let random = FakeRandom::new(1);
    let spawner = gupfs_platform::Tasks::real();
    let mut running = Vec::new();
    for version in 1..4 {
        running.push(spawner.spawn("writer", writer(objects.clone(), random.fork(), version)));
        running.push(spawner.spawn("reader", reader(objects.clone(), random.fork(), 4)));
    }
    running.push(spawner.spawn("checksum flusher", checksum_flusher(objects.clone())));
    for task in running {
        task.await.unwrap();
    }
    objects.flush_checksums().await.unwrap();
    let found = objects
        .scrub(ScrubOptions::new(ScrubScope::All), |_| {})
        .await
        .unwrap();
    assert_eq!((found.damaged.len(), found.verified), (0, 3));
}

/// Writes every `of`th record, beginning with the `first`.
async fn interleaved(objects: Objects, first: u64, of: u64, record: u64) {
    for number in (first..200).step_by(of as usize) {
        let at = number * record;
        write(&objects, object(5), at, &pattern(1, at, record))
            .await
            .unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn writers_of_neighbouring_records_leave_correct_checksums() {
    for seed in 0..20 {
        let fixture = Fixture::new(seed, true);
        let objects = fixture.fresh().await;
        let record = 700 + 333 * (seed % 7);
        // Old bytes with known checksums under some of the records.
        write(&objects, object(5), 0, &pattern(0, 0, 50_000))
            .await
            .unwrap();
        let writer = |first| {
            let writer = interleaved(objects.clone(), first, 4, record);
            fixture.tasks().spawn("writer", writer)
        };
        for writer in [writer(0), writer(1), writer(2), writer(3)] {
            writer.await.unwrap();
        }
        let len = 200 * record;
        assert!(
            read(&objects, object(5), 0, len).await.unwrap() == pattern(1, 0, len),
            "seed {seed}"
        );
        objects.flush_checksums().await.unwrap();
        let found = objects
            .scrub(ScrubOptions::new(ScrubScope::All), |_| {})
            .await
            .unwrap();
        assert_eq!(found.damaged, [], "seed {seed}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_writer_that_gives_up_leaves_no_wrong_checksum() {
    for seed in 0..40 {
        let fixture = Fixture::new(seed, true);
        let objects = fixture.fresh().await;
        let id = object(5);
        write(&objects, id, 0, &pattern(0, 0, REGION))
            .await
            .unwrap();
        objects.flush_checksums().await.unwrap();
        for version in 1..12 {
            // Often after the end: then the write has more to do once the bytes are there.
            let at = fixture.platform.random.below(LEN);
            let data = pattern(version, at, 1 + fixture.platform.random.below(10_000));
            // The write is polled a few times and dropped at that point.
            let polls = fixture.platform.random.below(12);
            let write = write(&objects, id, at, &data);
            let mut write = std::pin::pin!(write);
            for _ in 0..polls {
                tokio::select! {
                    biased;
                    done = &mut write => {
                        done.unwrap();
                        break;
                    }
                    () = tokio::task::yield_now() => {}
                }
            }
        }
        read(&objects, id, 0, 4 * REGION).await.unwrap();
        objects.flush_checksums().await.unwrap();
        let found = objects
            .scrub(ScrubOptions::new(ScrubScope::All), |_| {})
            .await
            .unwrap();
        assert_eq!(found.damaged, [], "seed {seed}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_thousand_callers_of_sync_share_few_syncs() {
    let fixture = Fixture::new(1, true);
    let objects = fixture.fresh().await;
    write(&objects, object(5), 0, b"x").await.unwrap();
    let before = fixture.disk.counters().syncs;
    let spawner = fixture.tasks();
    let shared = Arc::new(objects);
    let running: Vec<_> = (0..1000)
        .map(|_| {
            let objects = Arc::clone(&shared);
            spawner.spawn("sync", async move { objects.sync(&[object(5)]).await })
        })
        .collect();
    for task in running {
        task.await.unwrap().unwrap();
    }
    let syncs = fixture.disk.counters().syncs - before;
    assert!(syncs < 20, "{syncs}");
}
