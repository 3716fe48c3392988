//! Keys that are closed to grants, because an operation is about to change what they cover.

use super::key::PackedKey;
use std::collections::BTreeMap;

/// The keys that one operation has closed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ClosedKeysId(u64);

#[derive(Default)]
pub(super) struct ClosedKeys {
    /// How many operations have closed a key.
    closed_by: BTreeMap<PackedKey, u32>,
    operations: BTreeMap<ClosedKeysId, Vec<PackedKey>>,
    last: u64,
}

impl ClosedKeys {
    pub fn close(&mut self, keys: Vec<PackedKey>) -> ClosedKeysId {
        self.last += 1;
        let id = ClosedKeysId(self.last);
        for key in &keys {
            *self.closed_by.entry(*key).or_default() += 1;
        }
        self.operations.insert(id, keys);
        id
    }

    pub fn reopen(&mut self, id: ClosedKeysId) {
        for key in self.operations.remove(&id).unwrap_or_default() {
            let operations = self.closed_by.get_mut(&key).expect("a closed key");
            *operations -= 1;
            if *operations == 0 {
                self.closed_by.remove(&key);
            }
        }
    }

    pub fn is_closed(&self, key: PackedKey) -> bool {
        self.closed_by.contains_key(&key)
    }

    pub fn len(&self) -> usize {
        self.closed_by.len()
    }
}
