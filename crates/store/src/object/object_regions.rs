//! The regions of one object, without I/O: what must happen before bytes of a region may change, and which checksums
//! of its blocks are known afterwards.
//!
//! A region with a record is *clean*: after any crash its record is taken as true. So the record must be gone, durably,
//! before the first byte changes. A region without a record is *dirty*.

use super::clock_cache::Eviction;
use super::limits::REGIONS_DIRTIED_AHEAD;
use super::record::ObjectRecord;
use super::region::{Region, RegionState, ZERO_SUM, regions_of};
use gupfs_platform::BootTime;
use gupfs_proto::Seq;
use gupfs_proto::limits::{CHECKSUM_BLOCK, REGION, REGION_BLOCKS};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

/// What a change must wait for before its first byte.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum BeforeChange {
    Ready,
    /// The records of these regions must be loaded.
    LoadRecords(Vec<u64>),
    /// These regions are clean: their records must be deleted.
    DeleteRecords(Vec<u64>),
    /// The records are deleted, but the deletion is not durable before this batch is.
    WaitDurable(Seq),
}

/// The regions of one object.
pub(super) struct ObjectRegions {
    /// The object's record as staged last; None before the first checksum flush.
    pub record: Option<ObjectRecord>,
    /// Regions in memory: all dirty ones whose checksums may still be flushed, and clean ones while there is memory. A
    /// region that is not here has no record if it is at or after `record.regions_end`; otherwise its record is to be
    /// loaded.
    pub in_memory: BTreeMap<u64, Region>,
    /// The last batch that deleted records of this object. Those records describe bytes that are gone, so new bytes
    /// wait until the batch is durable.
    pub records_deleted: Seq,
    /// Counts how often records of regions were staged or deleted: a task that loaded records before must load them
    /// again.
    pub records_version: u64,
    /// The target's number of dirty regions.
    dirty_count: Arc<AtomicUsize>,
}

impl ObjectRegions {
    pub fn new(dirty_count: &Arc<AtomicUsize>) -> ObjectRegions {
        ObjectRegions {
            record: None,
            in_memory: BTreeMap::new(),
            records_deleted: Seq(0),
            records_version: 0,
            dirty_count: Arc::clone(dirty_count),
        }
    }

    /// No region from this number on has a record.
    pub fn end(&self) -> u64 {
        self.record.as_ref().map_or(0, |record| record.regions_end)
    }

    /// The regions among these that may have a record and are not in memory.
    pub fn to_load(&self, regions: Range<u64>) -> Vec<u64> {
        let end = regions.end.min(self.end());
        (regions.start..end)
            .filter(|region| !self.in_memory.contains_key(region))
            .collect()
    }

    /// The next step for a change of `range` in an object of `size` bytes, where the records are durable up to `durable`.
    pub fn before_change(&mut self, range: &Range<u64>, size: u64, durable: Seq) -> BeforeChange {
        let regions = regions_of(range);
        let regions_to_load = self.to_load(regions.clone());
        if !regions_to_load.is_empty() {
            return BeforeChange::LoadRecords(regions_to_load);
        }
        let is_clean = |region: &u64| self.in_memory.get(region).is_some_and(|it| !it.is_dirty());
        let clean: Vec<u64> = regions.clone().filter(is_clean).collect();
        if let Some(first) = clean.first() {
            return match self.regions_ahead(range, *first, regions.end) {
                DirtyAhead::LoadRecords(regions_to_load) => {
                    BeforeChange::LoadRecords(regions_to_load)
                }
                DirtyAhead::DeleteRecords(ahead) => {
                    BeforeChange::DeleteRecords([clean, ahead].concat())
                }
            };
        }
        let mut wait = Seq(0);
        for number in regions {
            match self.in_memory.get(&number).map(|region| &region.state) {
                Some(RegionState::Dirty { deleted_in, .. }) => wait = wait.max(*deleted_in),
                Some(RegionState::Clean { .. }) => {
                    unreachable!("clean regions are made dirty first")
                }
                None => {
                    // If the object was removed and is created again, the records of the former one might come back.
                    wait = wait.max(self.records_deleted);
                    let region = self.new_dirty_region(number, size);
                    self.in_memory.insert(number, region);
                }
            }
        }
        match wait > durable {
            true => BeforeChange::WaitDurable(wait),
            false => BeforeChange::Ready,
        }
    }

    /// Further regions to make dirty when a client overwrites clean regions in order: one sync then serves many
    /// regions.
    fn regions_ahead(&self, range: &Range<u64>, first: u64, end: u64) -> DirtyAhead {
        let comes_in_order = range.start <= first * REGION
            && first > 0
            && self
                .in_memory
                .get(&(first - 1))
                .is_some_and(Region::is_dirty);
        if !comes_in_order {
            return DirtyAhead::DeleteRecords(Vec::new());
        }
        let ahead = end..(end + REGIONS_DIRTIED_AHEAD).min(self.end());
        let regions_to_load = self.to_load(ahead.clone());
        if !regions_to_load.is_empty() {
            return DirtyAhead::LoadRecords(regions_to_load);
        }
        let is_clean = |region: &u64| !self.in_memory[region].is_dirty();
        DirtyAhead::DeleteRecords(ahead.filter(is_clean).collect())
    }

    /// Makes regions dirty whose records were deleted in batch `seq`.
    pub fn make_dirty(&mut self, regions: &[u64], seq: Seq, now: BootTime) {
        for number in regions {
            if let Some(region) = self.in_memory.get_mut(number) {
                region.make_dirty(seq, &self.dirty_count);
                // A region that is made dirty ahead will be written soon, so it is not idle yet.
                region.last_changed_at = now;
            }
        }
        self.records_version += 1;
    }

    /// A new dirty region without known checksums, in an object of `size` bytes.
    pub fn new_dirty_region(&self, number: u64, size: u64) -> Region {
        Region::new_dirty_region(number, size, self.records_deleted, &self.dirty_count)
    }

    /// Drops these regions from memory; they have no records any more.
    pub fn forget(&mut self, regions: Range<u64>) {
        let mut gone = self.in_memory.split_off(&regions.start);
        self.in_memory.append(&mut gone.split_off(&regions.end));
        for region in gone.values() {
            self.note_deletion(region);
        }
        self.records_version += 1;
    }

    /// Called before a dirty region is dropped: its record may come back until its deletion is durable.
    fn note_deletion(&mut self, region: &Region) {
        if let RegionState::Dirty { deleted_in, .. } = region.state {
            self.records_deleted = self.records_deleted.max(deleted_in);
        }
    }

    pub fn has_dirty(&self) -> bool {
        self.in_memory.values().any(Region::is_dirty)
    }

    /// Evicts a clean region from memory, unless it was used since the last check.
    pub fn evict_if_unused(&mut self, number: u64) -> Eviction {
        let Some(region) = self.in_memory.get_mut(&number) else {
            return Eviction::Evicted;
        };
        match &mut region.state {
            RegionState::Clean { used, .. } if *used => {
                *used = false;
                Eviction::Kept
            }
            RegionState::Clean { .. } => {
                self.in_memory.remove(&number);
                Eviction::Evicted
            }
            // A dirty region is added again when it becomes clean.
            RegionState::Dirty { .. } => Eviction::Evicted,
        }
    }

    /// The checksum of a block in an object of `size` bytes, if it is known.
    pub fn checksum(&self, block: u64, size: u64) -> Option<u32> {
        let (region, within) = locate_block(block);
        match self.in_memory.get(&region) {
            Some(region) => region.get(within),
            None => (block * CHECKSUM_BLOCK >= size).then_some(*ZERO_SUM),
        }
    }

    /// Sets the checksums of blocks, in regions that are in memory.
    pub fn set_checksums(&mut self, blocks: Range<u64>, sum: impl Fn(u64) -> Option<u32>) {
        if blocks.is_empty() {
            return;
        }
        let first = locate_block(blocks.start).0;
        let last = locate_block(blocks.end - 1).0;
        for (number, region) in self.in_memory.range_mut(first..=last) {
            let start = number * REGION_BLOCKS as u64;
            let from = blocks.start.max(start);
            let to = blocks.end.min(start + REGION_BLOCKS as u64);
            for block in from..to {
                region.set((block - start) as usize, sum(block));
            }
        }
    }

    /// Sets the last change of these regions: the one that began now.
    pub fn set_last_change(&mut self, range: &Range<u64>, change: u64, now: BootTime) {
        let regions = regions_of(range);
        for (_, region) in self.in_memory.range_mut(regions) {
            region.last_change = change;
            region.last_changed_at = now;
        }
    }
}

enum DirtyAhead {
    LoadRecords(Vec<u64>),
    DeleteRecords(Vec<u64>),
}

/// The region of a block, and the block's index in it.
fn locate_block(block: u64) -> (u64, usize) {
    let per_region = REGION_BLOCKS as u64;
    (block / per_region, (block % per_region) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u64 = 40 * REGION;

    /// The first `recorded` regions have records.
    fn object_regions(recorded: u64) -> ObjectRegions {
        ObjectRegions {
            record: Some(ObjectRecord {
                regions_end: recorded,
                ..ObjectRecord::default()
            }),
            ..ObjectRegions::new(&Arc::default())
        }
    }

    fn clean(regions: &mut ObjectRegions, numbers: Range<u64>) {
        for number in numbers {
            let region = Region::new_clean(REGION, &[7; REGION_BLOCKS]);
            regions.in_memory.insert(number, region);
        }
    }

    #[test]
    fn a_region_without_a_record_is_written_at_once_and_a_clean_one_is_made_dirty_first() {
        let mut regions = object_regions(1);
        let new_dirty_region = REGION..REGION + 1;
        assert_eq!(
            regions.before_change(&new_dirty_region, SIZE, Seq(0)),
            BeforeChange::Ready
        );
        assert!(regions.in_memory[&1].is_dirty());
        let recorded = 5..6;
        assert_eq!(
            regions.before_change(&recorded, SIZE, Seq(0)),
            BeforeChange::LoadRecords(vec![0])
        );
        clean(&mut regions, 0..1);
        assert_eq!(
            regions.before_change(&recorded, SIZE, Seq(0)),
            BeforeChange::DeleteRecords(vec![0])
        );
        regions.make_dirty(&[0], Seq(9), BootTime(0));
        assert_eq!(
            regions.before_change(&recorded, SIZE, Seq(8)),
            BeforeChange::WaitDurable(Seq(9))
        );
        assert_eq!(
            regions.before_change(&recorded, SIZE, Seq(9)),
            BeforeChange::Ready
        );
        assert_eq!(
            regions.checksum(0, SIZE),
            Some(7),
            "making a region dirty keeps its checksums"
        );
    }

    #[test]
    fn a_recreated_object_waits_until_the_removal_of_the_former_ones_records_is_durable() {
        let mut regions = object_regions(0);
        regions.record = None;
        regions.records_deleted = Seq(7);
        let first = 0..1;
        assert_eq!(
            regions.before_change(&first, SIZE, Seq(6)),
            BeforeChange::WaitDurable(Seq(7))
        );
        assert_eq!(
            regions.before_change(&first, SIZE, Seq(6)),
            BeforeChange::WaitDurable(Seq(7))
        );
        assert_eq!(
            regions.before_change(&first, SIZE, Seq(7)),
            BeforeChange::Ready
        );
    }

    #[test]
    fn sequential_overwrites_make_many_regions_dirty_at_once() {
        let mut regions = object_regions(40);
        clean(&mut regions, 0..40);
        let region = |number: u64| number * REGION..(number + 1) * REGION;
        assert_eq!(
            regions.before_change(&region(3), SIZE, Seq(0)),
            BeforeChange::DeleteRecords(vec![3])
        );
        regions.make_dirty(&[3], Seq(1), BootTime(0));
        let BeforeChange::DeleteRecords(dirtied) = regions.before_change(&region(4), SIZE, Seq(1))
        else {
            panic!("the clean regions are to be made dirty");
        };
        assert_eq!(dirtied, (4..5 + REGIONS_DIRTIED_AHEAD).collect::<Vec<_>>());
        // A write that starts within a region is not sequential.
        regions.make_dirty(&[30], Seq(1), BootTime(0));
        let midst = 31 * REGION + 4096..31 * REGION + 8192;
        assert_eq!(
            regions.before_change(&midst, SIZE, Seq(1)),
            BeforeChange::DeleteRecords(vec![31])
        );
    }
}
