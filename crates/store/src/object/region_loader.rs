//! Loads regions: their state in memory from their records.

use super::clean_regions::CleanRegions;
use super::dirty_queue::DirtyQueue;
use super::object::Object;
use super::records::Records;
use super::region::Region;
use gupfs_proto::FsError;
use std::sync::Arc;

pub(super) struct RegionLoader {
    records: Arc<Records>,
    clean: Arc<CleanRegions>,
    queue: Arc<DirtyQueue>,
}

impl RegionLoader {
    pub fn new(
        records: Arc<Records>,
        clean: Arc<CleanRegions>,
        queue: Arc<DirtyQueue>,
    ) -> RegionLoader {
        RegionLoader {
            records,
            clean,
            queue,
        }
    }

    /// Loads the records of some regions, unless a change staged new ones meanwhile.
    pub async fn load(&self, object: &Arc<Object>, regions: &[u64]) -> Result<(), FsError> {
        let version = object.state().regions.records_version;
        let mut found = Vec::with_capacity(regions.len());
        for region in regions {
            found.push((*region, self.records.region(object.id, *region)?));
        }
        let mut clean = Vec::new();
        {
            let mut state = object.state();
            if state.regions.records_version != version {
                return Ok(()); // the caller tries again
            }
            let size = state.size();
            for (number, record) in found {
                if state.regions.in_memory.contains_key(&number) {
                    continue;
                }
                let region = match record {
                    Some(record) => {
                        clean.push(number);
                        Region::new_clean(record.len, &record.sums)
                    }
                    // The region was dirty before a crash: its checksums are computed again now that it is in use.
                    None => state.regions.new_dirty_region(number, size),
                };
                state.regions.in_memory.insert(number, region);
            }
            self.queue.push_if_dirty(object, &mut state);
        }
        self.clean.add(object, &clean);
        Ok(())
    }

    /// Returns when the region is in memory, if it may have a record.
    pub async fn load_one(&self, object: &Arc<Object>, region: u64) -> Result<(), FsError> {
        loop {
            let regions_to_load = object.state().regions.to_load(region..region + 1);
            if regions_to_load.is_empty() {
                return Ok(());
            }
            self.load(object, &regions_to_load).await?;
        }
    }
}
