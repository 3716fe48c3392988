//! Dirty regions, without I/O: what must happen before bytes of a region may change, and which checksums of its blocks
//! are known afterwards.
//!
//! A region with a record is *clean*: after any crash its record is taken as true. So the record must be gone, durably,
//! before the first byte changes. A region without a record is *dirty*.

use super::limits::REGIONS_DIRTIED_AHEAD;
use super::object::ObjectState;
use super::region::{Region, RegionState, ZERO_SUM, blocks_of, regions_of};
use gupfs_platform::BootTime;
use gupfs_proto::Seq;
use gupfs_proto::limits::{CHECKSUM_BLOCK, REGION, REGION_BLOCKS};
use std::ops::Range;

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

impl ObjectState {
    /// No region from this number on has a record.
    pub fn regions_end(&self) -> u64 {
        self.record.as_ref().map_or(0, |record| record.regions_end)
    }

    /// The regions among these that may have a record and are not in memory.
    pub fn regions_to_load(&self, regions: Range<u64>) -> Vec<u64> {
        let end = regions.end.min(self.regions_end());
        (regions.start..end)
            .filter(|region| !self.regions.contains_key(region))
            .collect()
    }

    /// The next step for a change of `range`, where the records are durable up to `durable`.
    pub fn before_change(&mut self, range: &Range<u64>, durable: Seq) -> BeforeChange {
        let regions = regions_of(range);
        let regions_to_load = self.regions_to_load(regions.clone());
        if !regions_to_load.is_empty() {
            return BeforeChange::LoadRecords(regions_to_load);
        }
        let is_clean = |region: &u64| self.regions.get(region).is_some_and(|it| !it.is_dirty());
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
            match self.regions.get(&number).map(|region| &region.state) {
                Some(RegionState::Dirty { deleted_in, .. }) => wait = wait.max(*deleted_in),
                Some(RegionState::Clean { .. }) => {
                    unreachable!("clean regions are made dirty first")
                }
                None => {
                    // If the object was removed and is created again, the records of the former one might come back.
                    wait = wait.max(self.records_deleted);
                    let region = self.new_dirty_region(number);
                    self.regions.insert(number, region);
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
            && self.regions.get(&(first - 1)).is_some_and(Region::is_dirty);
        if !comes_in_order {
            return DirtyAhead::DeleteRecords(Vec::new());
        }
        let ahead = end..(end + REGIONS_DIRTIED_AHEAD).min(self.regions_end());
        let regions_to_load = self.regions_to_load(ahead.clone());
        if !regions_to_load.is_empty() {
            return DirtyAhead::LoadRecords(regions_to_load);
        }
        let is_clean = |region: &u64| !self.regions[region].is_dirty();
        DirtyAhead::DeleteRecords(ahead.filter(is_clean).collect())
    }

    /// Makes regions dirty whose records were deleted in batch `seq`.
    pub fn make_dirty(&mut self, regions: &[u64], seq: Seq, now: BootTime) {
        for number in regions {
            if let Some(region) = self.regions.get_mut(number) {
                region.make_dirty(seq, &self.dirty_regions);
                // A region that is made dirty ahead will be written soon, so it is not idle yet.
                region.last_changed_at = now;
            }
        }
        self.records_version += 1;
    }

    /// A new dirty region without known checksums, for the current size of the object.
    pub fn new_dirty_region(&self, number: u64) -> Region {
        Region::new_dirty_region(
            number,
            self.size(),
            self.records_deleted,
            &self.dirty_regions,
        )
    }

    /// Drops these regions from memory; they have no records any more.
    pub fn forget_regions(&mut self, regions: Range<u64>) {
        let mut gone = self.regions.split_off(&regions.start);
        self.regions.append(&mut gone.split_off(&regions.end));
        for region in gone.values() {
            self.note_deletion(region);
        }
        self.records_version += 1;
    }

    /// Called before a dirty region is dropped: its record may come back until its deletion is durable.
    pub fn note_deletion(&mut self, region: &Region) {
        if let RegionState::Dirty { deleted_in, .. } = region.state {
            self.records_deleted = self.records_deleted.max(deleted_in);
        }
    }

    /// The checksum of a block, if it is known.
    pub fn checksum(&self, block: u64) -> Option<u32> {
        let (region, within) = locate_block(block);
        match self.regions.get(&region) {
            Some(region) => region.get(within),
            None => (block * CHECKSUM_BLOCK >= self.size()).then_some(*ZERO_SUM),
        }
    }

    /// Sets the checksums of blocks, in regions that are in memory.
    pub fn set_checksums(&mut self, blocks: Range<u64>, sum: impl Fn(u64) -> Option<u32>) {
        if blocks.is_empty() {
            return;
        }
        let first = locate_block(blocks.start).0;
        let last = locate_block(blocks.end - 1).0;
        for (number, region) in self.regions.range_mut(first..=last) {
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
        for (_, region) in self.regions.range_mut(regions) {
            region.last_change = change;
            region.last_changed_at = now;
        }
    }

    /// The checksums of blocks for a reader; None where they are unknown or the block is changing.
    pub fn stable_checksums(&self, blocks: Range<u64>) -> Vec<Option<u32>> {
        let mut sums: Vec<Option<u32>> = blocks.clone().map(|block| self.checksum(block)).collect();
        for range in self.in_flight.active_ranges() {
            clear_checksums(&mut sums, &blocks, range);
        }
        sums
    }

    /// Clears the checksums of blocks that began to change after `last_change`: the reader may have read old or new
    /// bytes.
    pub fn clear_changed_checksums(
        &self,
        sums: &mut [Option<u32>],
        blocks: &Range<u64>,
        last_change: u64,
    ) {
        match self.in_flight.changed_since(last_change) {
            Some(changed) => changed.for_each(|range| clear_checksums(sums, blocks, range)),
            None => sums.fill(None),
        }
    }
}

enum DirtyAhead {
    LoadRecords(Vec<u64>),
    DeleteRecords(Vec<u64>),
}

fn clear_checksums(sums: &mut [Option<u32>], blocks: &Range<u64>, changed: &Range<u64>) {
    let changed = blocks_of(changed);
    let from = changed.start.max(blocks.start);
    let to = changed.end.min(blocks.end);
    for block in from..to {
        sums[(block - blocks.start) as usize] = None;
    }
}

/// The region of a block, and the block's index in it.
fn locate_block(block: u64) -> (u64, usize) {
    let per_region = REGION_BLOCKS as u64;
    (block / per_region, (block % per_region) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::object::{Object, SegmentFile};
    use crate::object::record::ObjectRecord;
    use gupfs_proto::{Generation, InodeId, ObjectId};
    use std::sync::Arc;

    const ID: ObjectId = ObjectId {
        ino: InodeId(1),
        generation: Generation(1),
        stripe: 0,
    };

    /// An object of 40 regions, the first `recorded` of which have records.
    fn object(recorded: u64) -> Object {
        let object = Object::new(ID, &Arc::default());
        {
            let mut state = object.state();
            let segment = SegmentFile {
                len: 40 * REGION,
                ..SegmentFile::default()
            };
            state.segments.insert(0, segment);
            state.record = Some(ObjectRecord {
                regions_end: recorded,
                ..ObjectRecord::default()
            });
        }
        object
    }

    fn clean(state: &mut ObjectState, regions: Range<u64>) {
        for number in regions {
            let region = Region::new_clean(REGION, &[7; REGION_BLOCKS]);
            state.regions.insert(number, region);
        }
    }

    #[test]
    fn a_region_without_a_record_is_written_at_once_and_a_clean_one_is_made_dirty_first() {
        let object = object(1);
        let mut state = object.state();
        let new_dirty_region = REGION..REGION + 1;
        assert_eq!(
            state.before_change(&new_dirty_region, Seq(0)),
            BeforeChange::Ready
        );
        assert!(state.regions[&1].is_dirty());
        let recorded = 5..6;
        assert_eq!(
            state.before_change(&recorded, Seq(0)),
            BeforeChange::LoadRecords(vec![0])
        );
        clean(&mut state, 0..1);
        assert_eq!(
            state.before_change(&recorded, Seq(0)),
            BeforeChange::DeleteRecords(vec![0])
        );
        state.make_dirty(&[0], Seq(9), BootTime(0));
        assert_eq!(
            state.before_change(&recorded, Seq(8)),
            BeforeChange::WaitDurable(Seq(9))
        );
        assert_eq!(state.before_change(&recorded, Seq(9)), BeforeChange::Ready);
        assert_eq!(
            state.checksum(0),
            Some(7),
            "making a region dirty keeps its checksums"
        );
    }

    #[test]
    fn a_recreated_object_waits_until_the_removal_of_the_former_ones_records_is_durable() {
        let object = object(0);
        let mut state = object.state();
        state.record = None;
        state.records_deleted = Seq(7);
        let first = 0..1;
        assert_eq!(
            state.before_change(&first, Seq(6)),
            BeforeChange::WaitDurable(Seq(7))
        );
        assert_eq!(
            state.before_change(&first, Seq(6)),
            BeforeChange::WaitDurable(Seq(7))
        );
        assert_eq!(state.before_change(&first, Seq(7)), BeforeChange::Ready);
    }

    #[test]
    fn sequential_overwrites_make_many_regions_dirty_at_once() {
        let object = object(40);
        let mut state = object.state();
        clean(&mut state, 0..40);
        let region = |number: u64| number * REGION..(number + 1) * REGION;
        assert_eq!(
            state.before_change(&region(3), Seq(0)),
            BeforeChange::DeleteRecords(vec![3])
        );
        state.make_dirty(&[3], Seq(1), BootTime(0));
        let BeforeChange::DeleteRecords(dirtied) = state.before_change(&region(4), Seq(1)) else {
            panic!("the clean regions are to be made dirty");
        };
        assert_eq!(dirtied, (4..5 + REGIONS_DIRTIED_AHEAD).collect::<Vec<_>>());
        // A write that starts within a region is not sequential.
        state.make_dirty(&[30], Seq(1), BootTime(0));
        let midst = 31 * REGION + 4096..31 * REGION + 8192;
        assert_eq!(
            state.before_change(&midst, Seq(1)),
            BeforeChange::DeleteRecords(vec![31])
        );
    }

    #[test]
    fn a_reader_gets_no_checksum_of_a_changing_block() {
        let object = object(1);
        let mut state = object.state();
        clean(&mut state, 0..1);
        let last_change = state.in_flight.last_begun();
        let number = state.in_flight.begin(4096..8192).unwrap();
        assert_eq!(state.stable_checksums(0..3), [Some(7), None, Some(7)]);
        let mut sums = vec![Some(7); 3];
        state.clear_changed_checksums(&mut sums, &(0..3), last_change);
        assert_eq!(sums, [Some(7), None, Some(7)]);
        state.in_flight.end(number);
        assert_eq!(state.stable_checksums(0..3), [Some(7); 3]);
    }
}
