//! Clean regions: damage of their bytes and missing bytes are found.

use crate::fixture::*;
use gupfs_platform::fake::CallKind;
use gupfs_proto::data::{ChecksumCheck, ObjectExistence};
use gupfs_proto::error::ObjectDamage;
use gupfs_proto::limits::{REGION, REGION_BLOCKS};
use gupfs_proto::{FsError, ObjectOffset};
use gupfs_store::object::limits::OPEN_FILES_MAX;
use gupfs_store::object::{ScrubOptions, ScrubScope};
use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn an_idle_region_becomes_clean_and_its_checksums_survive_the_process() {
    let fixture = Fixture::new(1, false);
    let objects = fixture.fresh().await;
    let id = object(5);
    write(&objects, id, 100, &pattern(1, 100, 3 * REGION))
        .await
        .unwrap();
    assert_eq!(objects.status().await.dirty_regions, 4);
    fixture.sleep(Duration::from_secs(10)).await;
    let status = objects.status().await;
    assert_eq!((status.dirty_regions, status.regions_cleaned), (0, 4));
    drop(objects);
    fixture.lose_power();
    let objects = fixture.open().await;
    assert_eq!(sums_known(&objects, id).await, 3 * REGION_BLOCKS);
    let bytes = read(&objects, id, 100, 3 * REGION).await.unwrap();
    assert!(bytes == pattern(1, 100, 3 * REGION));
}

#[tokio::test(start_paused = true)]
async fn many_objects_are_written_and_read_with_few_open_files() {
    let fixture = Fixture::new(8, false);
    let mut objects = fixture.fresh().await;
    let count = 3 * OPEN_FILES_MAX as u64;
    for number in 0..count {
        write(&objects, object(number), 0, b"bytes").await.unwrap();
        assert!(objects.status().await.open_files <= OPEN_FILES_MAX + 1);
    }
    objects = fixture.reopened(objects).await;
    for number in 0..count {
        let bytes = read(&objects, object(number), 0, 5).await.unwrap();
        assert_eq!(bytes, b"bytes");
        assert!(objects.status().await.open_files <= OPEN_FILES_MAX + 1);
    }
}

#[tokio::test(start_paused = true)]
async fn many_objects_become_clean_with_one_sync_of_the_file_system_and_survive_a_power_loss() {
    let fixture = Fixture::new(7, false);
    let objects = fixture.fresh().await;
    for number in 0..200 {
        let id = object(5 + number);
        let written = write(&objects, id, 0, &pattern(number, 0, 9000)).await;
        written.unwrap();
    }
    let before = fixture.disk.counters().syncs;
    fixture.sleep(Duration::from_secs(10)).await;
    let status = objects.status().await;
    assert_eq!((status.dirty_regions, status.regions_cleaned), (0, 200));
    let syncs = fixture.disk.counters().syncs - before;
    assert!(syncs < 20, "{syncs} syncs");
    objects.sync(&[]).await.unwrap();
    fixture.sleep(Duration::from_secs(10)).await;
    drop(objects);
    fixture.lose_power();
    let objects = fixture.open().await;
    for number in 0..200 {
        let bytes = read(&objects, object(5 + number), 0, 9000).await.unwrap();
        assert!(bytes == pattern(number, 0, 9000), "object {number}");
    }
}

#[tokio::test(start_paused = true)]
async fn damage_in_a_clean_region_is_found_at_every_offset_by_every_reader() {
    let fixture = Fixture::new(2, false);
    let mut objects = fixture.fresh().await;
    let len = REGION + 10_000;
    let places = [0, 4095, 5000, REGION - 1, REGION, len - 1];
    for (index, place) in places.into_iter().enumerate() {
        let id = object(10 + index as u64);
        write(&objects, id, 0, &pattern(3, 0, len)).await.unwrap();
        objects = fixture.reopened(objects).await;
        fixture.disk.flip_bit(&path_of(id), place, 3);
        let damaged = Err(damage(id, ObjectDamage::Checksum));
        assert_eq!(read(&objects, id, 0, len).await, damaged, "whole, {place}");
        assert_eq!(
            read(&objects, id, place, 1).await,
            damaged,
            "one byte, {place}"
        );
        let before = objects.status().await.damage_met;
        assert!(before > 0);
        let doubted = objects.read(
            id,
            ObjectOffset(0),
            len,
            ObjectExistence::MustExist,
            ChecksumCheck::ByBoth,
        );
        assert_eq!(
            doubted.await.map(|_| ()),
            damaged.clone().map(|_| ()),
            "doubted, {place}"
        );
        let part = write(&objects, id, place / 4096 * 4096 + 7, b"part").await;
        assert_eq!(
            part.map(|_| ()),
            damaged.clone().map(|_| ()),
            "a part of the block, {place}"
        );
        let found = objects
            .scrub(ScrubOptions::new(ScrubScope::All), |_| {})
            .await
            .unwrap();
        assert_eq!(found.damaged, [id]);
        // Other blocks are readable.
        let far = if place < 8192 { REGION } else { 0 };
        assert!(read(&objects, id, far, 4096).await.is_ok());
        let cut = objects.truncate(id, 0).await.unwrap();
        assert_eq!(cut.size, 0, "a damaged object can be truncated to zero");
        objects.remove(id).await.unwrap();
        assert_eq!(objects.status().await.damaged, []);
    }
}

#[tokio::test(start_paused = true)]
async fn overwriting_a_whole_block_repairs_its_damage() {
    let fixture = Fixture::new(3, false);
    let objects = fixture.fresh().await;
    let id = object(5);
    write(&objects, id, 0, &pattern(1, 0, REGION))
        .await
        .unwrap();
    let objects = fixture.reopened(objects).await;
    fixture.disk.flip_bit(&path_of(id), 9000, 0);
    assert!(read(&objects, id, 0, REGION).await.is_err());
    write(&objects, id, 8192, &pattern(2, 8192, 4096))
        .await
        .unwrap();
    assert!(read(&objects, id, 0, REGION).await.is_ok());
    objects.flush_checksums().await.unwrap();
    let found = objects
        .scrub(ScrubOptions::new(ScrubScope::All), |_| {})
        .await
        .unwrap();
    assert_eq!((found.damaged.len(), found.verified), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_file_that_another_program_removed_or_truncated_is_damage_not_a_hole() {
    let fixture = Fixture::new(4, false);
    let objects = fixture.fresh().await;
    let (gone, cut) = (object(5), object(6));
    for id in [gone, cut] {
        write(&objects, id, 0, &pattern(1, 0, 2 * REGION))
            .await
            .unwrap();
    }
    objects.stop().await.unwrap();
    drop(objects);
    fixture
        .disk
        .disk()
        .remove_file(&path_of(gone))
        .await
        .unwrap();
    let file = fixture
        .disk
        .disk()
        .open(&path_of(cut), gupfs_platform::OpenHow::write())
        .await
        .unwrap();
    file.set_len(REGION + 1).await.unwrap();
    drop(file);

    let objects = fixture.open().await;
    let missing = damage(gone, ObjectDamage::Missing);
    for existing in [ObjectExistence::MayExist, ObjectExistence::MustExist] {
        let lost = read_as(&objects, gone, 0, 100, existing).await;
        assert_eq!(lost, Err(missing.clone()));
    }
    let short = damage(cut, ObjectDamage::Short);
    assert_eq!(
        read(&objects, cut, 0, REGION).await.unwrap().len(),
        REGION as usize
    );
    for at in [REGION, REGION + 1, 2 * REGION - 1] {
        assert_eq!(
            read(&objects, cut, at, 100).await,
            Err(short.clone()),
            "at {at}"
        );
    }
    let found = objects
        .scrub(ScrubOptions::new(ScrubScope::All), |_| {})
        .await
        .unwrap();
    assert_eq!(found.damaged, [cut]);
    let status = objects.status().await;
    let listed: Vec<_> = status
        .damaged
        .iter()
        .map(|(id, what)| format!("{id} {what}"))
        .collect();
    assert_eq!(listed, ["5.1.0 is missing", "6.1.0 is shorter than it was"]);
}

#[tokio::test(start_paused = true)]
async fn growing_across_a_hole_and_truncating_keep_clean_regions_correct() {
    let fixture = Fixture::new(5, false);
    let objects = fixture.fresh().await;
    let id = object(5);
    write(&objects, id, 0, &pattern(1, 0, 5000)).await.unwrap();
    let objects = fixture.reopened(objects).await;
    write(&objects, id, 3 * REGION, b"far").await.unwrap();
    let objects = fixture.reopened(objects).await;
    let mut expected = pattern(1, 0, 5000);
    expected.resize(3 * REGION as usize, 0);
    assert!(read(&objects, id, 0, 3 * REGION).await.unwrap() == expected);
    objects.truncate(id, 4500).await.unwrap();
    objects.truncate(id, 4400).await.unwrap();
    let objects = fixture.reopened(objects).await;
    assert!(read(&objects, id, 0, REGION).await.unwrap() == expected[..4400]);
    write(&objects, id, 2 * REGION, b"again").await.unwrap();
    let bytes = read(&objects, id, 0, 2 * REGION).await.unwrap();
    assert!(bytes[..4400] == expected[..4400] && bytes[4400..].iter().all(|byte| *byte == 0));
    let found = objects
        .scrub(ScrubOptions::new(ScrubScope::All), |_| {})
        .await
        .unwrap();
    assert_eq!(found.damaged, []);
}

#[tokio::test(start_paused = true)]
async fn sequential_overwrites_of_clean_regions_wait_for_few_syncs() {
    let fixture = Fixture::new(6, false);
    let objects = fixture.fresh().await;
    let id = object(5);
    const REGIONS: u64 = 64;
    for region in 0..REGIONS {
        write(&objects, id, region * REGION, &[1; REGION as usize])
            .await
            .unwrap();
    }
    let new = fixture.disk.counters().of(CallKind::Sync);
    let objects = fixture.reopened(objects).await;
    let before = fixture.disk.counters().of(CallKind::Sync);
    for region in 0..REGIONS {
        write(&objects, id, region * REGION, &[2; REGION as usize])
            .await
            .unwrap();
    }
    let syncs = fixture.disk.counters().of(CallKind::Sync) - before;
    assert_eq!(objects.status().await.regions_dirtied, REGIONS);
    assert!(syncs <= REGIONS / 16 + 2, "{syncs} syncs");
    assert!(new < 20, "{new} syncs for a new object");
}

#[tokio::test(start_paused = true)]
async fn regions_that_a_crash_left_dirty_become_clean_in_the_background() {
    let fixture = Fixture::new(7, false);
    let objects = fixture.fresh().await;
    let id = object(5);
    write(&objects, id, 0, &pattern(1, 0, 2 * REGION))
        .await
        .unwrap();
    sync(&objects, id).await;
    drop(objects);
    fixture.lose_power();
    let objects = fixture.open().await;
    fixture.sleep(Duration::from_secs(20)).await;
    assert_eq!(objects.status().await.regions_cleaned, 2);
    assert_eq!(sums_known(&objects, id).await, 2 * REGION_BLOCKS);
    fixture.disk.flip_bit(&path_of(id), 77, 0);
    assert!(read(&objects, id, 0, 4096).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn zeroed_ranges_are_clean_zeros() {
    let fixture = Fixture::new(8, false);
    let objects = fixture.fresh().await;
    let id = object(5);
    write(&objects, id, 0, &pattern(1, 0, 4 * REGION))
        .await
        .unwrap();
    let mut objects = fixture.reopened(objects).await;
    let mut expected = pattern(1, 0, 4 * REGION);
    for (at, len, punch) in [
        (100, 5000, false),
        (REGION - 7, REGION + 14, true),
        (3 * REGION, REGION, true),
    ] {
        objects
            .zero(id, ObjectOffset(at), len, punch)
            .await
            .unwrap();
        expected[at as usize..(at + len) as usize].fill(0);
        assert!(read(&objects, id, 0, 4 * REGION).await.unwrap() == expected);
        objects = fixture.reopened(objects).await;
        assert_eq!(sums_known(&objects, id).await, 4 * REGION_BLOCKS);
        assert!(read(&objects, id, 0, 4 * REGION).await.unwrap() == expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_sync_closes_the_target() {
    let fixture = Fixture::new(9, false);
    let objects = fixture.fresh().await;
    let id = object(5);
    write(&objects, id, 0, b"x").await.unwrap();
    fixture.disk.fail_sync(1);
    let failed = objects.sync(&[id]).await;
    assert!(
        matches!(failed, Err(FsError::TargetDown { .. })),
        "{failed:?}"
    );
    let after = [
        objects.sync(&[id]).await,
        write(&objects, id, 0, b"y").await.map(|_| ()),
        read(&objects, id, 0, 1).await.map(|_| ()),
        objects.stat(id).await.map(|_| ()),
    ];
    assert!(after.iter().all(|refused| *refused == failed), "{after:?}");
    let status = objects.status().await;
    assert_ne!(status.state, gupfs_store::object::OstState::Serving);
}

#[tokio::test(start_paused = true)]
async fn a_full_disk_refuses_writers_before_removals() {
    let fixture = Fixture::new(10, false);
    let objects = fixture.fresh().await;
    fixture.disk.set_capacity(64 << 20);
    let id = object(5);
    let mut at = 0;
    let refused = loop {
        match write(&objects, id, at, &[7; REGION as usize]).await {
            Ok(_) => at += REGION,
            Err(refused) => break refused,
        }
    };
    assert_eq!(refused, FsError::NoSpace);
    let space = objects.space().await.unwrap();
    assert!(space.free >= (64 << 20) / 10 - REGION, "{space:?}");
    assert_eq!(objects.stat(id).await.unwrap().unwrap().size, at);
    // Allocated space may be overwritten.
    write(&objects, id, 0, &[8; REGION as usize]).await.unwrap();
    // Not even the reserve is left: a failed write leaves the object unchanged.
    fixture.disk.set_capacity((64 << 20) - space.free);
    fixture.sleep(Duration::from_secs(2)).await;
    assert_eq!(
        write(&objects, id, at, b"x").await.unwrap_err(),
        FsError::NoSpace
    );
    objects.remove(id).await.unwrap();
    sync(&objects, id).await;
    write(&objects, object(6), 0, b"x").await.unwrap();
}
