//! # kv: a log and its index as one store
//!
//! Owns   the newest value of every key: staged batches, over the cache of read values, over the index. Applies batches
//!        to the index.
//! Never  knows the meaning of a key; never waits in `peek` or `stage`.
//! Enter  at `Kv::open`.
//!
//! A batch is *staged* (it has a position in the log, and all readers see it), *committed* (in the log; it survives the
//! process), *durable* (it survives a power loss), *applied* (it is in the index). The *overlay* holds the batches that
//! are staged and not applied yet. Below it is a *cache* of recently read or applied records, below that the index.
//!
//! ```no_run
//! # use gupfs_store::kv::*; use gupfs_store::{index::{OPEN_TABLES_MAX, Index}, log::{LogOptions, StopMode, StoreId}}; use gupfs_platform::{Disk, Platform};
//! # async fn tour(disk: Disk, store: StoreId) -> Result<(), KvError> {
//! let index = Index::open_fjall(std::path::Path::new("/srv/gupfs/mds/index"), OPEN_TABLES_MAX)?;
//! let (kv, recovery) = Kv::open(disk, index, KvOptions::new(LogOptions::new(store)), Platform::real()).await?;
//! let seq = kv.stage(0, vec![("key".into(), Some("value".into()))])?;
//! kv.wait_committed(seq).await?; // now a reply may be sent
//! kv.wait_durable(seq).await?; // now fsync may succeed
//! assert_eq!(kv.get(b"key")?.as_deref(), Some(&b"value"[..]));
//! # kv.stop(StopMode::Clean).await }
//! ```

mod apply;
mod batch_codec;
mod cache;
mod copy;
mod error;
pub mod limits;
mod memory;
mod salvage;
mod scan;
mod snapshot;
#[cfg(test)]
mod tests;

pub use copy::KvCopy;
pub use error::KvError;
pub use memory::PeekResult;
pub use salvage::{copy_records, replay_survey};
pub use snapshot::{KvSnapshot, add_snapshot_part, finish_snapshot};

use crate::index::Index;
use crate::log::{
    BatchTooLarge, Headroom, Log, LogError, LogOptions, LogPosition, LogRecovery, LogStats,
    RecordGroup, StopMode,
};
use bytes::Bytes;
use gupfs_platform::{Disk, Platform, Task};
use gupfs_proto::Seq;
use memory::MemoryLayers;
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::sync::Notify;

/// Updates that are committed together: a new value for each key, or None to remove the key.
pub type KvBatch = Vec<(Bytes, Option<Bytes>)>;

/// Options of a store.
#[derive(Clone, Debug)]
pub struct KvOptions {
    pub log: LogOptions,
    /// Memory for cached records below the overlay.
    pub cache_bytes: usize,
    /// The index is persisted each time the log has grown by this many bytes.
    pub persist_bytes: u64,
}

impl KvOptions {
    pub fn new(log: LogOptions) -> KvOptions {
        KvOptions {
            log,
            cache_bytes: limits::CACHE_BYTES,
            persist_bytes: limits::PERSIST_BYTES,
        }
    }
}

/// What `Kv::open` found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KvRecovery {
    pub log: LogRecovery,
    /// The last batch that the index had.
    pub applied: Seq,
    /// Batches of the log that were applied to the index.
    pub replayed: u64,
}

/// Current state and counters of a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct KvStats {
    pub log: LogStats,
    pub staged: Seq,
    pub committed: Seq,
    pub durable: Seq,
    pub applied: Seq,
    /// Batches that are not applied yet, and, below, the number and memory of the keys that they update.
    pub waiting: u64,
    pub overlay_keys: u64,
    pub overlay_bytes: u64,
    pub cache_bytes: u64,
    /// Groups applied since the store was opened, and the number of batches in them.
    pub groups: u64,
    pub grouped: u64,
}

/// A store. Dropping it without `stop` has the effect of a kill of its process.
pub struct Kv {
    shared: Arc<Shared>,
    applier: Task<()>,
}

struct Shared {
    log: Log,
    index: Index,
    platform: Platform,
    options: KvOptions,
    memory: Mutex<MemoryLayers>,
    /// Notified when a batch waits to be applied.
    batch_staged: Notify,
    /// Notified when the applier is to start a group at once.
    apply_now: Notify,
    /// Notified when the overlay has shrunk.
    overlay_shrunk: Notify,
}

impl Drop for Kv {
    fn drop(&mut self) {
        self.applier.stop();
    }
}

impl Kv {
    /// Opens the log and applies the batches that the index lacks.
    ///
    /// # Errors
    /// Any error of the log or the index. `open` guesses nothing and skips nothing.
    pub async fn open(
        disk: Disk,
        index: Index,
        options: KvOptions,
        platform: Platform,
    ) -> Result<(Kv, KvRecovery), KvError> {
        index.claim(options.log.store)?;
        let applied = index.applied();
        let (log, found, replay) =
            Log::open(disk, options.log.clone(), applied, platform.clone()).await?;
        let replayed = apply::replay(&index, &platform, replay).await?;
        let shared = Arc::new(Shared {
            memory: Mutex::new(MemoryLayers::new(options.cache_bytes, found.last)),
            log,
            index,
            platform,
            options,
            batch_staged: Notify::new(),
            apply_now: Notify::new(),
            overlay_shrunk: Notify::new(),
        });
        let applier = shared
            .platform
            .tasks
            .spawn("index applier", shared.clone().run_applier());
        let recovery = KvRecovery {
            log: found,
            applied,
            replayed,
        };
        Ok((Kv { shared, applier }, recovery))
    }

    /// The newest value of a key, if it is in memory. No I/O.
    pub fn peek(&self, key: &[u8]) -> PeekResult {
        self.shared
            .memory
            .lock()
            .peek(key, self.shared.log.committed())
    }

    /// The newest value of a key; reads the index if the value is not in memory. `peek` finds it there afterwards.
    ///
    /// # Errors
    /// `Index` if the index cannot be read.
    pub fn get(&self, key: &[u8]) -> Result<Option<Bytes>, KvError> {
        self.shared.get(key)
    }

    /// The first `limit` records with `from <= key < to`, newest values.
    ///
    /// # Errors
    /// `Index` if the index cannot be read.
    pub fn scan(
        &self,
        from: Bytes,
        to: Bytes,
        limit: usize,
    ) -> Result<Vec<(Bytes, Bytes)>, KvError> {
        self.shared.scan(from, to, limit)
    }

    /// Gives a batch its position in the log. All readers see it from now on; it is not committed yet. No I/O.
    ///
    /// # Errors
    /// If the batch is larger than the log's largest record. Log and memory are unchanged then, and the store goes on.
    pub fn stage(&self, shard: u16, batch: KvBatch) -> Result<Seq, BatchTooLarge> {
        tracing::trace!(target: "walk", file = file!(), "stage");
        let (bytes, most) = (
            batch_codec::encoded_len(&batch),
            self.shared.options.log.record_max(),
        );
        if bytes > most {
            return Err(BatchTooLarge { bytes, most }); // checked before the lock, so that megabytes are not copied under it
        }
        let mut memory = self.shared.memory.lock();
        // Under the lock, so that the order in the log is the order in the overlay.
        let seq = self
            .shared
            .log
            .stage(shard, |body| batch_codec::encode(&batch, body))?;
        let waiting = memory.stage(seq, batch);
        drop(memory);
        // The applier is woken once for a group, not for each batch.
        if waiting == 1 {
            self.shared.batch_staged.notify_one();
        } else if waiting == limits::GROUP_BATCHES {
            self.shared.apply_now.notify_one();
        }
        Ok(seq)
    }

    /// Returns when the batch survives the end of this process.
    ///
    /// # Errors
    /// `Log` with the reason why the log is closed, if it closes before.
    pub async fn wait_committed(&self, seq: Seq) -> Result<(), KvError> {
        Ok(self.shared.log.commit(seq).await?)
    }

    /// Returns when the batch survives a power loss.
    ///
    /// # Errors
    /// `Log` with the reason why the log is closed, if it closes before.
    pub async fn wait_durable(&self, seq: Seq) -> Result<(), KvError> {
        Ok(self.shared.log.make_durable(seq).await?)
    }

    /// Returns when there is memory for more batches, that is, when the index is not far behind.
    ///
    /// # Errors
    /// `Log` with the reason why the log is closed, if it closes before.
    pub async fn wait_for_space(&self) -> Result<(), KvError> {
        loop {
            let changed = self.shared.overlay_shrunk.notified();
            if self.has_space() {
                return Ok(());
            }
            self.check_open()?;
            self.shared.apply_now.notify_one();
            changed.await;
        }
    }

    /// Whether `wait_for_space` would return at once.
    pub fn has_space(&self) -> bool {
        let memory = self.shared.memory.lock();
        memory.overlay_bytes().max(memory.waiting_bytes()) < limits::OVERLAY_BYTES
    }

    pub fn last_seq(&self) -> Seq {
        self.shared.log.last()
    }

    pub fn committed_seq(&self) -> Seq {
        self.shared.log.committed()
    }

    pub fn durable_seq(&self) -> Seq {
        self.shared.log.durable()
    }

    /// As `Log::records_after`.
    ///
    /// # Errors
    /// As `Log::records_after`.
    pub async fn records_after(
        &self,
        position: LogPosition,
    ) -> Result<Option<RecordGroup>, LogError> {
        self.shared.log.records_after(position).await
    }

    /// The end of the records that are written, here and at all copies that count.
    pub fn written(&self) -> LogPosition {
        self.shared.log.written()
    }

    pub fn headroom(&self) -> Headroom {
        self.shared.log.headroom()
    }

    /// The reason why the log is closed, if it is.
    pub fn closed(&self) -> Option<LogError> {
        self.shared.log.closed()
    }

    fn check_open(&self) -> Result<(), KvError> {
        self.closed().map_or(Ok(()), |why| Err(why.into()))
    }

    /// Closes the store because a layer above it failed.
    pub fn abort(&self, why: impl Into<String>) {
        self.shared.log.abort(why);
        self.shared.overlay_shrunk.notify_waiters();
    }

    pub fn stats(&self) -> KvStats {
        let memory = self.shared.memory.lock();
        KvStats {
            log: self.shared.log.stats(),
            staged: self.shared.log.last(),
            committed: self.shared.log.committed(),
            durable: self.shared.log.durable(),
            applied: memory.applied(),
            waiting: memory.waiting() as u64,
            overlay_keys: memory.overlay_keys() as u64,
            overlay_bytes: memory.overlay_bytes() as u64,
            cache_bytes: memory.cache_bytes() as u64,
            groups: memory.groups,
            grouped: memory.grouped,
        }
    }

    /// Makes all staged batches durable, applies them to the index, and closes both.
    ///
    /// # Errors
    /// `Log` if the log is closed already or its last sync fails, `Index` if the index cannot be persisted.
    pub async fn stop(&self, how: StopMode) -> Result<(), KvError> {
        let last = self.last_seq();
        self.wait_durable(last).await?;
        loop {
            let changed = self.shared.overlay_shrunk.notified();
            if self.shared.memory.lock().applied() >= last {
                break;
            }
            self.check_open()?;
            self.shared.apply_now.notify_one();
            changed.await;
        }
        self.shared.persist().await?;
        self.shared.log.stop(how).await?;
        self.applier.stop();
        Ok(())
    }
}

impl Shared {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, KvError> {
        for _ in 0..limits::FETCH_TRIES {
            let before = match self.memory.lock().lookup(key) {
                Ok(known) => return Ok(known),
                Err(version) => version,
            };
            let found = self.index.get(key)?;
            // A batch that was applied meanwhile may be newer than the value just read.
            if self
                .memory
                .lock()
                .cache_value(key, found.clone(), Some(before))
            {
                return Ok(found);
            }
        }
        // The index changes all the time: hold the lock, so that it does not change during this read.
        let mut memory = self.memory.lock();
        match memory.lookup(key) {
            Ok(known) => Ok(known),
            Err(_) => {
                let found = self.index.get(key)?;
                memory.cache_value(key, found.clone(), None);
                Ok(found)
            }
        }
    }
}
