//! Clean regions: what is in them is believed, and what is no longer there is noticed.

use crate::scene::*;
use gupfs_platform::fake::CallKind;
use gupfs_proto::data::{Checked, Existing};
use gupfs_proto::limits::{REGION, REGION_BLOCKS};
use gupfs_proto::refusal::ObjectDamage;
use gupfs_proto::{ObjectOffset, Refusal};
use gupfs_store::object::limits::OPEN_FILES_MOST;
use gupfs_store::object::{Scrub, Verify};
use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn a_region_left_alone_becomes_clean_and_its_sums_outlive_the_process() {
    let house = House::new(1, false);
    let objects = house.fresh().await;
    let id = object(5);
    write(&objects, id, 100, &pattern(1, 100, 3 * REGION))
        .await
        .unwrap();
    assert_eq!(objects.status().await.dirty_regions, 4);
    house.sleep(Duration::from_secs(10)).await;
    let status = objects.status().await;
    assert_eq!((status.dirty_regions, status.settled), (0, 4));
    drop(objects);
    house.cut_power();
    let objects = house.open().await;
    assert_eq!(sums_known(&objects, id).await, 3 * REGION_BLOCKS);
    let bytes = read(&objects, id, 100, 3 * REGION).await.unwrap();
    assert!(bytes == pattern(1, 100, 3 * REGION));
}

#[tokio::test(start_paused = true)]
async fn many_objects_can_be_written_and_read_with_few_files_open() {
    let house = House::new(8, false);
    let mut objects = house.fresh().await;
    let count = 3 * OPEN_FILES_MOST as u64;
    for number in 0..count {
        write(&objects, object(number), 0, b"bytes").await.unwrap();
        assert!(objects.status().await.open_files <= OPEN_FILES_MOST + 1);
    }
    objects = house.reopened(objects).await;
    for number in 0..count {
        let bytes = read(&objects, object(number), 0, 5).await.unwrap();
        assert_eq!(bytes, b"bytes");
        assert!(objects.status().await.open_files <= OPEN_FILES_MOST + 1);
    }
}

#[tokio::test(start_paused = true)]
async fn many_objects_settle_with_one_sync_of_the_file_system_and_survive_a_power_cut() {
    let house = House::new(7, false);
    let objects = house.fresh().await;
    for number in 0..200 {
        let id = object(5 + number);
        let written = write(&objects, id, 0, &pattern(number, 0, 9000)).await;
        written.unwrap();
    }
    let before = house.disk.counters().syncs;
    house.sleep(Duration::from_secs(10)).await;
    let status = objects.status().await;
    assert_eq!((status.dirty_regions, status.settled), (0, 200));
    let syncs = house.disk.counters().syncs - before;
    assert!(syncs < 20, "{syncs} syncs");
    objects.sync(&[]).await.unwrap();
    house.sleep(Duration::from_secs(10)).await;
    drop(objects);
    house.cut_power();
    let objects = house.open().await;
    for number in 0..200 {
        let bytes = read(&objects, object(5 + number), 0, 9000).await.unwrap();
        assert!(bytes == pattern(number, 0, 9000), "object {number}");
    }
}

#[tokio::test(start_paused = true)]
async fn rot_in_a_clean_region_is_found_wherever_it_is_and_whoever_looks() {
    let house = House::new(2, false);
    let mut objects = house.fresh().await;
    let len = REGION + 10_000;
    let places = [0, 4095, 5000, REGION - 1, REGION, len - 1];
    for (index, place) in places.into_iter().enumerate() {
        let id = object(10 + index as u64);
        write(&objects, id, 0, &pattern(3, 0, len)).await.unwrap();
        objects = house.reopened(objects).await;
        house.disk.rot(&path_of(id), place, 3);
        let rotten = Err(damage(id, ObjectDamage::Checksum));
        assert_eq!(read(&objects, id, 0, len).await, rotten, "whole, {place}");
        assert_eq!(
            read(&objects, id, place, 1).await,
            rotten,
            "one byte, {place}"
        );
        let before = objects.status().await.damage_met;
        assert!(before > 0);
        let doubted = objects.read(id, ObjectOffset(0), len, Existing::Certain, Checked::ByBoth);
        assert_eq!(
            doubted.await.map(|_| ()),
            rotten.clone().map(|_| ()),
            "doubted, {place}"
        );
        let part = write(&objects, id, place / 4096 * 4096 + 7, b"part").await;
        assert_eq!(
            part.map(|_| ()),
            rotten.clone().map(|_| ()),
            "a part of the block, {place}"
        );
        let found = objects
            .scrub(Scrub::new(Verify::All), |_| {})
            .await
            .unwrap();
        assert_eq!(found.damaged, [id]);
        // Another block is not concerned.
        let far = if place < 8192 { REGION } else { 0 };
        assert!(read(&objects, id, far, 4096).await.is_ok());
        let cut = objects.cut(id, 0).await.unwrap();
        assert_eq!(cut.size, 0, "what is damaged can be cut to nothing");
        objects.remove(id).await.unwrap();
        assert_eq!(objects.status().await.damaged, []);
    }
}

#[tokio::test(start_paused = true)]
async fn a_whole_new_block_heals_rot() {
    let house = House::new(3, false);
    let objects = house.fresh().await;
    let id = object(5);
    write(&objects, id, 0, &pattern(1, 0, REGION))
        .await
        .unwrap();
    let objects = house.reopened(objects).await;
    house.disk.rot(&path_of(id), 9000, 0);
    assert!(read(&objects, id, 0, REGION).await.is_err());
    write(&objects, id, 8192, &pattern(2, 8192, 4096))
        .await
        .unwrap();
    assert!(read(&objects, id, 0, REGION).await.is_ok());
    objects.settle().await.unwrap();
    let found = objects
        .scrub(Scrub::new(Verify::All), |_| {})
        .await
        .unwrap();
    assert_eq!((found.damaged.len(), found.verified), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_file_that_was_removed_or_cut_behind_our_back_is_damage_not_a_hole() {
    let house = House::new(4, false);
    let objects = house.fresh().await;
    let (gone, cut) = (object(5), object(6));
    for id in [gone, cut] {
        write(&objects, id, 0, &pattern(1, 0, 2 * REGION))
            .await
            .unwrap();
    }
    objects.stop().await.unwrap();
    drop(objects);
    house.disk.disk().remove_file(&path_of(gone)).await.unwrap();
    let file = house
        .disk
        .disk()
        .open(&path_of(cut), gupfs_platform::OpenHow::write())
        .await
        .unwrap();
    file.set_len(REGION + 1).await.unwrap();
    drop(file);

    let objects = house.open().await;
    let missing = damage(gone, ObjectDamage::Missing);
    for existing in [Existing::Perhaps, Existing::Certain] {
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
        .scrub(Scrub::new(Verify::All), |_| {})
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
async fn growing_into_a_hole_and_cutting_leave_clean_regions_true() {
    let house = House::new(5, false);
    let objects = house.fresh().await;
    let id = object(5);
    write(&objects, id, 0, &pattern(1, 0, 5000)).await.unwrap();
    let objects = house.reopened(objects).await;
    write(&objects, id, 3 * REGION, b"far").await.unwrap();
    let objects = house.reopened(objects).await;
    let mut expected = pattern(1, 0, 5000);
    expected.resize(3 * REGION as usize, 0);
    assert!(read(&objects, id, 0, 3 * REGION).await.unwrap() == expected);
    objects.cut(id, 4500).await.unwrap();
    objects.cut(id, 4400).await.unwrap();
    let objects = house.reopened(objects).await;
    assert!(read(&objects, id, 0, REGION).await.unwrap() == expected[..4400]);
    write(&objects, id, 2 * REGION, b"again").await.unwrap();
    let bytes = read(&objects, id, 0, 2 * REGION).await.unwrap();
    assert!(bytes[..4400] == expected[..4400] && bytes[4400..].iter().all(|byte| *byte == 0));
    let found = objects
        .scrub(Scrub::new(Verify::All), |_| {})
        .await
        .unwrap();
    assert_eq!(found.damaged, []);
}

#[tokio::test(start_paused = true)]
async fn who_overwrites_clean_regions_in_order_waits_for_few_syncs() {
    let house = House::new(6, false);
    let objects = house.fresh().await;
    let id = object(5);
    const REGIONS: u64 = 64;
    for region in 0..REGIONS {
        write(&objects, id, region * REGION, &[1; REGION as usize])
            .await
            .unwrap();
    }
    let new = house.disk.counters().of(CallKind::Sync);
    let objects = house.reopened(objects).await;
    let before = house.disk.counters().of(CallKind::Sync);
    for region in 0..REGIONS {
        write(&objects, id, region * REGION, &[2; REGION as usize])
            .await
            .unwrap();
    }
    let syncs = house.disk.counters().of(CallKind::Sync) - before;
    assert_eq!(objects.status().await.marks, REGIONS);
    assert!(syncs <= REGIONS / 16 + 2, "{syncs} syncs");
    assert!(new < 20, "{new} syncs for a new object");
}

#[tokio::test(start_paused = true)]
async fn what_a_crash_left_marked_is_summed_again_by_itself() {
    let house = House::new(7, false);
    let objects = house.fresh().await;
    let id = object(5);
    write(&objects, id, 0, &pattern(1, 0, 2 * REGION))
        .await
        .unwrap();
    sync(&objects, id).await;
    drop(objects);
    house.cut_power();
    let objects = house.open().await;
    house.sleep(Duration::from_secs(20)).await;
    assert_eq!(objects.status().await.settled, 2);
    assert_eq!(sums_known(&objects, id).await, 2 * REGION_BLOCKS);
    house.disk.rot(&path_of(id), 77, 0);
    assert!(read(&objects, id, 0, 4096).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn zeroed_ranges_are_clean_zeros() {
    let house = House::new(8, false);
    let objects = house.fresh().await;
    let id = object(5);
    write(&objects, id, 0, &pattern(1, 0, 4 * REGION))
        .await
        .unwrap();
    let mut objects = house.reopened(objects).await;
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
        objects = house.reopened(objects).await;
        assert_eq!(sums_known(&objects, id).await, 4 * REGION_BLOCKS);
        assert!(read(&objects, id, 0, 4 * REGION).await.unwrap() == expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_sync_closes_the_target() {
    let house = House::new(9, false);
    let objects = house.fresh().await;
    let id = object(5);
    write(&objects, id, 0, b"x").await.unwrap();
    house.disk.fail_sync(1);
    let failed = objects.sync(&[id]).await;
    assert!(
        matches!(failed, Err(Refusal::TargetDown { .. })),
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
    assert_ne!(status.state, gupfs_store::object::TargetState::Serving);
}

#[tokio::test(start_paused = true)]
async fn a_full_disk_refuses_writers_before_removals() {
    let house = House::new(10, false);
    let objects = house.fresh().await;
    house.disk.set_capacity(64 << 20);
    let id = object(5);
    let mut at = 0;
    let refused = loop {
        match write(&objects, id, at, &[7; REGION as usize]).await {
            Ok(_) => at += REGION,
            Err(refused) => break refused,
        }
    };
    assert_eq!(refused, Refusal::NoSpace);
    let space = objects.space().await.unwrap();
    assert!(space.free >= (64 << 20) / 10 - REGION, "{space:?}");
    assert_eq!(objects.stat(id).await.unwrap().unwrap().size, at);
    // Room that is there already may be written.
    write(&objects, id, 0, &[8; REGION as usize]).await.unwrap();
    // Not even a reserve is left: what fails leaves the object as it was.
    house.disk.set_capacity((64 << 20) - space.free);
    house.sleep(Duration::from_secs(2)).await;
    assert_eq!(
        write(&objects, id, at, b"x").await.unwrap_err(),
        Refusal::NoSpace
    );
    objects.remove(id).await.unwrap();
    sync(&objects, id).await;
    write(&objects, object(6), 0, b"x").await.unwrap();
}
