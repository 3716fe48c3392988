//! What a target counts: its operations since it was opened, its objects; and the newest cluster map that it heard of.

use gupfs_proto::MapEpoch;
use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Default)]
pub(super) struct Counters {
    pub reads: Counter,
    pub writes: Counter,
    pub syncs: Counter,
    pub changes: Counter,
    pub looks: Counter,
    pub bytes_read: Counter,
    pub bytes_written: Counter,
    pub regions_dirtied: Counter,
    pub regions_cleaned: Counter,
    under_way: AtomicU64,
}

#[derive(Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Operations since the target was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct OperationCounts {
    pub reads: u64,
    pub writes: u64,
    pub syncs: u64,
    /// Truncates, allocations, zeroed ranges, removals.
    pub changes: u64,
    /// Stats, seeks, lists.
    pub looks: u64,
    pub bytes_read: u64,
    pub bytes_written: u64,
    /// Operations in progress.
    pub under_way: u64,
}

impl Counters {
    pub fn enter(&self, kind: &Counter) -> OperationGuard<'_> {
        kind.add(1);
        self.under_way.fetch_add(1, Ordering::Relaxed);
        OperationGuard(&self.under_way)
    }

    /// Number of operations that changed objects.
    pub fn all_changes(&self) -> u64 {
        self.writes.get() + self.changes.get()
    }

    pub fn served(&self) -> OperationCounts {
        OperationCounts {
            reads: self.reads.get(),
            writes: self.writes.get(),
            syncs: self.syncs.get(),
            changes: self.changes.get(),
            looks: self.looks.get(),
            bytes_read: self.bytes_read.get(),
            bytes_written: self.bytes_written.get(),
            under_way: self.under_way.load(Ordering::Relaxed),
        }
    }
}

/// Counts one operation as in progress until it is dropped.
pub(super) struct OperationGuard<'a>(&'a AtomicU64);

impl Drop for OperationGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Number of objects of a target.
#[derive(Default)]
pub(super) struct ObjectCount(AtomicU64);

impl ObjectCount {
    pub fn new(count: u64) -> ObjectCount {
        ObjectCount(AtomicU64::new(count))
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub fn add_one(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub fn remove_one(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    /// Sets the number that a count of the directories found.
    pub fn set_counted(&self, count: u64) {
        self.0.store(count, Ordering::Relaxed);
    }
}

/// The newest cluster map that the target was told of.
pub(super) struct NewestMapEpoch(AtomicU64);

impl NewestMapEpoch {
    pub fn new(epoch: MapEpoch) -> NewestMapEpoch {
        NewestMapEpoch(AtomicU64::new(epoch.0))
    }

    pub fn note(&self, epoch: MapEpoch) {
        self.0.fetch_max(epoch.0, Ordering::Relaxed);
    }

    pub fn get(&self) -> MapEpoch {
        MapEpoch(self.0.load(Ordering::Relaxed))
    }
}
