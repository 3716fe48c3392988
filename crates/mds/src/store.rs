//! The metadata store as the server uses it: its records, read away from the reactor, and the waits for its log.
//!
//! Batches are staged by `ShardDriver` alone, under the shard's lock.

use crate::limits::{READ_OFFLOAD_FOR, READ_SLOW, SCAN_STEP};
use crate::origin::RequestOrigin;
use crate::serving::ServingState;
use crate::stats::MdsStats;
use crate::waits::{WaitList, WaitReason};
use bytes::Bytes;
use gupfs_namespace::{KeyRange, RecordBatch, RecordKey};
use gupfs_platform::{BootTime, Platform};
use gupfs_proto::{FsError, Seq, VirtualShard, VirtualShards};
use gupfs_store::kv::{Kv, KvError, KvStats};
use gupfs_store::log::{Headroom, StopMode};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

pub struct MetadataStore {
    kv: Arc<Kv>,
    platform: Platform,
    shards: VirtualShards,
    serving: Arc<ServingState>,
    waits: Arc<WaitList>,
    stats: Arc<MdsStats>,
    /// Boot time until which the index is read away from the reactor, because a read was slow.
    reads_slow_until: AtomicU64,
}

impl MetadataStore {
    pub fn new(
        kv: Arc<Kv>,
        platform: &Platform,
        shards: VirtualShards,
        serving: Arc<ServingState>,
        waits: Arc<WaitList>,
        stats: Arc<MdsStats>,
    ) -> MetadataStore {
        MetadataStore {
            kv,
            platform: platform.clone(),
            shards,
            serving,
            waits,
            stats,
            reads_slow_until: AtomicU64::new(0),
        }
    }

    /// The newest staged batch.
    pub fn last_seq(&self) -> Seq {
        self.kv.last_seq()
    }

    pub fn committed_seq(&self) -> Seq {
        self.kv.committed_seq()
    }

    pub fn durable_seq(&self) -> Seq {
        self.kv.durable_seq()
    }

    pub fn headroom(&self) -> Headroom {
        self.kv.headroom()
    }

    pub fn kv_stats(&self) -> KvStats {
        self.kv.stats()
    }

    /// Closes the store with everything durable.
    pub async fn stop(&self, mode: StopMode) -> Result<(), KvError> {
        self.kv.stop(mode).await
    }

    pub fn shards(&self) -> VirtualShards {
        self.shards
    }

    pub fn all_shards(&self) -> impl Iterator<Item = VirtualShard> + use<> {
        (0..self.shards.0).map(VirtualShard)
    }

    /// The store failed: see `ServingState::fail`.
    pub fn fail(&self, error: &KvError) -> FsError {
        self.serving.fail(error)
    }

    /// Why the server serves nothing any more. Finds a failure that no request has met yet, too: the log syncs by itself.
    pub fn failure(&self) -> Option<&str> {
        if self.serving.noted_failure().is_none()
            && let Some(why) = self.kv.closed()
            && !self.serving.is_stopping()
        {
            self.serving.fail(&KvError::from(why));
        }
        self.serving.noted_failure()
    }

    /// Returns when every batch up to `seq` survives this process.
    pub async fn committed(&self, origin: RequestOrigin, seq: Seq) -> Result<(), FsError> {
        tracing::trace!(target: "walk", file = file!(), "committed");
        if self.kv.committed_seq() >= seq {
            return Ok(());
        }
        let done = self
            .waits
            .wait(origin, WaitReason::Commit(seq), self.kv.wait_committed(seq));
        done.await?.map_err(|error| self.fail(&error))
    }

    /// Returns when every batch up to `seq` survives a power loss; syncs the log for it.
    pub async fn durable(&self, origin: RequestOrigin, seq: Seq) -> Result<(), FsError> {
        if self.kv.durable_seq() >= seq {
            return Ok(());
        }
        let done = self
            .waits
            .wait(origin, WaitReason::Durable(seq), self.kv.wait_durable(seq));
        done.await?.map_err(|error| self.fail(&error))
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

    /// Whether no read of the index was slow a short while ago.
    pub fn are_reads_quick(&self) -> bool {
        self.platform.clock.boot() >= BootTime(self.reads_slow_until.load(Relaxed))
    }

    /// Reads a record for an attempt, in this thread; returns whether the read was slow, too.
    pub fn read_for_attempt(&self, key: &RecordKey) -> (Result<Option<Bytes>, KvError>, bool) {
        let begun = self.platform.clock.boot();
        let read = self.kv.get(key.as_bytes());
        let ended = self.platform.clock.boot();
        let is_slow = ended.since(begun) > READ_SLOW;
        if is_slow {
            self.reads_slow_until
                .store((ended + READ_OFFLOAD_FOR).0, Relaxed);
        }
        (read, is_slow)
    }

    /// The newest state of a record that is read rarely: in this thread.
    pub fn get_in_place(&self, key: &RecordKey) -> Result<Option<Bytes>, FsError> {
        let read = self.kv.get(key.as_bytes());
        read.map_err(|error| self.fail(&error))
    }

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

    /// `scan_now` for a request, whose wait is listed.
    pub fn wait_scan<'a>(
        &'a self,
        origin: RequestOrigin,
        range: &'a KeyRange,
        limit: usize,
    ) -> impl Future<Output = Result<Result<Vec<(RecordKey, Bytes)>, FsError>, FsError>> + 'a {
        let scan = self.scan_now(range, limit);
        self.waits.wait(origin, WaitReason::Records(limit), scan)
    }

    /// Visits every record of a range, in order, read in steps.
    pub async fn each_record(
        &self,
        mut range: KeyRange,
        mut visit: impl FnMut(&RecordKey, &Bytes) -> Result<(), FsError>,
    ) -> Result<(), FsError> {
        loop {
            let records = self.scan_now(&range, SCAN_STEP).await?;
            for (key, value) in &records {
                visit(key, value)?;
            }
            match records.last() {
                Some((last, _)) if records.len() == SCAN_STEP => range.from = last.successor(),
                _ => return Ok(()),
            }
        }
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
