//! The numbered writes of each object that no sync has covered yet.

use gupfs_proto::ObjectId;
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// A numbered write that is done and not synced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::object) struct UnsyncedWrite {
    pub object: ObjectId,
    pub entry_number: u32,
    /// Sequence number of the entry that says *done*.
    pub sequence: u64,
}

#[derive(Default)]
pub(super) struct UnsyncedWrites {
    /// By object: numbers of entries, with their sequence numbers.
    by_object: Mutex<BTreeMap<ObjectId, BTreeMap<u32, u64>>>,
}

impl UnsyncedWrites {
    pub fn insert(&self, write: UnsyncedWrite) {
        let mut by_object = self.by_object.lock();
        let entries = by_object.entry(write.object).or_default();
        entries.insert(write.entry_number, write.sequence);
    }

    /// Removes a write, unless a later one of the same slot and object is unsynced.
    pub fn remove(&self, write: &UnsyncedWrite) {
        let mut by_object = self.by_object.lock();
        let Some(entries) = by_object.get_mut(&write.object) else {
            return;
        };
        if entries.get(&write.entry_number) == Some(&write.sequence) {
            entries.remove(&write.entry_number);
        }
        if entries.is_empty() {
            by_object.remove(&write.object);
        }
    }

    /// The writes of an object.
    pub fn of(&self, object: ObjectId) -> Vec<UnsyncedWrite> {
        let by_object = self.by_object.lock();
        let entries = by_object.get(&object).into_iter().flatten();
        entries
            .map(|(entry_number, sequence)| UnsyncedWrite {
                object,
                entry_number: *entry_number,
                sequence: *sequence,
            })
            .collect()
    }
}
