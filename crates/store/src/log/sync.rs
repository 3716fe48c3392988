//! Durability. One sync runs at a time, and all waiting callers share it; the syncer starts one in the background when
//! no caller does.

use super::error::LogError;
use super::limits::WATERMARK_WHEN_IDLE;
use super::state::{CloseOnPanic, Shared};
use gupfs_platform::BootTime;
use gupfs_proto::Seq;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Shared {
    /// Returns when the batch survives a power loss. A caller that comes while a sync runs shares the next one.
    pub async fn make_durable(self: &Arc<Self>, seq: Seq) -> Result<(), LogError> {
        loop {
            if self.durable() >= seq {
                return Ok(());
            }
            let changed = self.durable_changed.notified(); // registered before the check, so that no wake-up is missed
            self.start_sync()?;
            if self.durable() >= seq {
                return Ok(());
            }
            changed.await;
        }
    }

    /// Starts a sync unless one is running; returns whether it did. The end of the sync notifies `durable_changed`, or
    /// closes the log.
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
        // The sync runs in a task of its own, because all waiting callers need its outcome even if the caller that
        // started it gives up: the kernel reports a failed write-back only once.
        let shared = Arc::clone(self);
        (self.platform.tasks).spawn("log sync", async move { shared.sync_and_notify().await });
        Ok(true)
    }

    async fn sync_and_notify(&self) {
        let _guard = CloseOnPanic(self);
        let synced = self.sync().await;
        self.state.lock().syncing = false;
        match synced {
            Ok(()) => self.durable_changed.notify_waiters(),
            Err(error) => self.close(error), // notifies all waiters
        }
    }

    /// Writes a watermark, and makes it durable too.
    pub async fn write_watermark_and_sync(
        self: &Arc<Self>,
        clean_stop: bool,
    ) -> Result<(), LogError> {
        self.stage_watermark(&mut self.state.lock(), clean_stop);
        self.sync_all().await
    }

    /// Syncs everything written so far, records that are no batches included.
    pub async fn sync_all(self: &Arc<Self>) -> Result<(), LogError> {
        self.commit_all().await?;
        loop {
            let changed = self.durable_changed.notified();
            let started = self.start_sync()?;
            changed.await;
            if started {
                return self.check_open();
            }
        }
    }

    /// Writes and syncs everything staged so far. Only one call runs at a time: a second one would find no unsynced
    /// segment and would report as durable what the first has not synced yet.
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
        let elsewhere = self.sync_copies(covers);
        let here = async {
            for segment in segments {
                segment.file.sync_data().await?;
            }
            Ok::<_, LogError>(())
        };
        let (here, elsewhere) = tokio::join!(here, elsewhere);
        here?;
        elsewhere?;
        self.durable.fetch_max(covers.0, Ordering::AcqRel);
        Ok(())
    }

    pub async fn sync_copies(&self, last: Seq) -> Result<(), LogError> {
        match self.options.copies.get() {
            Some(copies) => copies.sync(last).await.map_err(LogError::Copies),
            None => Ok(()),
        }
    }

    /// The syncer, a background task: it syncs batches that are older than `sync_every` or more than `sync_records`,
    /// and writes a watermark when the log is idle, so that recovery can tell which batches the last sync made durable.
    pub async fn run_syncer(self: Arc<Self>) {
        let _guard = CloseOnPanic(&self);
        loop {
            let (dirty_since, watermark_due) = {
                let state = self.state.lock();
                if state.closed.is_some() {
                    return;
                }
                (state.dirty_since, state.durable_recorded < self.durable())
            };
            let result = match dirty_since {
                Some(since) => self.sync_when_due(since).await,
                None if watermark_due => self.write_watermark_when_idle().await,
                None => {
                    self.wake_syncer.notified().await;
                    Ok(())
                }
            };
            if result.is_err() {
                return; // the log is closed; `close` has logged the reason
            }
        }
    }

    async fn sync_when_due(self: &Arc<Self>, since: BootTime) -> Result<(), LogError> {
        let hurried = tokio::select! {
            biased;
            () = self.sync_now.notified() => true,
            () = self.platform.clock.sleep_until(since + self.options.sync_every) => false,
        };
        let (now_since, last) = {
            let state = self.state.lock();
            (state.dirty_since, state.last)
        };
        // A caller may have synced meanwhile; batches that came after that sync are not due yet.
        if now_since.is_none() || (!hurried && now_since != Some(since)) {
            return self.check_open();
        }
        self.make_durable(last).await
    }

    async fn write_watermark_when_idle(self: &Arc<Self>) -> Result<(), LogError> {
        let busy = tokio::select! {
            biased;
            () = self.wake_syncer.notified() => true,
            () = self.platform.clock.sleep(WATERMARK_WHEN_IDLE) => false,
        };
        if busy {
            return self.check_open();
        }
        self.write_watermark_and_sync(false).await
    }
}
