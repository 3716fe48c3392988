//! What a target has done since it was opened.

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
    pub marks: Counter,
    pub settled: Counter,
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

/// Since the target was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Served {
    pub reads: u64,
    pub writes: u64,
    pub syncs: u64,
    /// Cuts, allocations, zeroed ranges, removals.
    pub changes: u64,
    /// Stats, seeks, lists.
    pub looks: u64,
    pub bytes_read: u64,
    pub bytes_written: u64,
    /// Operations begun and not answered yet.
    pub under_way: u64,
}

impl Counters {
    pub fn enter(&self, kind: &Counter) -> UnderWay<'_> {
        kind.add(1);
        self.under_way.fetch_add(1, Ordering::Relaxed);
        UnderWay(&self.under_way)
    }

    pub fn served(&self) -> Served {
        Served {
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

/// One operation; it ends when this is dropped.
pub(super) struct UnderWay<'a>(&'a AtomicU64);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
