//! How far the sweep is.

use gupfs_proto::Refusal;
use parking_lot::Mutex;
use serde::Serialize;

#[derive(Default)]
pub struct Sweeps(Mutex<SweepStatus>);

/// Looking for objects that no file has, after a start that followed no orderly stop.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct SweepStatus {
    /// Targets that are still to be looked at.
    pub left: u64,
    pub objects_removed: u64,
    /// Objects of files that were lost, moved to `lost+found` of their targets.
    pub objects_set_aside: u64,
    pub last_error: Option<String>,
}

impl Sweeps {
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

    pub fn set_aside(&self, objects: u64) {
        self.0.lock().objects_set_aside += objects;
    }

    pub fn failed(&self, refusal: &Refusal) {
        self.0.lock().last_error = Some(refusal.to_string());
    }

    pub fn status(&self) -> SweepStatus {
        self.0.lock().clone()
    }
}
