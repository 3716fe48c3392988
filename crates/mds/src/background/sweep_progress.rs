//! Progress of the sweep.

use gupfs_proto::FsError;
use parking_lot::Mutex;
use serde::Serialize;

#[derive(Default)]
pub struct SweepProgress(Mutex<SweepStatus>);

/// The search for objects without a file, after a start that followed no orderly stop.
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
        self.0.lock().left = targets;
    }

    pub fn end(&self) {
        let mut status = self.0.lock();
        status.left = status.left.saturating_sub(1);
        status.last_error = None;
    }

    pub fn removed(&self, objects: u64) {
        self.0.lock().objects_removed += objects;
    }

    pub fn quarantined(&self, objects: u64) {
        self.0.lock().objects_set_aside += objects;
    }

    pub fn failed(&self, error: &FsError) {
        self.0.lock().last_error = Some(error.to_string());
    }

    pub fn status(&self) -> SweepStatus {
        self.0.lock().clone()
    }
}
