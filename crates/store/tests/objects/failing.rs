//! A disk that loses written bytes and reports it once: no caller is told that lost bytes are durable.

use crate::fixture::*;
use gupfs_proto::{FsError, ObjectId};
use gupfs_store::object::Objects;
use std::time::Duration;

/// So many objects that one sync of the whole file system replaces theirs.
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
async fn two_concurrent_syncs_of_one_object_both_report_the_failure() {
    for seed in 0..100 {
        let fixture = Fixture::new(seed, true);
        let objects = fixture.fresh().await;
        let id = [object(5)];
        write(&objects, id[0], 0, &[1; 5000]).await.unwrap();
        fixture.disk.fail_write_back();
        let (one, other) = tokio::join!(objects.sync(&id), objects.sync(&id));
        let is_down =
            |result: &Result<(), FsError>| matches!(result, Err(FsError::TargetDown { .. }));
        assert!(
            is_down(&one) && is_down(&other),
            "seed {seed}: {one:?}, {other:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn two_concurrent_syncs_of_the_file_system_both_report_the_failure() {
    for seed in 0..100 {
        let fixture = Fixture::new(seed, true);
        let objects = fixture.fresh().await;
        write_many(&objects).await;
        fixture.disk.fail_write_back();
        let ids = many();
        let (one, other) = tokio::join!(objects.confirm(&ids), objects.confirm(&ids));
        assert!(
            one.is_err() && other.is_err(),
            "seed {seed}: {one:?}, {other:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_error_that_another_process_consumed_is_reported_too() {
    for tells in [true, false] {
        let fixture = Fixture::with(3, false, tells);
        let objects = fixture.fresh().await;
        write_many(&objects).await;
        fixture.disk.fail_write_back();
        fixture.disk.syncfs_by_another_process();
        let outcome = objects.confirm(&many()).await;
        assert!(
            matches!(outcome, Err(FsError::TargetDown { .. })),
            "tells: {tells}, {outcome:?}"
        );
        assert!(objects.sync(&[object(1)]).await.is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn each_target_on_a_disk_reports_the_failure() {
    let fixture = Fixture::new(4, false);
    let root = fixture.disk.disk();
    let mut targets = Vec::new();
    for dir in ["a", "b"] {
        root.create_dir(dir).await.unwrap();
        targets.push(fixture.fresh_below(dir).await);
    }
    for target in &targets {
        write_many(target).await;
    }
    fixture.disk.fail_write_back();
    for target in &targets {
        assert!(target.confirm(&many()).await.is_err());
    }
}

/// Whether the failed sync was that of an object or that of the records' log.
#[tokio::test(start_paused = true)]
async fn a_failed_sync_of_the_records_log_retires_the_write_verifier_too() {
    let mut of_the_log = 0;
    for failing in 1..12 {
        let fixture = Fixture::new(6, false);
        let objects = fixture.fresh().await;
        fixture.disk.fail_sync(failing);
        for _ in 0..2 {
            let _ = write(&objects, object(1), 0, &[1; 5000]).await;
            let _ = objects.sync(&[object(1)]).await;
            fixture.sleep(Duration::from_secs(10)).await; // the checksum flush runs
        }
        // A failed sync of a segment without records fails no operation.
        let Some(why) = objects.failure() else {
            continue;
        };
        assert!(objects.is_verifier_retired(), "sync {failing}: {why}");
        of_the_log += usize::from(why.contains("its records failed"));
    }
    assert!(of_the_log > 0);
}
