//! Marks, pure: what must happen before bytes of a region may change, and what is known of its blocks afterwards.
//!
//! A region with a record is *clean*: after any crash the record is believed. So the record must be gone, durably, before
//! the first byte changes; a region without one counts as marked.

use super::limits::MARK_AHEAD;
use super::object::State;
use super::region::{Region, Standing, ZERO_SUM, blocks_of, regions_of};
use gupfs_platform::BootTime;
use gupfs_proto::Seq;
use gupfs_proto::limits::{CHECKSUM_BLOCK, REGION, REGION_BLOCKS};
use std::ops::Range;

/// What stands between a change under way and its first byte.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Before {
    Nothing,
    /// The records of these regions are not known.
    Ask(Vec<u64>),
    /// These are clean: their records are to be deleted.
    Mark(Vec<u64>),
    /// Their records are deleted, but might come back.
    Await(Seq),
}

impl State {
    /// No region from here on has a record.
    pub fn regions_end(&self) -> u64 {
        self.record.as_ref().map_or(0, |record| record.regions_end)
    }

    /// Those of these regions of which only the records know.
    pub fn unasked(&self, regions: Range<u64>) -> Vec<u64> {
        let end = regions.end.min(self.regions_end());
        (regions.start..end)
            .filter(|region| !self.regions.contains_key(region))
            .collect()
    }

    /// For a change of `range`, all of whose records up to `durable` are what a crash would leave.
    pub fn before_change(&mut self, range: &Range<u64>, durable: Seq) -> Before {
        let regions = regions_of(range);
        let unasked = self.unasked(regions.clone());
        if !unasked.is_empty() {
            return Before::Ask(unasked);
        }
        let is_clean = |region: &u64| self.regions.get(region).is_some_and(|it| !it.is_dirty());
        let clean: Vec<u64> = regions.clone().filter(is_clean).collect();
        if let Some(first) = clean.first() {
            return match self.ahead(range, *first, regions.end) {
                Ahead::Ask(unasked) => Before::Ask(unasked),
                Ahead::Mark(ahead) => Before::Mark([clean, ahead].concat()),
            };
        }
        let mut wait = Seq(0);
        for number in regions {
            match self.regions.get(&number).map(|region| &region.standing) {
                Some(Standing::Dirty { mark, .. }) => wait = wait.max(*mark),
                Some(Standing::Clean { .. }) => unreachable!("clean ones are marked first"),
                None => {
                    // Of an object that was removed and is made anew: the records of the former one might come back.
                    wait = wait.max(self.forgotten);
                    let region = self.unrecorded(number);
                    self.regions.insert(number, region);
                }
            }
        }
        match wait > durable {
            true => Before::Await(wait),
            false => Before::Nothing,
        }
    }

    /// Further regions to mark when a writer goes through clean ones in order: one sync then serves many regions.
    fn ahead(&self, range: &Range<u64>, first: u64, end: u64) -> Ahead {
        let comes_in_order = range.start <= first * REGION
            && first > 0
            && self.regions.get(&(first - 1)).is_some_and(Region::is_dirty);
        if !comes_in_order {
            return Ahead::Mark(Vec::new());
        }
        let ahead = end..(end + MARK_AHEAD).min(self.regions_end());
        let unasked = self.unasked(ahead.clone());
        if !unasked.is_empty() {
            return Ahead::Ask(unasked);
        }
        let is_clean = |region: &u64| !self.regions[region].is_dirty();
        Ahead::Mark(ahead.filter(is_clean).collect())
    }

    /// Their records were deleted as of `seq`.
    pub fn mark(&mut self, regions: &[u64], seq: Seq, now: BootTime) {
        for number in regions {
            if let Some(region) = self.regions.get_mut(number) {
                region.mark(seq, &self.dirty);
                // Marked ahead: its writer is under way, so it is not idle yet.
                region.touched = now;
            }
        }
        self.restaged += 1;
    }

    /// A region without a record, as it stands now.
    pub fn unrecorded(&self, number: u64) -> Region {
        Region::unrecorded(number, self.size(), self.forgotten, &self.dirty)
    }

    /// Nothing is known of these regions any more, and they have no records.
    pub fn forget(&mut self, regions: Range<u64>) {
        let mut gone = self.regions.split_off(&regions.start);
        self.regions.append(&mut gone.split_off(&regions.end));
        for region in gone.values() {
            self.wait_for_mark_of(region);
        }
        self.restaged += 1;
    }

    /// Before a region is dropped: its record may come back until its mark is durable.
    pub fn wait_for_mark_of(&mut self, region: &Region) {
        if let Standing::Dirty { mark, .. } = region.standing {
            self.forgotten = self.forgotten.max(mark);
        }
    }

    /// What is known of a block's sum.
    pub fn sum(&self, block: u64) -> Option<u32> {
        let (region, within) = place(block);
        match self.regions.get(&region) {
            Some(region) => region.get(within),
            None => (block * CHECKSUM_BLOCK >= self.size()).then_some(*ZERO_SUM),
        }
    }

    /// Takes over what is known of the sums of blocks, in regions that are known.
    pub fn set_sums(&mut self, blocks: Range<u64>, sum: impl Fn(u64) -> Option<u32>) {
        if blocks.is_empty() {
            return;
        }
        let first = place(blocks.start).0;
        let last = place(blocks.end - 1).0;
        for (number, region) in self.regions.range_mut(first..=last) {
            let start = number * REGION_BLOCKS as u64;
            let from = blocks.start.max(start);
            let to = blocks.end.min(start + REGION_BLOCKS as u64);
            for block in from..to {
                region.set((block - start) as usize, sum(block));
            }
        }
    }

    /// Notes that a change began in these regions.
    pub fn touched(&mut self, range: &Range<u64>, change: u64, now: BootTime) {
        let regions = regions_of(range);
        for (_, region) in self.regions.range_mut(regions) {
            region.changed = change;
            region.touched = now;
        }
    }

    /// Sums for a reader: of each block, as far as it is known and nothing changes it.
    pub fn sums_still(&self, blocks: Range<u64>) -> Vec<Option<u32>> {
        let mut sums: Vec<Option<u32>> = blocks.clone().map(|block| self.sum(block)).collect();
        for range in self.flight.under_way() {
            forget(&mut sums, &blocks, range);
        }
        sums
    }

    /// Takes out those that began to change after `then`: the bytes read may be the old or the new ones.
    pub fn forget_moved(&self, sums: &mut [Option<u32>], blocks: &Range<u64>, then: u64) {
        match self.flight.moved_since(then) {
            Some(moved) => moved.for_each(|range| forget(sums, blocks, range)),
            None => sums.fill(None),
        }
    }
}

enum Ahead {
    Ask(Vec<u64>),
    Mark(Vec<u64>),
}

fn forget(sums: &mut [Option<u32>], blocks: &Range<u64>, changed: &Range<u64>) {
    let changed = blocks_of(changed);
    let from = changed.start.max(blocks.start);
    let to = changed.end.min(blocks.end);
    for block in from..to {
        sums[(block - blocks.start) as usize] = None;
    }
}

/// Region, and which of its blocks.
fn place(block: u64) -> (u64, usize) {
    let per_region = REGION_BLOCKS as u64;
    (block / per_region, (block % per_region) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::object::{Object, Segment};
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
            let segment = Segment {
                len: 40 * REGION,
                ..Segment::default()
            };
            state.segments.insert(0, segment);
            state.record = Some(ObjectRecord {
                regions_end: recorded,
                ..ObjectRecord::default()
            });
        }
        object
    }

    fn clean(state: &mut State, regions: Range<u64>) {
        for number in regions {
            let region = Region::clean(REGION, &[7; REGION_BLOCKS]);
            state.regions.insert(number, region);
        }
    }

    #[test]
    fn a_region_without_a_record_is_written_at_once_and_a_clean_one_is_marked_first() {
        let object = object(1);
        let mut state = object.state();
        let unrecorded = REGION..REGION + 1;
        assert_eq!(state.before_change(&unrecorded, Seq(0)), Before::Nothing);
        assert!(state.regions[&1].is_dirty());
        let recorded = 5..6;
        assert_eq!(state.before_change(&recorded, Seq(0)), Before::Ask(vec![0]));
        clean(&mut state, 0..1);
        assert_eq!(
            state.before_change(&recorded, Seq(0)),
            Before::Mark(vec![0])
        );
        state.mark(&[0], Seq(9), BootTime(0));
        assert_eq!(
            state.before_change(&recorded, Seq(8)),
            Before::Await(Seq(9))
        );
        assert_eq!(state.before_change(&recorded, Seq(9)), Before::Nothing);
        assert_eq!(state.sum(0), Some(7), "a mark forgets no sum");
    }

    #[test]
    fn an_object_made_anew_is_written_when_the_removal_of_the_former_ones_records_is_durable() {
        let object = object(0);
        let mut state = object.state();
        state.record = None;
        state.forgotten = Seq(7);
        let first = 0..1;
        assert_eq!(state.before_change(&first, Seq(6)), Before::Await(Seq(7)));
        assert_eq!(state.before_change(&first, Seq(6)), Before::Await(Seq(7)));
        assert_eq!(state.before_change(&first, Seq(7)), Before::Nothing);
    }

    #[test]
    fn who_writes_clean_regions_in_order_marks_many_at_once() {
        let object = object(40);
        let mut state = object.state();
        clean(&mut state, 0..40);
        let region = |number: u64| number * REGION..(number + 1) * REGION;
        assert_eq!(
            state.before_change(&region(3), Seq(0)),
            Before::Mark(vec![3])
        );
        state.mark(&[3], Seq(1), BootTime(0));
        let Before::Mark(marked) = state.before_change(&region(4), Seq(1)) else {
            panic!("a mark");
        };
        assert_eq!(marked, (4..5 + MARK_AHEAD).collect::<Vec<_>>());
        // In the midst of a region is not in order.
        state.mark(&[30], Seq(1), BootTime(0));
        let midst = 31 * REGION + 4096..31 * REGION + 8192;
        assert_eq!(state.before_change(&midst, Seq(1)), Before::Mark(vec![31]));
    }

    #[test]
    fn a_reader_gets_no_sum_of_a_block_in_motion() {
        let object = object(1);
        let mut state = object.state();
        clean(&mut state, 0..1);
        let then = state.flight.now();
        let number = state.flight.begin(4096..8192).unwrap();
        assert_eq!(state.sums_still(0..3), [Some(7), None, Some(7)]);
        let mut sums = vec![Some(7); 3];
        state.forget_moved(&mut sums, &(0..3), then);
        assert_eq!(sums, [Some(7), None, Some(7)]);
        state.flight.end(number);
        assert_eq!(state.sums_still(0..3), [Some(7); 3]);
    }
}
