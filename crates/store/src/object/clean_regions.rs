//! The clean regions in memory, in a bounded number; the records have the checksums of the others.

use super::clock_cache::{ClockCache, Eviction};
use super::limits::CLEAN_REGIONS_CACHED;
use super::object::{Object, ObjectState};
use super::region::RegionState;
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
                    Some(object) => object.state().evict_if_unused(*region),
                    None => Eviction::Evicted,
                }
            });
        }
    }
}

impl ObjectState {
    /// Evicts a clean region from memory, unless it was used since the last check.
    fn evict_if_unused(&mut self, number: u64) -> Eviction {
        let Some(region) = self.regions.get_mut(&number) else {
            return Eviction::Evicted;
        };
        match &mut region.state {
            RegionState::Clean { used, .. } if *used => {
                *used = false;
                Eviction::Kept
            }
            RegionState::Clean { .. } => {
                self.regions.remove(&number);
                Eviction::Evicted
            }
            // A dirty region is added again when it becomes clean.
            RegionState::Dirty { .. } => Eviction::Evicted,
        }
    }
}
