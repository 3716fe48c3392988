//! The store as the machine sees it, and the reads that wait.
//!
//! A scan is read outside the shard's lock; the machine then runs under it. So that it sees one state, the keys that are
//! staged while a scan is open are noted, and laid over what was read (`Recent`).

use crate::core::Core;
use crate::limits::{READ_AWAY, READ_SLOW, READS_HERE};
use crate::waits::{Awaited, Who};
use bytes::Bytes;
use gupfs_namespace::{Batch, Key, KeyRange, Known, Records};
use gupfs_platform::BootTime;
use gupfs_proto::{Refusal, Seq};
use gupfs_store::kv::{KvError, Peek};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering::Relaxed;

/// Records read beyond what a scan wants, so that a few removals meanwhile do not make it short.
const SPARE: usize = 64;

/// Keys noted while scans are open; above it they are read again.
const RECENT_MAX: usize = 1 << 16;

/// One operation's records: the newest state, and which batch of it is the newest that was seen uncommitted.
pub struct View<'a> {
    core: &'a Core,
    scanned: &'a Scanned<'a>,
    recent: &'a Recent,
    newest: Cell<Seq>,
    /// How many more records may be read from the index while others wait for the shard.
    reads_left: Cell<usize>,
    failed: RefCell<Option<KvError>>,
}

impl<'a> View<'a> {
    pub fn new(core: &'a Core, scanned: &'a Scanned<'a>, recent: &'a Recent) -> View<'a> {
        let quick = core.platform.clock.boot() >= BootTime(core.reads_slow_until.load(Relaxed));
        View {
            core,
            scanned,
            recent,
            newest: Cell::new(Seq(0)),
            reads_left: Cell::new(if quick { READS_HERE } else { 0 }),
            failed: RefCell::new(None),
        }
    }

    pub fn newest(&self) -> Seq {
        self.newest.get()
    }

    /// Why the index could not be read, if it was.
    pub fn failure(&self) -> Option<KvError> {
        self.failed.borrow_mut().take()
    }

    fn saw(&self, seq: Seq) {
        self.newest.set(self.newest.get().max(seq));
    }

    /// Reads the index here and now.
    ///
    /// Nearly every change asks for keys that nobody asked for before: that a new name is not there yet. The index knows
    /// that from memory in 2 µs, while a hand-off to another thread costs 25 to 50 and the operation begins again after it.
    /// So a few keys are read here, as long as such reads are quick; after a slow one none is for a while.
    fn read(&self, key: &Key) -> Known {
        let left = self.reads_left.get();
        if left == 0 {
            return Known::Unknown;
        }
        self.reads_left.set(left - 1);
        let begun = self.core.platform.clock.boot();
        let read = self.core.kv.get(key.as_bytes());
        let ended = self.core.platform.clock.boot();
        if ended.since(begun) > READ_SLOW {
            self.core
                .reads_slow_until
                .store((ended + READ_AWAY).0, Relaxed);
            self.reads_left.set(0);
        }
        match read {
            Ok(value) => Known::Value(value),
            Err(error) => {
                self.failed.replace(Some(error));
                Known::Unknown
            }
        }
    }
}

impl Records for View<'_> {
    fn get(&self, key: &Key) -> Known {
        match self.core.kv.peek(key.as_bytes()) {
            Peek::Known { value, uncommitted } => {
                if let Some(seq) = uncommitted {
                    self.saw(seq);
                }
                Known::Value(value)
            }
            // It is not staged, and nobody stages while we have the lock: what the index says is committed.
            Peek::Unknown => self.read(key),
        }
    }

    fn scan(&self, range: &KeyRange, limit: usize) -> Option<Vec<(Key, Bytes)>> {
        let scan = self.scanned.of(range, limit)?;
        if scan.begun < self.recent.complete_from {
            return None;
        }
        let mut records = scan.records.clone();
        for key in self.recent.keys.range(&range.from..&range.to) {
            match self.get(key) {
                Known::Value(Some(value)) => records.insert(key.clone(), value),
                Known::Value(None) => records.remove(key),
                Known::Unknown => return None,
            };
        }
        // Behind where the reading stopped nothing is known but what was noted.
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

/// Keys staged while scans are open. Nothing is noted while none is.
#[derive(Default)]
pub struct Recent {
    open: usize,
    keys: BTreeSet<Key>,
    /// Scans begun before this batch cannot be brought up to date: what was noted then is forgotten.
    complete_from: Seq,
}

impl Recent {
    /// Notes the keys of the batch that is staged as `seq`.
    pub fn note<'k>(&mut self, seq: Seq, keys: impl Iterator<Item = &'k Key>) {
        if self.open == 0 {
            return;
        }
        if self.keys.len() >= RECENT_MAX {
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

/// What one operation has scanned so far. While it lives, `Recent` notes what is staged.
pub struct Scanned<'a> {
    core: &'a Core,
    scans: Vec<Scan>,
    is_open: bool,
}

struct Scan {
    range: KeyRange,
    limit: usize,
    records: BTreeMap<Key, Bytes>,
    /// The last record read, if there may be more behind it.
    ended_at: Option<Key>,
    /// Everything staged after this batch was noted.
    begun: Seq,
    /// Everything that was read is in a batch up to here.
    seq: Seq,
}

impl Drop for Scanned<'_> {
    fn drop(&mut self) {
        if self.is_open {
            self.core.shard.lock().recent.close();
        }
    }
}

impl<'a> Scanned<'a> {
    pub fn new(core: &'a Core) -> Scanned<'a> {
        Scanned {
            core,
            scans: Vec::new(),
            is_open: false,
        }
    }

    fn of(&self, range: &KeyRange, limit: usize) -> Option<&Scan> {
        self.scans
            .iter()
            .find(|scan| scan.range == *range && scan.limit >= limit)
    }

    /// Reads a range for the operation, in place of an earlier reading of it.
    pub async fn read(&mut self, who: Who, range: KeyRange, limit: usize) -> Result<(), Refusal> {
        let begun = self.begin();
        let want = limit + SPARE;
        let read = self.core.waits.wait(
            who,
            Awaited::Records(want),
            self.core.scan_now(&range, want),
        );
        let records = read.await??;
        let ended_at = match records.last() {
            Some((last, _)) if records.len() == want => Some(last.clone()),
            _ => None,
        };
        self.scans.retain(|scan| scan.range != range);
        self.scans.push(Scan {
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

/// A batch as the store takes it.
pub fn to_store(batch: Batch) -> gupfs_store::kv::Batch {
    let bytes = |key: Key| Bytes::copy_from_slice(key.as_bytes());
    batch
        .into_iter()
        .map(|(key, value)| (bytes(key), value))
        .collect()
}

/// A record that cannot be understood.
pub fn damaged(key: &Key, what: impl std::fmt::Display) -> Refusal {
    Refusal::StoreFailed(format!("record {key:?}: {what}"))
}

impl Core {
    /// Brings records into memory, so that the next try finds them: away from the reactor, with one hand-off for all.
    pub async fn fetch_all(&self, who: Who, keys: Vec<Key>) -> Result<(), Refusal> {
        self.stats.fetch_rounds.fetch_add(1, Relaxed);
        let kv = self.kv.clone();
        let count = keys.len();
        let read = self.platform.tasks.blocking(move || {
            let mut reads = keys.iter().map(|key| kv.get(key.as_bytes()));
            reads.try_for_each(|read| read.map(|_| ()))
        });
        let read = self.waits.wait(who, Awaited::Records(count), read);
        read.await?.map_err(|error| self.fail(&error))
    }

    /// The newest states of records, read away from the reactor with one hand-off for all.
    pub async fn get_all_now(&self, keys: Vec<Key>) -> Result<Vec<Option<Bytes>>, Refusal> {
        let kv = self.kv.clone();
        let read = self.platform.tasks.blocking(move || {
            let reads = keys.iter().map(|key| kv.get(key.as_bytes()));
            reads.collect::<Result<Vec<_>, _>>()
        });
        read.await.map_err(|error| self.fail(&error))
    }

    /// The newest state of a record.
    pub async fn get_now(&self, key: &Key) -> Result<Option<Bytes>, Refusal> {
        let (kv, key) = (self.kv.clone(), key.clone());
        let read = self.platform.tasks.blocking(move || kv.get(key.as_bytes()));
        read.await.map_err(|error| self.fail(&error))
    }

    /// The first records of a range, each in a state between now and the answer.
    pub async fn scan_now(
        &self,
        range: &KeyRange,
        limit: usize,
    ) -> Result<Vec<(Key, Bytes)>, Refusal> {
        let kv = self.kv.clone();
        let [from, to] = [&range.from, &range.to].map(|key| Bytes::copy_from_slice(key.as_bytes()));
        let read = self
            .platform
            .tasks
            .blocking(move || kv.scan(from, to, limit));
        let records = read.await.map_err(|error| self.fail(&error))?;
        let keyed = records
            .into_iter()
            .map(|(key, value)| (Key::from_bytes(&key), value));
        Ok(keyed.collect())
    }

    /// Waits while the index is far behind, so that memory is bounded.
    pub async fn room(&self, who: Who) -> Result<(), Refusal> {
        if self.kv.has_room() {
            return Ok(());
        }
        let room = self.waits.wait(who, Awaited::Room, self.kv.room());
        room.await?.map_err(|error| self.fail(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::Parts;
    use crate::targets::{Ground, Targets};
    use gupfs_namespace::Known;
    use gupfs_platform::fake::{FakeDisk, FakeOptions, FakeWorld};
    use gupfs_proto::cluster::OwnerMark;
    use gupfs_proto::{ClusterId, Incarnation, InodeId, Name, OwnerEpoch, VirtualShards};
    use gupfs_store::index::{FakeIndex, Index};
    use gupfs_store::kv::{Kv, KvOptions};
    use gupfs_store::log::{LogOptions, StoreId};
    use std::collections::BTreeMap;
    use std::sync::Arc;

    async fn core() -> Core {
        let platform = FakeWorld::new(1).platform();
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
        let how = KvOptions::new(log);
        let (kv, _) = Kv::open(disk.clone(), index, how, platform.clone())
            .await
            .unwrap();
        let (clock, none, nobody) = (platform.clock.clone(), BTreeMap::new(), BTreeMap::new());
        let ground = Ground {
            cluster,
            ours: OwnerMark::default(),
            found: Seq(0),
            lost_before: OwnerEpoch(0),
            accept_loss: false,
        };
        Core::new(Parts {
            kv: Arc::new(kv),
            disk,
            shards: VirtualShards(1),
            owner_epoch: OwnerEpoch(1),
            lost_before: OwnerEpoch(0),
            loss_accepted: false,
            sessions_skipped: 0,
            targets: Targets::new(ground, clock, None, none, nobody),
            keeps_sessions: false,
            platform,
        })
    }

    fn key(number: u64) -> Key {
        Key::entry(InodeId(9), number, &Name::new(b"n").unwrap())
    }

    fn range() -> KeyRange {
        KeyRange {
            from: key(0),
            to: key(1_000),
        }
    }

    fn put(core: &Core, numbers: impl Iterator<Item = u64>) {
        core.stage_own(
            numbers
                .map(|n| (key(n), Some(Bytes::from_static(b"v"))))
                .collect(),
        )
        .unwrap();
    }

    /// What the machine sees of the range under the shard's lock: the keys' numbers, or nothing.
    fn seen(core: &Core, scanned: &Scanned, limit: usize) -> Option<Vec<u64>> {
        let shard = core.shard.lock();
        let view = View::new(core, scanned, &shard.recent);
        let records = view.scan(&range(), limit)?;
        let number = |key: &Key| (0..1_000).find(|n| *key == self::key(*n)).unwrap();
        Some(records.iter().map(|(key, _)| number(key)).collect())
    }

    #[tokio::test]
    async fn a_batch_beyond_the_logs_limit_is_refused_and_nothing_else_is() {
        let core = core().await;
        put(&core, [1].into_iter());
        let before = core.kv.stats();
        let large = Bytes::from(vec![7; 64 << 10]);
        let refused = core.stage_own(vec![(key(1), None), (key(2), Some(large))]);
        assert!(
            matches!(&refused, Err(Refusal::Malformed(why)) if why.contains("exceeds")),
            "{refused:?}"
        );
        assert_eq!(core.kv.stats(), before);
        put(&core, [2].into_iter());
        core.kv.durable(core.kv.last_seq()).await.unwrap();
        assert!(core.get_now(&key(1)).await.unwrap().is_some());
        assert!(core.failure().is_none());
    }

    #[tokio::test]
    async fn what_is_staged_after_a_scan_is_part_of_what_the_machine_sees() {
        let core = core().await;
        put(&core, [10, 20, 30].into_iter());
        let mut scanned = Scanned::new(&core);
        assert_eq!(seen(&core, &scanned, 5), None, "nothing was read yet");
        scanned.read(Who::own("test"), range(), 5).await.unwrap();
        assert_eq!(seen(&core, &scanned, 5), Some(vec![10, 20, 30]));
        put(&core, [15, 5, 2_000].into_iter());
        core.stage_own(vec![(key(20), None)]).unwrap();
        assert_eq!(seen(&core, &scanned, 5), Some(vec![5, 10, 15, 30]));
        assert_eq!(seen(&core, &scanned, 3), Some(vec![5, 10, 15]));
        assert_eq!(seen(&core, &scanned, 6), None, "more than was read");
    }

    #[tokio::test]
    async fn behind_where_a_reading_stopped_nothing_is_claimed() {
        let core = core().await;
        put(&core, 0..200);
        let mut scanned = Scanned::new(&core);
        scanned.read(Who::own("test"), range(), 10).await.unwrap();
        assert_eq!(seen(&core, &scanned, 10), Some((0..10).collect()));
        put(&core, [500].into_iter());
        core.stage_own((0..SPARE as u64).map(|n| (key(n), None)).collect())
            .unwrap();
        let left: Vec<u64> = (SPARE as u64..SPARE as u64 + 10).collect();
        assert_eq!(seen(&core, &scanned, 10), Some(left));
        // One more, and ten are not known any more; 500 is none of the first ten.
        core.stage_own(vec![(key(SPARE as u64), None)]).unwrap();
        assert_eq!(seen(&core, &scanned, 10), None);
    }

    #[tokio::test]
    async fn too_many_changes_make_a_scan_void_and_a_new_one_counts() {
        let core = core().await;
        let mut scanned = Scanned::new(&core);
        scanned.read(Who::own("test"), range(), 10).await.unwrap();
        for some in 0..=(RECENT_MAX / 512) as u64 {
            put(&core, (1..=512).map(|n| 1_000 + some * 512 + n));
        }
        put(&core, [7].into_iter());
        assert_eq!(seen(&core, &scanned, 10), None);
        scanned.read(Who::own("test"), range(), 10).await.unwrap();
        assert_eq!(seen(&core, &scanned, 10), Some(vec![7]));
    }

    #[tokio::test]
    async fn nothing_is_noted_when_nobody_scans() {
        let core = core().await;
        let mut scanned = Scanned::new(&core);
        scanned.read(Who::own("test"), range(), 10).await.unwrap();
        put(&core, [7].into_iter());
        assert_eq!(core.shard.lock().recent.keys.len(), 1);
        drop(scanned);
        put(&core, [8].into_iter());
        assert!(core.shard.lock().recent.keys.is_empty());
    }

    #[tokio::test]
    async fn a_view_tells_the_newest_uncommitted_batch_that_it_showed() {
        let core = core().await;
        put(&core, [1].into_iter());
        put(&core, [2].into_iter());
        put(&core, [3].into_iter());
        core.kv.committed(Seq(1)).await.unwrap(); // commits the whole group
        put(&core, [4].into_iter());
        let scanned = Scanned::new(&core);
        let shard = core.shard.lock();
        let view = View::new(&core, &scanned, &shard.recent);
        assert!(matches!(view.get(&key(2)), Known::Value(Some(_))));
        assert_eq!(view.newest(), Seq(0));
        assert_eq!(view.get(&key(5)), Known::Value(None));
        assert!(matches!(view.get(&key(4)), Known::Value(Some(_))));
        assert_eq!(view.newest(), Seq(4));
    }
}
