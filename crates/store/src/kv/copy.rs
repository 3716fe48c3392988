//! A copy of a store whose owner is on another host: the log, and the index behind it, which gets only batches that are durable everywhere.

use super::apply::replay_queue;
use super::{KvError, KvOptions, batch_codec, limits};
use crate::index::{Index, IndexUpdates};
use crate::log::{
    AppendError, CopiedLog, LogCopy, LogError, LogPosition, LoggedBatch, RecordGroup,
};
use gupfs_platform::{Disk, Platform, Task};
use gupfs_proto::{OwnerEpoch, Seq};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::Notify;

/// A copy of a store. Dropping it without `stop` has the effect of a kill of its process.
pub struct KvCopy {
    shared: Arc<CopyState>,
    applier: Task<()>,
}

struct CopyState {
    log: LogCopy,
    index: Index,
    platform: Platform,
    persist_bytes: u64,
    waiting: Mutex<WaitingBatches>,
    /// Notified when a batch may have become durable everywhere, or the copy is closed.
    decided: Notify,
    /// Notified when batches were applied, or the copy is closed.
    applied: Notify,
}

/// Batches that are not in the index, in their order.
#[derive(Default)]
struct WaitingBatches {
    batches: VecDeque<LoggedBatch>,
    bytes: usize,
    /// Of batches applied since the index was persisted.
    bytes_applied: u64,
    /// The applier has ended: nothing changes the index any more.
    has_ended: bool,
}

impl Drop for KvCopy {
    fn drop(&mut self) {
        self.applier.stop();
    }
}

impl KvCopy {
    /// Opens the copy's log and index; `begin_at` is where a new copy begins, whose index has everything up to there.
    ///
    /// # Errors
    /// As of `LogCopy::open`; of the index.
    pub async fn open(
        disk: Disk,
        index: Index,
        options: KvOptions,
        begin_at: LogPosition,
        platform: Platform,
    ) -> Result<(KvCopy, CopiedLog), KvError> {
        index.claim(options.log.store)?;
        let applied = index.applied();
        let (log, found, replay) = LogCopy::open(
            disk,
            options.log.clone(),
            applied,
            begin_at,
            platform.clone(),
        )
        .await?;
        let mut waiting = WaitingBatches::default();
        waiting.add(replay_queue(replay).await?);
        let shared = Arc::new(CopyState {
            log,
            index,
            platform,
            persist_bytes: options.persist_bytes,
            waiting: Mutex::new(waiting),
            decided: Notify::new(),
            applied: Notify::new(),
        });
        let tasks = &shared.platform.tasks;
        let applier = tasks.spawn("index applier", Arc::clone(&shared).run_applier());
        Ok((KvCopy { shared, applier }, found))
    }

    /// Appends the owner's records: they survive the end of this process afterwards. Waits while the index is far behind.
    ///
    /// # Errors
    /// As of `LogCopy::stage`.
    pub async fn append(&self, group: &RecordGroup) -> Result<LogPosition, AppendError> {
        self.shared.wait_for_space().await?;
        let log = &self.shared.log;
        let is_any_decided = {
            // In one step: a caller that gives up the rest leaves no batch behind that only the log has.
            let mut waiting = self.shared.waiting.lock();
            waiting.add(log.stage(group)?);
            waiting.has_upto(log.durable_everywhere())
        };
        if is_any_decided {
            self.shared.decided.notify_one();
        }
        if let Err(error) = log.commit().await {
            // The applier ends.
            self.shared.decided.notify_one();
            return Err(error.into());
        }
        Ok(log.end())
    }

    /// Returns when all records survive a power loss of this host.
    ///
    /// # Errors
    /// The reason why the copy is closed.
    pub async fn make_durable(&self) -> Result<(), LogError> {
        let done = self.shared.log.make_durable().await;
        self.shared.decided.notify_one();
        done
    }

    /// As `LogCopy::refuse_before`.
    pub fn refuse_before(&self, owner: OwnerEpoch) {
        self.shared.log.refuse_before(owner);
    }

    pub fn end(&self) -> LogPosition {
        self.shared.log.end()
    }

    /// The newest owner of whom the copy has a record.
    pub fn epoch(&self) -> OwnerEpoch {
        self.shared.log.epoch()
    }

    /// The index behind the log. After `stop` the store is opened with it again.
    pub fn index(&self) -> Index {
        self.shared.index.clone()
    }

    /// As `LogCopy::decided`.
    pub fn decided(&self) -> LogPosition {
        self.shared.log.decided()
    }

    /// As `LogCopy::has`.
    pub fn has(&self, position: LogPosition) -> bool {
        self.shared.log.has(position)
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

    /// The last batch that the index has.
    pub fn applied(&self) -> Seq {
        self.shared.index.applied()
    }

    /// Makes all records durable here, ends the applier, and closes the copy. Then `Kv::open` makes this host the owner, or `KvCopy::open`
    /// with `LogOptions::end_at` drops the end of its log.
    ///
    /// # Errors
    /// The reason why the copy is closed, if it is closed already or the last sync fails.
    pub async fn stop(&self) -> Result<(), KvError> {
        let stopped = self.shared.log.stop().await;
        self.shared.decided.notify_one();
        // The applier ends behind its group: nothing applies to the index any more.
        loop {
            let changed = self.shared.applied.notified();
            if self.shared.waiting.lock().has_ended {
                return Ok(stopped?);
            }
            changed.await;
        }
    }
}

impl WaitingBatches {
    fn add(&mut self, batches: Vec<LoggedBatch>) {
        self.bytes += batches.iter().map(|batch| batch.body.len()).sum::<usize>();
        self.batches.extend(batches);
    }

    /// Whether the applier has anything to do while batches up to this one are durable everywhere.
    fn has_upto(&self, upto: Seq) -> bool {
        self.batches.front().is_some_and(|next| next.seq <= upto)
    }

    /// The next batches to apply, up to this one.
    fn take_group(&mut self, upto: Seq) -> Vec<LoggedBatch> {
        let mut bytes = 0;
        let mut is_next = |batch: &LoggedBatch| {
            bytes += batch.body.len();
            batch.seq <= upto && bytes <= limits::GROUP_BYTES
        };
        let fits = self.batches.iter().take(limits::GROUP_MAX);
        let count = fits.take_while(|batch| is_next(batch)).count();
        let has_next = self.has_upto(upto);
        let group: Vec<LoggedBatch> = self
            .batches
            .drain(..count.max(usize::from(has_next)))
            .collect();
        let bytes: usize = group.iter().map(|batch| batch.body.len()).sum();
        self.bytes -= bytes;
        self.bytes_applied += bytes as u64;
        group
    }
}

impl CopyState {
    /// Waits while the index is far behind what it may have.
    async fn wait_for_space(&self) -> Result<(), LogError> {
        loop {
            let changed = self.applied.notified();
            let next = {
                let waiting = self.waiting.lock();
                let next = waiting.batches.front().map(|next| next.seq);
                next.filter(|_| waiting.bytes >= limits::OVERLAY_BYTES)
            };
            // Batches that may still be dropped must wait; their owner keeps them few.
            let Some(next) = next.filter(|next| *next <= self.log.said_durable()) else {
                return Ok(());
            };
            if let Some(why) = self.log.closed() {
                return Err(why);
            }
            if next > self.log.durable() {
                self.log.make_durable().await?;
            }
            self.decided.notify_one();
            changed.await;
        }
    }

    /// The applier, a background task. It ends when the log is closed.
    async fn run_applier(self: Arc<Self>) {
        let _ended = MarkEnded(&self);
        loop {
            let decided = self.decided.notified();
            if self.log.closed().is_some() {
                return;
            }
            let everywhere = self.log.durable_everywhere();
            let group = self.waiting.lock().take_group(everywhere);
            if group.is_empty() {
                decided.await;
                continue;
            }
            if let Err(error) = self.apply(group).await {
                return self.log.abort(format!("{error}"));
            }
            self.applied.notify_waiters();
        }
    }

    async fn apply(&self, group: Vec<LoggedBatch>) -> Result<(), KvError> {
        let mut updates = IndexUpdates::new();
        let mut last = Seq(0);
        for batch in group {
            last = batch.seq;
            let updated = batch_codec::decode(batch.body);
            updates.extend(updated.ok_or(KvError::Malformed { seq: last })?);
        }
        let index = self.index.clone();
        let tasks = &self.platform.tasks;
        tasks.blocking(move || index.apply(last, &updates)).await?;
        if self.waiting.lock().bytes_applied >= self.persist_bytes {
            self.waiting.lock().bytes_applied = 0;
            let index = self.index.clone();
            tasks.blocking(move || index.persist()).await?;
            self.log.trim_to(last);
        }
        Ok(())
    }
}

/// Says that the applier has ended, however it did.
struct MarkEnded<'a>(&'a CopyState);

impl Drop for MarkEnded<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.log.abort("the index's applier panicked");
        }
        self.0.waiting.lock().has_ended = true;
        self.0.applied.notify_waiters();
    }
}
