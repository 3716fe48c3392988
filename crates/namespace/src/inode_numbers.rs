//! Inode numbers: a shard's numbers are reserved in blocks, in its `N` record, before they are used.

use gupfs_proto::{InodeId, VirtualShard};
use std::collections::BTreeMap;
use std::ops::Range;

/// Inode counters below this are reserved for inodes that the system creates itself; the root is 1.
pub(crate) const FIRST_INODE_COUNTER: u64 = 256;

/// Inode counters that are reserved on disk and not used yet, per shard.
#[derive(Debug, Default)]
pub(crate) struct ReservedInodeNumbers(BTreeMap<VirtualShard, Range<u64>>);

impl ReservedInodeNumbers {
    pub fn first(&self, shard: VirtualShard) -> Option<InodeId> {
        let counters = self.0.get(&shard)?;
        (!counters.is_empty()).then(|| InodeId::new(shard, counters.start))
    }

    pub fn mark_used(&mut self, ino: InodeId) {
        if let Some(counters) = self.0.get_mut(&ino.shard()) {
            counters.start = ino.counter() + 1;
        }
    }

    pub fn add(&mut self, shard: VirtualShard, counters: Range<u64>) {
        // Two operations may have reserved a block each: the remaining numbers are used first, and the second block becomes a
        // gap.
        match self.first(shard) {
            Some(_) => {}
            None => {
                self.0.insert(shard, counters);
            }
        }
    }
}
