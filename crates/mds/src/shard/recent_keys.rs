//! The keys that are staged while a scan is open.
//!
//! The driver scans outside the shard's lock; the state machine then runs under the lock. For one consistent state, the driver
//! notes the keys that are staged while a scan is open, and overlays them on what it read.

use gupfs_namespace::RecordKey;
use gupfs_proto::Seq;
use std::collections::BTreeSet;

/// Keys noted while scans are open; above this number the scans are read again.
pub const RECENT_KEYS_MAX: usize = 1 << 16;

/// Keys staged while scans are open. Notes nothing while none is.
#[derive(Default)]
pub struct RecentKeys {
    open_scans: usize,
    keys: BTreeSet<RecordKey>,
    /// Scans begun before this batch cannot be brought up to date: the keys noted then are gone.
    complete_from: Seq,
}

impl RecentKeys {
    /// A scan begins: from here on staged keys are noted.
    pub fn open(&mut self) {
        self.open_scans += 1;
    }

    /// A scan is not used any more.
    pub fn close(&mut self) {
        self.open_scans -= 1;
        if self.open_scans == 0 {
            self.keys.clear();
        }
    }

    pub fn is_noting(&self) -> bool {
        self.open_scans > 0
    }

    /// Notes the keys of the batch that is staged as `seq`.
    pub fn note<'k>(&mut self, seq: Seq, keys: impl Iterator<Item = &'k RecordKey>) {
        if self.open_scans == 0 {
            return;
        }
        if self.keys.len() >= RECENT_KEYS_MAX {
            self.keys.clear();
            self.complete_from = seq;
        }
        self.keys.extend(keys.cloned());
    }

    /// Whether a scan that began at this batch can be brought up to date.
    pub fn covers(&self, begun: Seq) -> bool {
        begun >= self.complete_from
    }

    /// The noted keys of a range.
    pub fn range(&self, from: &RecordKey, to: &RecordKey) -> impl Iterator<Item = &RecordKey> {
        self.keys.range(from..to)
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.keys.len()
    }
}
