//! # kv: a log and its index as one store
//!
//! Owns   what is newest of every key: staged batches over what was read over the index; moving batches into the index.
//! Never  knows what a key means; waits while `peek` or `stage` is called.
//! Enter  at `Kv::open`.
//!
//! A batch is *staged* (it has its place and everybody sees it), *committed* (in the log: survives the process), *durable*
//! (survives a power cut), *applied* (the index has it). The *overlay* holds what is staged and not applied yet; below it
//! lies a *cache* of what was read or applied lately; below that the index.
//!
//! ```no_run
//! # use gupfs_store::kv::*; use gupfs_store::{index::{FILES_MOST, Index}, log::{LogOptions, Stop, StoreId}}; use gupfs_platform::{Disk, Platform};
//! # async fn tour(disk: Disk, store: StoreId) -> Result<(), KvError> {
//! let index = Index::open_fjall(std::path::Path::new("/srv/gupfs/mds/index"), FILES_MOST)?;
//! let (kv, recovery) = Kv::open(disk, index, KvOptions::new(LogOptions::new(store)), Platform::real()).await?;
//! let ticket = kv.stage(0, vec![("key".into(), Some("value".into()))])?;
//! kv.committed(ticket).await?; // answer now
//! kv.durable(ticket).await?; // fsync says yes
//! assert_eq!(kv.get(b"key")?.as_deref(), Some(&b"value"[..]));
//! # kv.stop(Stop::InOrder).await }
//! ```

mod apply;
mod body;
mod cache;
mod error;
pub mod limits;
mod memory;
mod salvage;
mod scan;
#[cfg(test)]
mod tests;

pub use error::KvError;
pub use memory::Peek;
pub use salvage::{copy_records, replay_survey};

use crate::index::Index;
use crate::log::{BatchTooLarge, Headroom, Log, LogError, LogOptions, LogRecovery, LogStats, Stop};
use bytes::Bytes;
use gupfs_platform::{Disk, Platform, Task};
use gupfs_proto::Seq;
use memory::Memory;
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::sync::Notify;

/// Changes that are committed as one: a new value, or None to remove.
pub type Batch = Vec<(Bytes, Option<Bytes>)>;

/// How the store is kept.
#[derive(Clone, Debug)]
pub struct KvOptions {
    pub log: LogOptions,
    /// Bytes of records kept in memory below the overlay.
    pub cache_bytes: usize,
    /// The index is persisted when so many bytes of log lie behind the last time.
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

/// What opening found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KvRecovery {
    pub log: LogRecovery,
    /// How far the index was.
    pub applied: Seq,
    /// Batches that the log gave it again.
    pub replayed: u64,
}

/// What there is now.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct KvStats {
    pub log: LogStats,
    pub staged: Seq,
    pub committed: Seq,
    pub durable: Seq,
    pub applied: Seq,
    /// Batches that the index does not have yet, keys they change, bytes these take.
    pub waiting: u64,
    pub overlay_keys: u64,
    pub overlay_bytes: u64,
    pub cache_bytes: u64,
    /// Groups applied, and batches in them.
    pub groups: u64,
    pub grouped: u64,
}

/// A store. Dropped without `stop` it just ends, as if its process had been killed.
pub struct Kv {
    shared: Arc<Shared>,
    applier: Task<()>,
}

struct Shared {
    log: Log,
    index: Index,
    platform: Platform,
    options: KvOptions,
    memory: Mutex<Memory>,
    /// Something waits to be applied.
    staged: Notify,
    /// Apply what there is at once.
    hurry: Notify,
    /// The overlay has shrunk.
    applied: Notify,
}

impl Drop for Kv {
    fn drop(&mut self) {
        self.applier.stop();
    }
}

impl Kv {
    /// Opens log and index and gives the index what it lacks.
    ///
    /// # Errors
    /// Whatever keeps the log or the index from serving: nothing is guessed, nothing is skipped.
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
            memory: Mutex::new(Memory::new(options.cache_bytes, found.last)),
            log,
            index,
            platform,
            options,
            staged: Notify::new(),
            hurry: Notify::new(),
            applied: Notify::new(),
        });
        let applier = shared
            .platform
            .tasks
            .spawn("index applier", shared.clone().keep_applying());
        let recovery = KvRecovery {
            log: found,
            applied,
            replayed,
        };
        Ok((Kv { shared, applier }, recovery))
    }

    /// The newest value of a key if it is in memory. No I/O.
    pub fn peek(&self, key: &[u8]) -> Peek {
        self.shared
            .memory
            .lock()
            .peek(key, self.shared.log.committed())
    }

    /// The newest value of a key, from the index if need be; `peek` knows it afterwards.
    pub fn get(&self, key: &[u8]) -> Result<Option<Bytes>, KvError> {
        self.shared.get(key)
    }

    /// The first `limit` records with `from <= key < to`, newest values.
    pub fn scan(
        &self,
        from: Bytes,
        to: Bytes,
        limit: usize,
    ) -> Result<Vec<(Bytes, Bytes)>, KvError> {
        self.shared.scan(from, to, limit)
    }

    /// Gives a batch its place. Everybody sees it from here on; it is not committed yet. No I/O.
    ///
    /// # Errors
    /// When the batch is larger than the log's largest record: then log and memory are as they were, and the store goes on.
    pub fn stage(&self, shard: u16, batch: Batch) -> Result<Seq, BatchTooLarge> {
        let (bytes, most) = (
            body::encoded_len(&batch),
            self.shared.options.log.record_max(),
        );
        if bytes > most {
            return Err(BatchTooLarge { bytes, most }); // before megabytes are copied under the lock
        }
        let mut memory = self.shared.memory.lock();
        // Under the lock, so that the order in the log is the order in the overlay.
        let seq = self
            .shared
            .log
            .stage(shard, |body| body::encode(&batch, body))?;
        let waiting = memory.stage(seq, batch);
        drop(memory);
        // The applier is woken for a group, not for each batch.
        if waiting == 1 {
            self.shared.staged.notify_one();
        } else if waiting == limits::GROUP_BATCHES {
            self.shared.hurry.notify_one();
        }
        Ok(seq)
    }

    /// Returns when the batch survives this process.
    pub async fn committed(&self, seq: Seq) -> Result<(), KvError> {
        Ok(self.shared.log.commit(seq).await?)
    }

    /// Returns when the batch survives a power cut.
    pub async fn durable(&self, seq: Seq) -> Result<(), KvError> {
        Ok(self.shared.log.make_durable(seq).await?)
    }

    /// Returns when there is room for more: the index is not far behind.
    pub async fn room(&self) -> Result<(), KvError> {
        loop {
            let moved = self.shared.applied.notified();
            if self.has_room() {
                return Ok(());
            }
            self.check_open()?;
            self.shared.hurry.notify_one();
            moved.await;
        }
    }

    /// Whether `room` would return at once.
    pub fn has_room(&self) -> bool {
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

    pub fn headroom(&self) -> Headroom {
        self.shared.log.headroom()
    }

    /// Why nothing is committed any more, if so.
    pub fn closed(&self) -> Option<LogError> {
        self.shared.log.closed()
    }

    fn check_open(&self) -> Result<(), KvError> {
        self.closed().map_or(Ok(()), |why| Err(why.into()))
    }

    /// Ends the store because something above it failed.
    pub fn abandon(&self, why: impl Into<String>) {
        self.shared.log.abandon(why);
        self.shared.applied.notify_waiters();
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

    /// Makes everything staged durable, gives it to the index, and closes both.
    pub async fn stop(&self, how: Stop) -> Result<(), KvError> {
        let last = self.last_seq();
        self.durable(last).await?;
        loop {
            let moved = self.shared.applied.notified();
            if self.shared.memory.lock().applied() >= last {
                break;
            }
            self.check_open()?;
            self.shared.hurry.notify_one();
            moved.await;
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
            let before = match self.memory.lock().look(key) {
                Ok(known) => return Ok(known),
                Err(moment) => moment,
            };
            let found = self.index.get(key)?;
            // What was applied meanwhile may be newer than what was found.
            if self.memory.lock().learn(key, found.clone(), Some(before)) {
                return Ok(found);
            }
        }
        // The index moves all the time: hold it still for one read.
        let mut memory = self.memory.lock();
        match memory.look(key) {
            Ok(known) => Ok(known),
            Err(_) => {
                let found = self.index.get(key)?;
                memory.learn(key, found.clone(), None);
                Ok(found)
            }
        }
    }
}
