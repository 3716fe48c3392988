//! Durability: one sync at a time, shared by all who wait; in the background when nobody asks.

use super::error::LogError;
use super::limits::MARK_WHEN_IDLE;
use super::state::{CloseOnPanic, Shared};
use gupfs_platform::BootTime;
use gupfs_proto::Seq;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Shared {
    /// Returns when the batch survives a power cut. Who comes while a sync is under way shares the next one.
    pub async fn make_durable(self: &Arc<Self>, seq: Seq) -> Result<(), LogError> {
        loop {
            if self.durable() >= seq {
                return Ok(());
            }
            let moved = self.durable_moved.notified(); // made before the look, so that no move is missed
            self.start_sync()?;
            if self.durable() >= seq {
                return Ok(());
            }
            moved.await;
        }
    }

    /// Begins a sync unless one is under way; whether it did. Its end moves `durable_moved`, or closes the log.
    fn start_sync(self: &Arc<Self>) -> Result<bool, LogError> {
        {
            let mut state = self.state.lock();
            if let Some(why) = &state.closed {
                return Err(why.clone());
            }
            if std::mem::replace(&mut state.syncing, true) {
                return Ok(false);
            }
        }
        // A task of its own: the outcome of a sync must reach everybody even if its caller gives up, since the kernel
        // tells of a failed write-back once and never again.
        let shared = Arc::clone(self);
        (self.platform.tasks).spawn("log sync", async move { shared.sync_and_tell().await });
        Ok(true)
    }

    async fn sync_and_tell(&self) {
        let _guard = CloseOnPanic(self);
        let synced = self.sync().await;
        self.state.lock().syncing = false;
        match synced {
            Ok(()) => self.durable_moved.notify_waiters(),
            Err(error) => self.close(error), // tells everybody
        }
    }

    /// Says in the log what is durable, and makes that durable too.
    pub async fn mark_and_sync(self: &Arc<Self>, stopped: bool) -> Result<(), LogError> {
        self.stage_mark(&mut self.state.lock(), stopped);
        self.commit_all().await?;
        loop {
            let moved = self.durable_moved.notified();
            let mine = self.start_sync()?;
            moved.await;
            if mine {
                return self.check_open();
            }
        }
    }

    /// Writes and syncs everything staged so far. One at a time: a second one would find nothing left to sync and
    /// call durable what the first has not finished.
    async fn sync(&self) -> Result<(), LogError> {
        let last = self.state.lock().last;
        self.commit(last).await?;
        let (covers, segments) = {
            let mut state = self.state.lock();
            let covers = self.committed();
            state.sync_covers = covers;
            state.dirty_since = (state.last > covers).then(|| self.platform.clock.boot());
            state.stats.syncs += 1;
            (covers, std::mem::take(&mut state.unsynced))
        };
        for segment in segments {
            segment.file.sync_data().await?;
        }
        self.durable.fetch_max(covers.0, Ordering::AcqRel);
        Ok(())
    }

    /// The background's part: syncs what is older than `sync_every` or more than `sync_records`, and writes a mark
    /// when the log falls idle, so that what was synced last is known to have been.
    pub async fn keep_synced(self: Arc<Self>) {
        let _guard = CloseOnPanic(&self);
        loop {
            let (dirty_since, unsaid) = {
                let state = self.state.lock();
                if state.closed.is_some() {
                    return;
                }
                (state.dirty_since, state.durable_said < self.durable())
            };
            let went_on = match dirty_since {
                Some(since) => self.sync_when_due(since).await,
                None if unsaid => self.mark_when_idle().await,
                None => {
                    self.wake_syncer.notified().await;
                    Ok(())
                }
            };
            if went_on.is_err() {
                return; // the log is closed, and whoever closed it has told why
            }
        }
    }

    async fn sync_when_due(self: &Arc<Self>, since: BootTime) -> Result<(), LogError> {
        let hurried = tokio::select! {
            biased;
            () = self.hurry_syncer.notified() => true,
            () = self.platform.clock.sleep_until(since + self.options.sync_every) => false,
        };
        let (now_since, last) = {
            let state = self.state.lock();
            (state.dirty_since, state.last)
        };
        // Somebody who asked may have synced meanwhile; what came after that is not due yet.
        if now_since.is_none() || (!hurried && now_since != Some(since)) {
            return self.check_open();
        }
        self.make_durable(last).await
    }

    async fn mark_when_idle(self: &Arc<Self>) -> Result<(), LogError> {
        let busy = tokio::select! {
            biased;
            () = self.wake_syncer.notified() => true,
            () = self.platform.clock.sleep(MARK_WHEN_IDLE) => false,
        };
        if busy {
            return self.check_open();
        }
        self.mark_and_sync(false).await
    }
}
