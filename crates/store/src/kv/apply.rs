//! Applies durable batches to the index, in groups.

use super::{KvError, Shared, batch_codec, limits};
use crate::index::{Index, IndexUpdates};
use crate::log::{LogError, LogReplay, LoggedBatch};
use bytes::Bytes;
use gupfs_platform::Platform;
use gupfs_proto::Seq;
use std::sync::Arc;

/// Applies the batches of the log that the index does not have yet. Returns their number.
pub async fn replay(
    index: &Index,
    platform: &Platform,
    mut replay: LogReplay,
) -> Result<u64, KvError> {
    let mut replayed = 0;
    let mut updates = IndexUpdates::new();
    let mut last = Seq(0);
    let (mut grouped, mut bytes) = (0, 0);
    loop {
        let record = replay.next().await?;
        if let Some(record) = &record {
            bytes += record.body.len();
            let batch = batch_codec::decode(record.body.clone())
                .ok_or(KvError::Malformed { seq: record.seq })?;
            updates.extend(batch);
            last = record.seq;
            grouped += 1;
            replayed += 1;
        }
        let full = grouped == limits::GROUP_MAX || bytes >= limits::GROUP_BYTES;
        if full || (record.is_none() && grouped > 0) {
            let (index, group) = (index.clone(), std::mem::take(&mut updates));
            platform
                .tasks
                .blocking(move || index.apply(last, &group))
                .await?;
            (grouped, bytes) = (0, 0);
        }
        if record.is_none() {
            return Ok(replayed);
        }
    }
}

/// The batches of the log that the index does not have yet.
pub async fn replay_queue(mut replay: LogReplay) -> Result<Vec<LoggedBatch>, KvError> {
    let mut batches = Vec::new();
    while let Some(batch) = replay.next().await? {
        batches.push(batch);
    }
    Ok(batches)
}

impl Shared {
    /// The applier, a background task. It ends when the log is closed.
    pub async fn run_applier(self: Arc<Self>) {
        let _guard = CloseOnPanic(&self);
        let mut persisted_bytes = self.log.stats().bytes;
        loop {
            let some = self.batch_staged.notified();
            if self.memory.lock().waiting() == 0 {
                if self.log.closed().is_some() {
                    return;
                }
                some.await;
            }
            self.wait_for_group().await;
            let durable = match self.wait_some_durable().await {
                Ok(durable) => durable,
                Err(_) => return self.overlay_shrunk.notify_waiters(),
            };
            if let Err(error) = self.apply_group(durable).await {
                self.log.abort(format!("{error}"));
                return self.overlay_shrunk.notify_waiters();
            }
            let bytes = self.log.stats().bytes;
            if bytes - persisted_bytes >= self.options.persist_bytes {
                persisted_bytes = bytes;
                if let Err(error) = self.persist().await {
                    self.log.abort(format!("{error}"));
                    return self.overlay_shrunk.notify_waiters();
                }
            }
        }
    }

    /// Waits until a group is large enough, until the oldest batch has waited `GROUP_WAIT`, or until a caller asks for
    /// the group at once.
    async fn wait_for_group(&self) {
        let enough = self.memory.lock().waiting() >= limits::GROUP_BATCHES;
        if enough || self.log.closed().is_some() {
            return;
        }
        tokio::select! {
            biased;
            () = self.apply_now.notified() => {}
            () = self.platform.clock.sleep(limits::GROUP_WAIT) => {}
        }
    }

    /// The index syncs part of its content at any time, and must not have a batch that a power loss takes from the log,
    /// so it gets durable batches only. Usually the oldest batches are durable by now.
    async fn wait_some_durable(&self) -> Result<Seq, LogError> {
        let durable = self.log.durable();
        if !self.memory.lock().group(durable, 1, 0).is_empty() {
            return Ok(durable);
        }
        let last = self.log.last();
        self.log.make_durable(last).await?;
        Ok(last)
    }

    async fn apply_group(&self, durable: Seq) -> Result<(), KvError> {
        let (most, bytes) = (limits::GROUP_MAX, limits::GROUP_BYTES);
        let group = self.memory.lock().group(durable, most, bytes);
        let Some(seq) = group.last().map(|last| last.seq) else {
            return Ok(());
        };
        let count = group.len();
        let index = self.index.clone();
        let work = move || {
            let all = group
                .iter()
                .flat_map(|waiting| waiting.batch.iter().cloned());
            let updates: IndexUpdates = all.collect(); // the last update of each key
            index
                .apply(seq, &updates)
                .map(|()| copy_to_own_buffers(updates))
        };
        let updates = self.platform.tasks.blocking(work).await?;
        for part in updates.chunks(limits::MOVE_KEYS) {
            self.memory.lock().move_to_cache(seq, part);
        }
        let gone = self.memory.lock().finish_group(seq, count);
        drop(gone);
        self.overlay_shrunk.notify_waiters();
        Ok(())
    }

    /// Syncs the index; the log may then remove the segments that the index has.
    pub async fn persist(&self) -> Result<(), KvError> {
        let index = self.index.clone();
        // Read before the sync: a batch that is applied during the sync may not be part of it.
        let applied = index.applied();
        self.platform
            .tasks
            .blocking(move || index.persist())
            .await?;
        self.log.trim_to(applied);
        Ok(())
    }
}

/// Copies keys and values out of the larger buffers that they are slices of, so that the cache does not keep those
/// buffers in memory.
pub(super) fn copy_to_own_buffers(updates: IndexUpdates) -> Vec<(Bytes, Option<Bytes>)> {
    let own = |bytes: Bytes| Bytes::copy_from_slice(&bytes);
    let updates = updates.into_iter();
    updates
        .map(|(key, value)| (own(key), value.map(own)))
        .collect()
}

/// Closes the log if the applier panics; otherwise callers would wait forever for free memory.
struct CloseOnPanic<'a>(&'a Shared);

impl Drop for CloseOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.log.abort("the index's applier panicked");
            self.0.overlay_shrunk.notify_waiters();
        }
    }
}
