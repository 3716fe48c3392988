//! The rebalance that an administrator has begun, and how far it is. The record `J` has the same settings; numbers are those since the start.

use gupfs_namespace::Rebalance;
use gupfs_proto::FsError;
use gupfs_proto::rebalance::RebalanceState;
use parking_lot::Mutex;
use tokio::sync::Notify;

#[derive(Default)]
pub struct RebalanceProgress {
    work: Mutex<RebalanceWork>,
    wake: Notify,
}

#[derive(Default)]
struct RebalanceWork {
    is_loaded: bool,
    record: Option<Rebalance>,
    /// Without what the record has.
    state: RebalanceState,
}

impl RebalanceProgress {
    /// Returns when an administrator has changed something.
    pub async fn wait(&self) {
        self.wake.notified().await;
    }

    pub fn wake(&self) {
        self.wake.notify_one();
    }

    pub fn is_loaded(&self) -> bool {
        self.work.lock().is_loaded
    }

    /// The record as the store has it, unless it is known already.
    pub fn load(&self, record: Option<Rebalance>) {
        let mut work = self.work.lock();
        if !work.is_loaded {
            (work.is_loaded, work.record) = (true, record);
        }
    }

    /// Changes the record, and stages it at the same moment; returns whether it has changed.
    ///
    /// # Errors
    /// Of the staging; then it is as before.
    pub fn change(
        &self,
        change: impl FnOnce(Option<Rebalance>) -> Option<Rebalance>,
        stage: impl FnOnce(Option<&Rebalance>) -> Result<(), FsError>,
    ) -> Result<bool, FsError> {
        let mut work = self.work.lock();
        let changed = change(work.record.clone());
        if changed == work.record {
            return Ok(false);
        }
        stage(changed.as_ref())?;
        let since = |record: &Option<Rebalance>| record.as_ref().map(|record| record.since);
        if since(&changed) != since(&work.record) {
            // Of another one.
            (work.state.files_left, work.state.why) = (0, None);
            (work.state.bytes_left, work.state.seconds_left) = (None, None);
        }
        work.record = changed;
        Ok(true)
    }

    /// The rebalance that is going on and not paused.
    pub fn active(&self) -> Option<Rebalance> {
        let work = self.work.lock();
        let active = |record: &&Rebalance| record.outcome.is_none() && !record.is_paused;
        work.record.as_ref().filter(active).cloned()
    }

    pub fn state(&self) -> RebalanceState {
        let work = self.work.lock();
        let mut state = work.state.clone();
        if let Some(record) = &work.record {
            state.since = Some(record.since);
            state.outcome = record.outcome.clone();
            (state.rate, state.within) = (record.rate, record.within);
            state.is_paused = record.is_paused && record.outcome.is_none();
        }
        state
    }

    /// It waits, for this reason.
    pub fn waits(&self, why: String) {
        let state = &mut self.work.lock().state;
        (state.why, state.inodes_examined) = (Some(why), None);
    }

    /// A walk over all files has examined so many inodes; None: it has ended.
    pub fn examined(&self, inodes: Option<u64>) {
        self.work.lock().state.inodes_examined = inodes;
    }

    /// Files that a walk had to leave where they are, and why, for one of them.
    pub fn left(&self, files: u64, why: Option<String>) {
        let state = &mut self.work.lock().state;
        (state.files_left, state.why) = (files, why);
    }

    pub fn copied(&self, bytes: u64) {
        self.work.lock().state.bytes_copied += bytes;
    }

    pub fn file_moved(&self, bytes: u64) {
        let state = &mut self.work.lock().state;
        state.files_moved += 1;
        state.bytes_moved += bytes;
    }

    pub fn estimate(&self, bytes_left: Option<u64>, seconds_left: Option<u64>) {
        let state = &mut self.work.lock().state;
        (state.bytes_left, state.seconds_left) = (bytes_left, seconds_left);
    }
}
