//! The records that an attempt sees while batches are staged.

use super::scans::SCAN_SPARE;
use super::{ScanCache, StoreView};
use crate::origin::RequestOrigin;
use crate::osts::{IdentityContext, Targets};
use crate::parts::{MdsParts, MdsPartsInput};
use crate::shard::RECENT_KEYS_MAX;
use bytes::Bytes;
use gupfs_namespace::{CachedRecord, KeyRange, RecordKey, RecordSource};
use gupfs_platform::fake::{FakeDisk, FakeOptions, FakePlatform};
use gupfs_proto::cluster::OwnerMark;
use gupfs_proto::{ClusterId, FsError, Incarnation, InodeId, Name, OwnerEpoch, Seq, VirtualShards};
use gupfs_store::index::{FakeIndex, Index};
use gupfs_store::kv::{Kv, KvOptions};
use gupfs_store::log::{LogOptions, StoreId};
use std::collections::BTreeMap;
use std::sync::Arc;

async fn parts() -> MdsParts {
    let platform = FakePlatform::new(1).platform();
    let disk = FakeDisk::new(FakeOptions::default(), 1).disk();
    let (cluster, incarnation) = (ClusterId(1), Incarnation(2));
    let log = LogOptions {
        segment_bytes: 64 << 10,
        ..LogOptions::new(StoreId {
            cluster,
            incarnation,
        })
    };
    let index = Index::fake(FakeIndex::new());
    let kv_options = KvOptions::new(log);
    let (kv, _) = Kv::open(disk.clone(), index, kv_options, platform.clone())
        .await
        .unwrap();
    let (clock, none, no_targets) = (platform.clock.clone(), BTreeMap::new(), BTreeMap::new());
    let identity_context = IdentityContext {
        cluster,
        ours: OwnerMark::default(),
        log_end: Seq(0),
        lost_before: OwnerEpoch(0),
        accept_loss: false,
    };
    MdsParts::new(MdsPartsInput {
        kv: Arc::new(kv),
        disk,
        shards: VirtualShards(1),
        owner_epoch: OwnerEpoch(1),
        lost_before: OwnerEpoch(0),
        loss_accepted: false,
        sessions_skipped: 0,
        targets: Arc::new(Targets::new(
            identity_context,
            clock,
            None,
            none,
            no_targets,
        )),
        issuer: None,
        keeps_sessions: false,
        records_interests: false,
        successor: None,
        rebuild_after: None,
        resync_rate: None,
        scrub_period: None,
        platform,
    })
}

fn key(number: u64) -> RecordKey {
    RecordKey::entry(InodeId(9), number, &Name::new(b"n").unwrap())
}

fn range() -> KeyRange {
    KeyRange {
        from: key(0),
        to: key(1_000),
    }
}

fn put(parts: &MdsParts, numbers: impl Iterator<Item = u64>) {
    parts
        .driver
        .stage_server_records(
            numbers
                .map(|n| (key(n), Some(Bytes::from_static(b"v"))))
                .collect(),
        )
        .unwrap();
}

/// What the state machine sees of the range under the shard's lock: the keys' numbers, or nothing.
fn seen(parts: &MdsParts, scanned: &ScanCache, limit: usize) -> Option<Vec<u64>> {
    let shard = parts.driver.shard.lock();
    let view = StoreView::new(&parts.store, &parts.driver.kv, scanned, &shard.recent);
    let records = view.scan(&range(), limit)?;
    let number = |key: &RecordKey| (0..1_000).find(|n| *key == self::key(*n)).unwrap();
    Some(records.iter().map(|(key, _)| number(key)).collect())
}

#[tokio::test]
async fn a_batch_beyond_the_logs_limit_is_refused_and_nothing_else_is() {
    let parts = parts().await;
    put(&parts, [1].into_iter());
    let before = parts.driver.kv.stats();
    let large = Bytes::from(vec![7; 64 << 10]);
    let refused = parts
        .driver
        .stage_server_records(vec![(key(1), None), (key(2), Some(large))]);
    assert!(
        matches!(&refused, Err(FsError::Malformed(why)) if why.contains("exceeds")),
        "{refused:?}"
    );
    assert_eq!(parts.driver.kv.stats(), before);
    put(&parts, [2].into_iter());
    parts
        .driver
        .kv
        .wait_durable(parts.driver.kv.last_seq())
        .await
        .unwrap();
    assert!(parts.store.get_now(&key(1)).await.unwrap().is_some());
    assert!(parts.store.failure().is_none());
}

#[tokio::test]
async fn keys_staged_after_a_scan_are_visible_to_the_state_machine() {
    let parts = parts().await;
    put(&parts, [10, 20, 30].into_iter());
    let mut scanned = parts.driver.begin_scans();
    assert_eq!(seen(&parts, &scanned, 5), None, "no scan was read yet");
    scanned
        .read(RequestOrigin::server("test"), range(), 5)
        .await
        .unwrap();
    assert_eq!(seen(&parts, &scanned, 5), Some(vec![10, 20, 30]));
    put(&parts, [15, 5, 2_000].into_iter());
    parts
        .driver
        .stage_server_records(vec![(key(20), None)])
        .unwrap();
    assert_eq!(seen(&parts, &scanned, 5), Some(vec![5, 10, 15, 30]));
    assert_eq!(seen(&parts, &scanned, 3), Some(vec![5, 10, 15]));
    assert_eq!(seen(&parts, &scanned, 6), None, "more than was read");
}

#[tokio::test]
async fn nothing_is_claimed_behind_the_end_of_a_scan() {
    let parts = parts().await;
    put(&parts, 0..200);
    let mut scanned = parts.driver.begin_scans();
    scanned
        .read(RequestOrigin::server("test"), range(), 10)
        .await
        .unwrap();
    assert_eq!(seen(&parts, &scanned, 10), Some((0..10).collect()));
    put(&parts, [500].into_iter());
    parts
        .driver
        .stage_server_records((0..SCAN_SPARE as u64).map(|n| (key(n), None)).collect())
        .unwrap();
    let left: Vec<u64> = (SCAN_SPARE as u64..SCAN_SPARE as u64 + 10).collect();
    assert_eq!(seen(&parts, &scanned, 10), Some(left));
    // One more removal, and ten records are not known any more; 500 is none of the first ten.
    parts
        .driver
        .stage_server_records(vec![(key(SCAN_SPARE as u64), None)])
        .unwrap();
    assert_eq!(seen(&parts, &scanned, 10), None);
}

#[tokio::test]
async fn too_many_changes_make_a_scan_void_and_a_new_one_counts() {
    let parts = parts().await;
    let mut scanned = parts.driver.begin_scans();
    scanned
        .read(RequestOrigin::server("test"), range(), 10)
        .await
        .unwrap();
    for some in 0..=(RECENT_KEYS_MAX / 512) as u64 {
        put(&parts, (1..=512).map(|n| 1_000 + some * 512 + n));
    }
    put(&parts, [7].into_iter());
    assert_eq!(seen(&parts, &scanned, 10), None);
    scanned
        .read(RequestOrigin::server("test"), range(), 10)
        .await
        .unwrap();
    assert_eq!(seen(&parts, &scanned, 10), Some(vec![7]));
}

#[tokio::test]
async fn no_keys_are_noted_while_no_scan_is_open() {
    let parts = parts().await;
    let mut scanned = parts.driver.begin_scans();
    scanned
        .read(RequestOrigin::server("test"), range(), 10)
        .await
        .unwrap();
    put(&parts, [7].into_iter());
    assert_eq!(parts.driver.shard.lock().recent.len(), 1);
    drop(scanned);
    put(&parts, [8].into_iter());
    assert!(parts.driver.shard.lock().recent.len() == 0);
}

#[tokio::test]
async fn a_view_returns_the_newest_uncommitted_batch_that_it_showed() {
    let parts = parts().await;
    put(&parts, [1].into_iter());
    put(&parts, [2].into_iter());
    put(&parts, [3].into_iter());
    parts.driver.kv.wait_committed(Seq(1)).await.unwrap(); // commits the whole group
    put(&parts, [4].into_iter());
    let scanned = parts.driver.begin_scans();
    let shard = parts.driver.shard.lock();
    let view = StoreView::new(&parts.store, &parts.driver.kv, &scanned, &shard.recent);
    assert!(matches!(view.get(&key(2)), CachedRecord::Value(Some(_))));
    assert_eq!(view.newest(), Seq(0));
    assert_eq!(view.get(&key(5)), CachedRecord::Value(None));
    assert!(matches!(view.get(&key(4)), CachedRecord::Value(Some(_))));
    assert_eq!(view.newest(), Seq(4));
}
