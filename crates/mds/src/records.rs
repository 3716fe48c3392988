//! The store as the state machine sees it, and the reads that wait.
//!
//! The driver scans outside the shard's lock; the state machine then runs under the lock. For one consistent state, the driver
//! notes the keys that are staged while a scan is open, and overlays them on what it read (`RecentKeys`).

use crate::core::Core;
use crate::limits::{INLINE_READS, READ_OFFLOAD_FOR, READ_SLOW};
use crate::waits::{RequestOrigin, WaitReason};
use bytes::Bytes;
use gupfs_namespace::{CachedRecord, KeyRange, RecordBatch, RecordKey, RecordSource};
use gupfs_platform::BootTime;
use gupfs_proto::{FsError, Seq};
use gupfs_store::kv::{KvError, PeekResult};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering::Relaxed;

/// Records read beyond what a scan wants, so that a few removals in the meantime do not make it short.
const SCAN_SPARE: usize = 64;

/// Keys noted while scans are open; above this number the scans are read again.
const RECENT_KEYS_MAX: usize = 1 << 16;

/// The records for one attempt: their newest state, and the newest uncommitted batch that it saw.
pub struct StoreView<'a> {
    core: &'a Core,
    scanned: &'a ScanCache<'a>,
    recent: &'a RecentKeys,
    newest: Cell<Seq>,
    /// How many more records may be read from the index while other requests wait for the shard.
    reads_left: Cell<usize>,
    failed: RefCell<Option<KvError>>,
}

impl<'a> StoreView<'a> {
    pub fn new(
        core: &'a Core,
        scanned: &'a ScanCache<'a>,
        recent: &'a RecentKeys,
    ) -> StoreView<'a> {
        let quick = core.platform.clock.boot() >= BootTime(core.reads_slow_until.load(Relaxed));
        StoreView {
            core,
            scanned,
            recent,
            newest: Cell::new(Seq(0)),
            reads_left: Cell::new(if quick { INLINE_READS } else { 0 }),
            failed: RefCell::new(None),
        }
    }

    pub fn newest(&self) -> Seq {
        self.newest.get()
    }

    /// The error of the index, if a read failed.
    pub fn failure(&self) -> Option<KvError> {
        self.failed.borrow_mut().take()
    }

    fn saw(&self, seq: Seq) {
        self.newest.set(self.newest.get().max(seq));
    }

    /// Reads the index in this thread.
    ///
    /// Nearly every change needs keys that no request needed before: it checks that a new name does not exist yet. The index
    /// knows that from memory in 2 µs, while a hand-off to another thread costs 25 to 50 and the operation begins again after it.
    /// So the view reads a few keys here, as long as such reads are quick; after a slow one it reads none for a while.
    fn read(&self, key: &RecordKey) -> CachedRecord {
        let left = self.reads_left.get();
        if left == 0 {
            return CachedRecord::Unknown;
        }
        self.reads_left.set(left - 1);
        let begun = self.core.platform.clock.boot();
        let read = self.core.kv.get(key.as_bytes());
        let ended = self.core.platform.clock.boot();
        if ended.since(begun) > READ_SLOW {
            self.core
                .reads_slow_until
                .store((ended + READ_OFFLOAD_FOR).0, Relaxed);
            self.reads_left.set(0);
        }
        match read {
            Ok(value) => CachedRecord::Value(value),
            Err(error) => {
                self.failed.replace(Some(error));
                CachedRecord::Unknown
            }
        }
    }
}

impl RecordSource for StoreView<'_> {
    fn get(&self, key: &RecordKey) -> CachedRecord {
        match self.core.kv.peek(key.as_bytes()) {
            PeekResult::Known { value, uncommitted } => {
                if let Some(seq) = uncommitted {
                    self.saw(seq);
                }
                CachedRecord::Value(value)
            }
            // The key is not staged, and no other task stages while this one has the lock: the value in the index is committed.
            PeekResult::Unknown => self.read(key),
        }
    }

    fn scan(&self, range: &KeyRange, limit: usize) -> Option<Vec<(RecordKey, Bytes)>> {
        let scan = self.scanned.of(range, limit)?;
        if scan.begun < self.recent.complete_from {
            return None;
        }
        let mut records = scan.records.clone();
        for key in self.recent.keys.range(&range.from..&range.to) {
            match self.get(key) {
                CachedRecord::Value(Some(value)) => records.insert(key.clone(), value),
                CachedRecord::Value(None) => records.remove(key),
                CachedRecord::Unknown => return None,
            };
        }
        // Behind the end of the scan only the noted keys are known.
        if let Some(end) = &scan.ended_at {
            records.split_off(&end.successor());
            if records.len() < limit {
                return None;
            }
        }
        self.saw(scan.seq);
        Some(records.into_iter().take(limit).collect())
    }
}

/// Keys staged while scans are open. Notes nothing while none is.
#[derive(Default)]
pub struct RecentKeys {
    open: usize,
    keys: BTreeSet<RecordKey>,
    /// Scans begun before this batch cannot be brought up to date: the keys noted then are gone.
    complete_from: Seq,
}

impl RecentKeys {
    /// Notes the keys of the batch that is staged as `seq`.
    pub fn note<'k>(&mut self, seq: Seq, keys: impl Iterator<Item = &'k RecordKey>) {
        if self.open == 0 {
            return;
        }
        if self.keys.len() >= RECENT_KEYS_MAX {
            self.keys.clear();
            self.complete_from = seq;
        }
        self.keys.extend(keys.cloned());
    }

    pub fn is_noting(&self) -> bool {
        self.open > 0
    }

    fn close(&mut self) {
        self.open -= 1;
        if self.open == 0 {
            self.keys.clear();
        }
    }
}

/// The scans of one operation so far. While it lives, `RecentKeys` notes staged keys.
pub struct ScanCache<'a> {
    core: &'a Core,
    scans: Vec<CachedScan>,
    is_open: bool,
}

struct CachedScan {
    range: KeyRange,
    limit: usize,
    records: BTreeMap<RecordKey, Bytes>,
    /// The last record read, if there may be more behind it.
    ended_at: Option<RecordKey>,
    /// Keys staged after this batch were noted.
    begun: Seq,
    /// All records read are in batches up to here.
    seq: Seq,
}

impl Drop for ScanCache<'_> {
    fn drop(&mut self) {
        if self.is_open {
            self.core.shard.lock().recent.close();
        }
    }
}

impl<'a> ScanCache<'a> {
    pub fn new(core: &'a Core) -> ScanCache<'a> {
        ScanCache {
            core,
            scans: Vec::new(),
            is_open: false,
        }
    }

    fn of(&self, range: &KeyRange, limit: usize) -> Option<&CachedScan> {
        self.scans
            .iter()
            .find(|scan| scan.range == *range && scan.limit >= limit)
    }

    /// Reads a range for the operation, in place of an earlier scan of it.
    pub async fn read(
        &mut self,
        origin: RequestOrigin,
        range: KeyRange,
        limit: usize,
    ) -> Result<(), FsError> {
        let begun = self.begin();
        let want = limit + SCAN_SPARE;
        let read = self.core.waits.wait(
            origin,
            WaitReason::Records(want),
            self.core.scan_now(&range, want),
        );
        let records = read.await??;
        let ended_at = match records.last() {
            Some((last, _)) if records.len() == want => Some(last.clone()),
            _ => None,
        };
        self.scans.retain(|scan| scan.range != range);
        self.scans.push(CachedScan {
            range,
            limit,
            records: records.into_iter().collect(),
            ended_at,
            begun,
            seq: self.core.kv.last_seq(),
        });
        Ok(())
    }

    fn begin(&mut self) -> Seq {
        let mut shard = self.core.shard.lock();
        if !self.is_open {
            self.is_open = true;
            shard.recent.open += 1;
        }
        self.core.kv.last_seq()
    }
}

/// A batch in the store's form.
pub fn to_store(batch: RecordBatch) -> gupfs_store::kv::KvBatch {
    let bytes = |key: RecordKey| Bytes::copy_from_slice(key.as_bytes());
    batch
        .into_iter()
        .map(|(key, value)| (bytes(key), value))
        .collect()
}

/// The error for a record that cannot be decoded.
pub fn damaged_record(key: &RecordKey, what: impl std::fmt::Display) -> FsError {
    FsError::StoreFailed(format!("record {key:?}: {what}"))
}

impl Core {
    /// Brings records into memory, so that the next attempt finds them: away from the reactor, with one hand-off for all.
    pub async fn fetch_all(
        &self,
        origin: RequestOrigin,
        keys: Vec<RecordKey>,
    ) -> Result<(), FsError> {
        self.stats.fetch_rounds.fetch_add(1, Relaxed);
        let kv = self.kv.clone();
        let count = keys.len();
        let read = self.platform.tasks.blocking(move || {
            let mut reads = keys.iter().map(|key| kv.get(key.as_bytes()));
            reads.try_for_each(|read| read.map(|_| ()))
        });
        let read = self.waits.wait(origin, WaitReason::Records(count), read);
        read.await?.map_err(|error| self.fail(&error))
    }

    /// The newest states of records, read away from the reactor with one hand-off for all.
    pub async fn get_all_now(&self, keys: Vec<RecordKey>) -> Result<Vec<Option<Bytes>>, FsError> {
        let kv = self.kv.clone();
        let read = self.platform.tasks.blocking(move || {
            let reads = keys.iter().map(|key| kv.get(key.as_bytes()));
            reads.collect::<Result<Vec<_>, _>>()
        });
        read.await.map_err(|error| self.fail(&error))
    }

    /// The newest state of a record.
    pub async fn get_now(&self, key: &RecordKey) -> Result<Option<Bytes>, FsError> {
        let (kv, key) = (self.kv.clone(), key.clone());
        let read = self.platform.tasks.blocking(move || kv.get(key.as_bytes()));
        read.await.map_err(|error| self.fail(&error))
    }

    /// The first records of a range, each in a state between now and the return.
    pub async fn scan_now(
        &self,
        range: &KeyRange,
        limit: usize,
    ) -> Result<Vec<(RecordKey, Bytes)>, FsError> {
        let kv = self.kv.clone();
        let [from, to] = [&range.from, &range.to].map(|key| Bytes::copy_from_slice(key.as_bytes()));
        let read = self
            .platform
            .tasks
            .blocking(move || kv.scan(from, to, limit));
        let records = read.await.map_err(|error| self.fail(&error))?;
        let keyed = records
            .into_iter()
            .map(|(key, value)| (RecordKey::from_bytes(&key), value));
        Ok(keyed.collect())
    }

    /// Waits while the index is far behind the log, so that memory is bounded.
    pub async fn wait_index_caught_up(&self, origin: RequestOrigin) -> Result<(), FsError> {
        if self.kv.has_space() {
            return Ok(());
        }
        let room = self
            .waits
            .wait(origin, WaitReason::IndexCatchUp, self.kv.wait_for_space());
        room.await?.map_err(|error| self.fail(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::CoreParts;
    use crate::osts::{IdentityContext, Targets};
    use gupfs_namespace::CachedRecord;
    use gupfs_platform::fake::{FakeDisk, FakeOptions, FakePlatform};
    use gupfs_proto::cluster::OwnerMark;
    use gupfs_proto::{ClusterId, Incarnation, InodeId, Name, OwnerEpoch, VirtualShards};
    use gupfs_store::index::{FakeIndex, Index};
    use gupfs_store::kv::{Kv, KvOptions};
    use gupfs_store::log::{LogOptions, StoreId};
    use std::collections::BTreeMap;
    use std::sync::Arc;

    async fn core() -> Core {
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
            found: Seq(0),
            lost_before: OwnerEpoch(0),
            accept_loss: false,
        };
        Core::new(CoreParts {
            kv: Arc::new(kv),
            disk,
            shards: VirtualShards(1),
            owner_epoch: OwnerEpoch(1),
            lost_before: OwnerEpoch(0),
            loss_accepted: false,
            sessions_skipped: 0,
            targets: Targets::new(identity_context, clock, None, none, no_targets),
            keeps_sessions: false,
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

    fn put(core: &Core, numbers: impl Iterator<Item = u64>) {
        core.stage_server_records(
            numbers
                .map(|n| (key(n), Some(Bytes::from_static(b"v"))))
                .collect(),
        )
        .unwrap();
    }

    /// What the state machine sees of the range under the shard's lock: the keys' numbers, or nothing.
    fn seen(core: &Core, scanned: &ScanCache, limit: usize) -> Option<Vec<u64>> {
        let shard = core.shard.lock();
        let view = StoreView::new(core, scanned, &shard.recent);
        let records = view.scan(&range(), limit)?;
        let number = |key: &RecordKey| (0..1_000).find(|n| *key == self::key(*n)).unwrap();
        Some(records.iter().map(|(key, _)| number(key)).collect())
    }

    #[tokio::test]
    async fn a_batch_beyond_the_logs_limit_is_refused_and_nothing_else_is() {
        let core = core().await;
        put(&core, [1].into_iter());
        let before = core.kv.stats();
        let large = Bytes::from(vec![7; 64 << 10]);
        let refused = core.stage_server_records(vec![(key(1), None), (key(2), Some(large))]);
        assert!(
            matches!(&refused, Err(FsError::Malformed(why)) if why.contains("exceeds")),
            "{refused:?}"
        );
        assert_eq!(core.kv.stats(), before);
        put(&core, [2].into_iter());
        core.kv.wait_durable(core.kv.last_seq()).await.unwrap();
        assert!(core.get_now(&key(1)).await.unwrap().is_some());
        assert!(core.failure().is_none());
    }

    #[tokio::test]
    async fn keys_staged_after_a_scan_are_visible_to_the_state_machine() {
        let core = core().await;
        put(&core, [10, 20, 30].into_iter());
        let mut scanned = ScanCache::new(&core);
        assert_eq!(seen(&core, &scanned, 5), None, "no scan was read yet");
        scanned
            .read(RequestOrigin::server("test"), range(), 5)
            .await
            .unwrap();
        assert_eq!(seen(&core, &scanned, 5), Some(vec![10, 20, 30]));
        put(&core, [15, 5, 2_000].into_iter());
        core.stage_server_records(vec![(key(20), None)]).unwrap();
        assert_eq!(seen(&core, &scanned, 5), Some(vec![5, 10, 15, 30]));
        assert_eq!(seen(&core, &scanned, 3), Some(vec![5, 10, 15]));
        assert_eq!(seen(&core, &scanned, 6), None, "more than was read");
    }

    #[tokio::test]
    async fn nothing_is_claimed_behind_the_end_of_a_scan() {
        let core = core().await;
        put(&core, 0..200);
        let mut scanned = ScanCache::new(&core);
        scanned
            .read(RequestOrigin::server("test"), range(), 10)
            .await
            .unwrap();
        assert_eq!(seen(&core, &scanned, 10), Some((0..10).collect()));
        put(&core, [500].into_iter());
        core.stage_server_records((0..SCAN_SPARE as u64).map(|n| (key(n), None)).collect())
            .unwrap();
        let left: Vec<u64> = (SCAN_SPARE as u64..SCAN_SPARE as u64 + 10).collect();
        assert_eq!(seen(&core, &scanned, 10), Some(left));
        // One more removal, and ten records are not known any more; 500 is none of the first ten.
        core.stage_server_records(vec![(key(SCAN_SPARE as u64), None)])
            .unwrap();
        assert_eq!(seen(&core, &scanned, 10), None);
    }

    #[tokio::test]
    async fn too_many_changes_make_a_scan_void_and_a_new_one_counts() {
        let core = core().await;
        let mut scanned = ScanCache::new(&core);
        scanned
            .read(RequestOrigin::server("test"), range(), 10)
            .await
            .unwrap();
        for some in 0..=(RECENT_KEYS_MAX / 512) as u64 {
            put(&core, (1..=512).map(|n| 1_000 + some * 512 + n));
        }
        put(&core, [7].into_iter());
        assert_eq!(seen(&core, &scanned, 10), None);
        scanned
            .read(RequestOrigin::server("test"), range(), 10)
            .await
            .unwrap();
        assert_eq!(seen(&core, &scanned, 10), Some(vec![7]));
    }

    #[tokio::test]
    async fn no_keys_are_noted_while_no_scan_is_open() {
        let core = core().await;
        let mut scanned = ScanCache::new(&core);
        scanned
            .read(RequestOrigin::server("test"), range(), 10)
            .await
            .unwrap();
        put(&core, [7].into_iter());
        assert_eq!(core.shard.lock().recent.keys.len(), 1);
        drop(scanned);
        put(&core, [8].into_iter());
        assert!(core.shard.lock().recent.keys.is_empty());
    }

    #[tokio::test]
    async fn a_view_returns_the_newest_uncommitted_batch_that_it_showed() {
        let core = core().await;
        put(&core, [1].into_iter());
        put(&core, [2].into_iter());
        put(&core, [3].into_iter());
        core.kv.wait_committed(Seq(1)).await.unwrap(); // commits the whole group
        put(&core, [4].into_iter());
        let scanned = ScanCache::new(&core);
        let shard = core.shard.lock();
        let view = StoreView::new(&core, &scanned, &shard.recent);
        assert!(matches!(view.get(&key(2)), CachedRecord::Value(Some(_))));
        assert_eq!(view.newest(), Seq(0));
        assert_eq!(view.get(&key(5)), CachedRecord::Value(None));
        assert!(matches!(view.get(&key(4)), CachedRecord::Value(Some(_))));
        assert_eq!(view.newest(), Seq(4));
    }
}
