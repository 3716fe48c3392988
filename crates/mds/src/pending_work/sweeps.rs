//! Progress of the sweep.

use gupfs_proto::FsError;
use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::Notify;

#[derive(Default)]
pub struct SweepProgress {
    status: Mutex<SweepStatus>,
    requested: Notify,
}

/// The search for objects without a file, after a start that followed no orderly stop, or a cancelled drain.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct SweepStatus {
    /// Targets that the sweep has not examined yet.
    pub left: u64,
    pub objects_removed: u64,
    /// Objects of lost files, moved to `lost+found` of their targets.
    pub objects_set_aside: u64,
    pub last_error: Option<String>,
}

impl SweepProgress {
    pub fn expect(&self, targets: u64) {
        self.status.lock().left = targets;
    }

    /// All targets are to be examined some time from now. Until then a stop counts as one with work pending.
    pub fn request(&self, targets: u64) {
        self.expect(targets);
        self.requested.notify_one();
    }

    /// Returns when a sweep was requested after the last one.
    pub async fn wait(&self) {
        self.requested.notified().await;
    }

    pub fn end(&self) {
        let mut status = self.status.lock();
        status.left = status.left.saturating_sub(1);
        status.last_error = None;
    }

    pub fn removed(&self, objects: u64) {
        self.status.lock().objects_removed += objects;
    }

    pub fn quarantined(&self, objects: u64) {
        self.status.lock().objects_set_aside += objects;
    }

    pub fn failed(&self, error: &FsError) {
        self.status.lock().last_error = Some(error.to_string());
    }

    pub fn status(&self) -> SweepStatus {
        self.status.lock().clone()
    }
}
