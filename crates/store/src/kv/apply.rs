//! Moving durable batches into the index, in groups.

use super::{KvError, Shared, body, limits};
use crate::index::{Changes, Index};
use crate::log::{LogError, Replay};
use bytes::Bytes;
use gupfs_platform::Platform;
use gupfs_proto::Seq;
use std::sync::Arc;

/// Gives the index what the log has and it does not. Returns how many batches.
pub async fn replay(
    index: &Index,
    platform: &Platform,
    mut replay: Replay,
) -> Result<u64, KvError> {
    let mut replayed = 0;
    let mut changes = Changes::new();
    let mut last = Seq(0);
    let (mut grouped, mut bytes) = (0, 0);
    loop {
        let record = replay.next().await?;
        if let Some(record) = &record {
            bytes += record.body.len();
            let batch =
                body::decode(record.body.clone()).ok_or(KvError::Malformed { seq: record.seq })?;
            changes.extend(batch);
            last = record.seq;
            grouped += 1;
            replayed += 1;
        }
        let full = grouped == limits::GROUP_MAX || bytes >= limits::GROUP_BYTES;
        if full || (record.is_none() && grouped > 0) {
            let (index, group) = (index.clone(), std::mem::take(&mut changes));
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

impl Shared {
    /// The applier's life. It ends with the log.
    pub async fn keep_applying(self: Arc<Self>) {
        let _guard = CloseOnPanic(&self);
        let mut persisted_bytes = self.log.stats().bytes;
        loop {
            let some = self.staged.notified();
            if self.memory.lock().waiting() == 0 {
                if self.log.closed().is_some() {
                    return;
                }
                some.await;
            }
            self.gather().await;
            let durable = match self.some_durable().await {
                Ok(durable) => durable,
                Err(_) => return self.applied.notify_waiters(),
            };
            if let Err(error) = self.apply_group(durable).await {
                self.log.abandon(format!("{error}"));
                return self.applied.notify_waiters();
            }
            let bytes = self.log.stats().bytes;
            if bytes - persisted_bytes >= self.options.persist_bytes {
                persisted_bytes = bytes;
                if let Err(error) = self.persist().await {
                    self.log.abandon(format!("{error}"));
                    return self.applied.notify_waiters();
                }
            }
        }
    }

    /// Waits until a group is worth its while, or somebody is in a hurry (as `stage` is when there is enough).
    async fn gather(&self) {
        let enough = self.memory.lock().waiting() >= limits::GROUP_BATCHES;
        if enough || self.log.closed().is_some() {
            return;
        }
        tokio::select! {
            biased;
            () = self.hurry.notified() => {}
            () = self.platform.clock.sleep(limits::GROUP_WAIT) => {}
        }
    }

    /// The index syncs some of what it has when it likes, and must not know what a power cut takes from the log: it gets
    /// durable batches only. The oldest usually are by now.
    async fn some_durable(&self) -> Result<Seq, LogError> {
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
            let changes: Changes = all.collect(); // the last word on each key
            index.apply(seq, &changes).map(|()| own_memory(changes))
        };
        let changes = self.platform.tasks.blocking(work).await?;
        for part in changes.chunks(limits::LEAVE_KEYS) {
            self.memory.lock().leave(seq, part);
        }
        let gone = self.memory.lock().applied_group(seq, count);
        drop(gone);
        self.applied.notify_waiters();
        Ok(())
    }

    /// Syncs the index; the log may forget what it has then.
    pub async fn persist(&self) -> Result<(), KvError> {
        let index = self.index.clone();
        // Taken before: what is applied during the sync may not be part of it.
        let applied = index.applied();
        self.platform
            .tasks
            .blocking(move || index.persist())
            .await?;
        self.log.drop_before(applied);
        Ok(())
    }
}

/// Copies, kept apart from whatever larger buffers keys and values were cut from: the cache must not keep those.
pub(super) fn own_memory(changes: Changes) -> Vec<(Bytes, Option<Bytes>)> {
    let own = |bytes: Bytes| Bytes::copy_from_slice(&bytes);
    let changes = changes.into_iter();
    changes
        .map(|(key, value)| (own(key), value.map(own)))
        .collect()
}

/// An applier that panics takes the store with it: others would wait for room for ever.
struct CloseOnPanic<'a>(&'a Shared);

impl Drop for CloseOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.log.abandon("the index's applier panicked");
            self.0.applied.notify_waiters();
        }
    }
}
