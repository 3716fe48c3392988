//! Many at once on one object: what is read is what one of them wrote, and its sums are true.

use crate::scene::*;
use gupfs_platform::fake::FakeDice;
use gupfs_proto::limits::REGION;
use gupfs_store::object::{Objects, Scrub, Verify};
use std::sync::Arc;

const LEN: u64 = 3 * REGION;

async fn writer(objects: Objects, dice: FakeDice, version: u64) {
    for _ in 0..30 {
        let at = dice.below(LEN - 100_000);
        let len = 1 + dice.below(100_000);
        write(&objects, object(5), at, &pattern(version, at, len))
            .await
            .unwrap();
    }
}

async fn reader(objects: Objects, dice: FakeDice, versions: u64) {
    for _ in 0..30 {
        let at = dice.below(LEN);
        let bytes = read(&objects, object(5), at, 1 + dice.below(200_000))
            .await
            .unwrap();
        for (index, byte) in bytes.iter().enumerate() {
            let place = at + index as u64;
            let written = (0..versions).any(|version| pattern(version, place, 1)[0] == *byte);
            assert!(written, "byte {place} is nobody's");
        }
    }
}

async fn settler(objects: Objects) {
    for _ in 0..20 {
        objects.settle().await.unwrap();
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn overlapping_writers_readers_and_settling_agree() {
    for seed in 0..12 {
        let house = House::new(seed, true);
        let objects = house.fresh().await;
        write(&objects, object(5), 0, &pattern(0, 0, LEN))
            .await
            .unwrap();
        let spawner = house.tasks();
        let mut running = Vec::new();
        for version in 1..4 {
            running.push(spawner.spawn(
                "writer",
                writer(objects.clone(), house.platform.dice.fork(), version),
            ));
            running.push(spawner.spawn(
                "reader",
                reader(objects.clone(), house.platform.dice.fork(), 4),
            ));
        }
        running.push(spawner.spawn("settler", settler(objects.clone())));
        for task in running {
            task.await.unwrap();
        }
        objects.settle().await.unwrap();
        assert_eq!(objects.status().await.dirty_regions, 0);
        let found = objects
            .scrub(Scrub::new(Verify::All), |_| {})
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
    let dice = FakeDice::new(1);
    let spawner = gupfs_platform::Tasks::real();
    let mut running = Vec::new();
    for version in 1..4 {
        running.push(spawner.spawn("writer", writer(objects.clone(), dice.fork(), version)));
        running.push(spawner.spawn("reader", reader(objects.clone(), dice.fork(), 4)));
    }
    running.push(spawner.spawn("settler", settler(objects.clone())));
    for task in running {
        task.await.unwrap();
    }
    objects.settle().await.unwrap();
    let found = objects
        .scrub(Scrub::new(Verify::All), |_| {})
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
async fn writers_of_neighbouring_records_leave_true_sums() {
    for seed in 0..20 {
        let house = House::new(seed, true);
        let objects = house.fresh().await;
        let record = 700 + 333 * (seed % 7);
        // Old bytes under some of them, whose sums are known.
        write(&objects, object(5), 0, &pattern(0, 0, 50_000))
            .await
            .unwrap();
        let writer = |first| {
            let writer = interleaved(objects.clone(), first, 4, record);
            house.tasks().spawn("writer", writer)
        };
        for writer in [writer(0), writer(1), writer(2), writer(3)] {
            writer.await.unwrap();
        }
        let len = 200 * record;
        assert!(
            read(&objects, object(5), 0, len).await.unwrap() == pattern(1, 0, len),
            "seed {seed}"
        );
        objects.settle().await.unwrap();
        let found = objects
            .scrub(Scrub::new(Verify::All), |_| {})
            .await
            .unwrap();
        assert_eq!(found.damaged, [], "seed {seed}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_writer_that_gives_up_leaves_no_false_sum() {
    for seed in 0..40 {
        let house = House::new(seed, true);
        let objects = house.fresh().await;
        let id = object(5);
        write(&objects, id, 0, &pattern(0, 0, REGION))
            .await
            .unwrap();
        objects.settle().await.unwrap();
        for version in 1..12 {
            // Often behind the end: then there is more to do after the bytes are there.
            let at = house.platform.dice.below(LEN);
            let data = pattern(version, at, 1 + house.platform.dice.below(10_000));
            // Polled a few times and dropped, wherever it is then.
            let polls = house.platform.dice.below(12);
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
        objects.settle().await.unwrap();
        let found = objects
            .scrub(Scrub::new(Verify::All), |_| {})
            .await
            .unwrap();
        assert_eq!(found.damaged, [], "seed {seed}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_thousand_syncs_of_one_object_are_few() {
    let house = House::new(1, true);
    let objects = house.fresh().await;
    write(&objects, object(5), 0, b"x").await.unwrap();
    let before = house.disk.counters().syncs;
    let spawner = house.tasks();
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
    let syncs = house.disk.counters().syncs - before;
    assert!(syncs < 20, "{syncs}");
}
