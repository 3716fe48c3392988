//! Digests find damaged regions, and repairs write the right bytes over damaged blocks only.

use crate::fixture::*;
use bytes::Bytes;
use gupfs_proto::data::{RegionDigest, RepairedBlocks};
use gupfs_proto::error::ObjectDamage;
use gupfs_proto::limits::{DIGEST_REGIONS_MAX, REGION};
use gupfs_proto::{FsError, ObjectOffset};

const LEN: u64 = 2 * REGION + 10_000;

fn of(bytes: &[u8]) -> RegionDigest {
    RegionDigest::of(bytes)
}

#[tokio::test(start_paused = true)]
async fn a_digest_is_of_the_bytes_whatever_holes_and_checksums_there_are() {
    let fixture = Fixture::new(1, false);
    let objects = fixture.fresh().await;
    let (id, zeros) = (object(5), object(6));
    assert_eq!(objects.digest(id, 0, 4).await, Ok(None));
    let bytes = pattern(1, 3 * REGION, 10_000);
    write(&objects, id, 3 * REGION, &bytes).await.unwrap();
    write(&objects, zeros, 0, &[0; 5000]).await.unwrap();
    let want = Ok(Some(vec![
        RegionDigest::Zeros,
        RegionDigest::Zeros,
        RegionDigest::Zeros,
        of(&bytes),
    ]));
    assert_eq!(objects.digest(id, 0, DIGEST_REGIONS_MAX).await, want);
    let objects = fixture.reopened(objects).await;
    assert_eq!(objects.digest(id, 0, DIGEST_REGIONS_MAX).await, want);
    assert_eq!(objects.digest(id, 4, 3).await, Ok(Some(Vec::new())));
    let one_of_zeros = Ok(Some(vec![RegionDigest::Zeros]));
    assert_eq!(objects.digest(zeros, 0, 1).await, one_of_zeros);
    // Zeros at the end are as good as none.
    let longer = object(7);
    let padded = [&bytes[..], &[0; 3000]].concat();
    write(&objects, longer, 0, &padded).await.unwrap();
    assert_eq!(
        objects.digest(longer, 0, 1).await,
        Ok(Some(vec![of(&bytes)]))
    );
    let too_many = objects.digest(id, 0, DIGEST_REGIONS_MAX + 1).await;
    assert!(matches!(too_many, Err(FsError::Malformed(_))));
    assert_eq!(objects.damaged_after_repair(&[]), Ok(Vec::new()));
}

#[tokio::test(start_paused = true)]
async fn damaged_blocks_are_repaired_from_bytes_that_match_their_checksums_and_from_no_others() {
    let fixture = Fixture::new(2, false);
    let mut objects = fixture.fresh().await;
    let id = object(5);
    let bytes = pattern(3, 0, LEN);
    write(&objects, id, 0, &bytes).await.unwrap();
    objects = fixture.reopened(objects).await;
    let whole = objects.digest(id, 0, 3).await.unwrap();
    // Two blocks of the first region, and the last block, which is not whole.
    for at in [100, 70_000, LEN - 1] {
        fixture.disk.flip_bit(&path_of(id), at, 2);
    }
    let found = objects.digest(id, 0, 3).await.unwrap().unwrap();
    assert_eq!(
        (found[0], found[2]),
        (RegionDigest::Damaged, RegionDigest::Damaged)
    );
    assert_eq!(found[1], whole.as_ref().unwrap()[1]);
    assert_eq!(objects.damaged_after_repair(&[]), Ok(vec![id]));
    let region = |number: u64| {
        let start = number * REGION;
        let end = (start + REGION).min(LEN);
        Bytes::copy_from_slice(&bytes[start as usize..end as usize])
    };
    // Other bytes than those that were there: an older copy, for instance.
    let wrong = Bytes::from(pattern(4, 0, REGION));
    let refused = objects.repair(id, ObjectOffset(0), &wrong).await;
    let counts = |repaired, left| Ok(RepairedBlocks { repaired, left });
    assert_eq!(refused, counts(0, 2));
    assert_eq!(
        objects.digest(id, 0, 1).await,
        Ok(Some(vec![RegionDigest::Damaged]))
    );
    assert_eq!(
        objects.repair(id, ObjectOffset(0), &region(0)).await,
        counts(2, 0)
    );
    let cut_short = region(2).slice(..9_999);
    let at = ObjectOffset(2 * REGION);
    assert_eq!(objects.repair(id, at, &cut_short).await, counts(0, 1));
    assert_eq!(objects.repair(id, at, &region(2)).await, counts(1, 0));
    assert_eq!(objects.repair(id, at, &region(2)).await, counts(0, 0));
    assert_eq!(objects.digest(id, 0, 3).await, Ok(whole.clone()));
    assert_eq!(objects.damaged_after_repair(&[id]), Ok(Vec::new()));
    assert_eq!(objects.stat(id).await.unwrap().unwrap().size, LEN);
    // It survives a power loss after a sync, and its checksums have been known all the time.
    objects.sync(&[id]).await.unwrap();
    drop(objects);
    fixture.lose_power();
    let objects = fixture.open().await;
    assert_eq!(objects.digest(id, 0, 3).await, Ok(whole));
    assert!(read(&objects, id, 0, LEN).await.unwrap() == bytes);
    let within_a_block = objects.repair(id, ObjectOffset(5), &region(1)).await;
    assert!(matches!(within_a_block, Err(FsError::Malformed(_))));
    let two_regions = objects
        .repair(id, ObjectOffset(REGION), &Bytes::from(bytes))
        .await;
    assert!(matches!(two_regions, Err(FsError::Malformed(_))));
}

#[tokio::test(start_paused = true)]
async fn a_repair_that_arrives_late_undoes_no_write() {
    let fixture = Fixture::new(3, false);
    let objects = fixture.fresh().await;
    let id = object(5);
    let former = pattern(3, 0, REGION);
    write(&objects, id, 0, &former).await.unwrap();
    let objects = fixture.reopened(objects).await;
    fixture.disk.flip_bit(&path_of(id), 5000, 2);
    let written = pattern(5, 4096, 4096);
    write(&objects, id, 4096, &written).await.unwrap();
    let late = objects
        .repair(id, ObjectOffset(0), &Bytes::from(former))
        .await;
    assert_eq!(late, Ok(RepairedBlocks::default()));
    assert_eq!(read(&objects, id, 4096, 4096).await.unwrap(), written);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_shorter_than_its_record_is_damaged_and_not_repaired() {
    let fixture = Fixture::new(4, false);
    let objects = fixture.fresh().await;
    let id = object(5);
    let bytes = pattern(3, 0, LEN);
    write(&objects, id, 0, &bytes).await.unwrap();
    objects.stop().await.unwrap();
    drop(objects);
    let open = fixture.disk.disk();
    let file = open
        .open(&path_of(id), gupfs_platform::OpenHow::write())
        .await
        .unwrap();
    file.set_len(REGION + 1).await.unwrap();
    drop(file);
    let objects = fixture.open().await;
    let found = objects.digest(id, 0, 3).await.unwrap().unwrap();
    assert_eq!(found[0], of(&bytes[..REGION as usize]));
    assert_eq!(found[1..], [RegionDigest::Damaged; 2]);
    let tail = Bytes::copy_from_slice(&bytes[2 * REGION as usize..]);
    let done = objects.repair(id, ObjectOffset(2 * REGION), &tail).await;
    assert_eq!(done, Ok(RepairedBlocks::default()));
    assert_eq!(
        read(&objects, id, REGION, 100).await,
        Err(damage(id, ObjectDamage::Short))
    );
}
