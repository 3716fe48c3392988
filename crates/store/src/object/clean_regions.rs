//! The clean regions in memory, in a bounded number; the records have the checksums of the others.

use super::clock_cache::{ClockCache, Eviction};
use super::limits::CLEAN_REGIONS_CACHED;
use super::object::Object;
use super::table::ObjectTable;
use gupfs_proto::ObjectId;
use parking_lot::Mutex;
use std::sync::Arc;

pub(super) struct CleanRegions {
    table: Arc<ObjectTable>,
    cached: Mutex<ClockCache<(ObjectId, u64)>>,
}

impl CleanRegions {
    pub fn new(table: Arc<ObjectTable>) -> CleanRegions {
        CleanRegions {
            table,
            cached: Mutex::new(ClockCache::new(CLEAN_REGIONS_CACHED)),
        }
    }

    /// Adds regions that became clean, and evicts others.
    pub fn add(&self, object: &Object, regions: &[u64]) {
        let mut cached = self.cached.lock();
        for region in regions {
            cached.insert((object.id, *region), |(id, region)| {
                match self.table.peek(*id) {
                    Some(object) => object.state().regions.evict_if_unused(*region),
                    None => Eviction::Evicted,
                }
            });
        }
    }
}
