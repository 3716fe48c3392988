//! A disk that loses what it was given, and tells of it once: nobody is told that lost bytes are safe.

use crate::scene::*;
use gupfs_proto::{ObjectId, Refusal};
use gupfs_store::object::Objects;
use std::time::Duration;

/// So many that one sync of the whole disk takes the place of theirs.
const MANY: u64 = 40;

fn many() -> Vec<ObjectId> {
    (0..MANY).map(object).collect()
}

async fn write_many(objects: &Objects) {
    for id in many() {
        write(objects, id, 0, &[7; 5000]).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn of_two_who_sync_one_object_both_learn_that_it_failed() {
    for seed in 0..100 {
        let house = House::new(seed, true);
        let objects = house.fresh().await;
        let id = [object(5)];
        write(&objects, id[0], 0, &[1; 5000]).await.unwrap();
        house.disk.fail_write_back();
        let (one, other) = tokio::join!(objects.sync(&id), objects.sync(&id));
        let told = |said: &Result<(), Refusal>| matches!(said, Err(Refusal::TargetDown { .. }));
        assert!(
            told(&one) && told(&other),
            "seed {seed}: {one:?}, {other:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn of_two_who_sync_the_whole_disk_both_learn_that_it_failed() {
    for seed in 0..100 {
        let house = House::new(seed, true);
        let objects = house.fresh().await;
        write_many(&objects).await;
        house.disk.fail_write_back();
        let ids = many();
        let (one, other) = tokio::join!(objects.confirm(&ids), objects.confirm(&ids));
        assert!(
            one.is_err() && other.is_err(),
            "seed {seed}: {one:?}, {other:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_of_which_another_process_was_told_is_told_here_too() {
    for tells in [true, false] {
        let house = House::with(3, false, tells);
        let objects = house.fresh().await;
        write_many(&objects).await;
        house.disk.fail_write_back();
        house.disk.another_syncs_everything();
        let told = objects.confirm(&many()).await;
        assert!(
            matches!(told, Err(Refusal::TargetDown { .. })),
            "tells: {tells}, {told:?}"
        );
        assert!(objects.sync(&[object(1)]).await.is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn targets_on_one_disk_are_each_told() {
    let house = House::new(4, false);
    let root = house.disk.disk();
    let mut targets = Vec::new();
    for dir in ["a", "b"] {
        root.create_dir(dir).await.unwrap();
        targets.push(house.fresh_below(dir).await);
    }
    for target in &targets {
        write_many(target).await;
    }
    house.disk.fail_write_back();
    for target in &targets {
        assert!(target.confirm(&many()).await.is_err());
    }
}

/// Whichever sync it is: the objects' or the log's.
#[tokio::test(start_paused = true)]
async fn a_failed_sync_ends_the_life_also_where_it_was_of_the_log_of_records() {
    let mut of_the_log = 0;
    for failing in 1..12 {
        let house = House::new(6, false);
        let objects = house.fresh().await;
        house.disk.fail_sync(failing);
        for _ in 0..2 {
            let _ = write(&objects, object(1), 0, &[1; 5000]).await;
            let _ = objects.sync(&[object(1)]).await;
            house.sleep(Duration::from_secs(10)).await; // it is settled
        }
        // One of a segment that nothing was written to yet fails nobody.
        let Some(why) = objects.failure() else {
            continue;
        };
        assert!(objects.is_life_over(), "sync {failing}: {why}");
        of_the_log += usize::from(why.contains("its records failed"));
    }
    assert!(of_the_log > 0);
}
