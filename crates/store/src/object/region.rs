//! State of one region of 1 MiB, without I/O: the checksums of its blocks, and whether a record on disk has them.

use gupfs_platform::BootTime;
use gupfs_proto::Seq;
use gupfs_proto::checksum;
use gupfs_proto::limits::{CHECKSUM_BLOCK, REGION, REGION_BLOCKS};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

/// The checksum of a block of zeros, or of one that was never written.
pub(super) static ZERO_SUM: LazyLock<u32> = LazyLock::new(|| checksum::block(&[]));

pub(super) struct Region {
    sums: Box<[u32; REGION_BLOCKS]>,
    known: [u64; REGION_BLOCKS / 64],
    pub state: RegionState,
    /// The number of the last change of this region.
    pub last_change: u64,
    /// The time at which that change began.
    pub last_changed_at: BootTime,
}

pub(super) enum RegionState {
    /// The region has a record in the log: after any crash these checksums match the bytes. `len` is the number of the
    /// region's bytes up to the object's end.
    Clean { len: u64, used: bool },
    /// The region has no record. A former record cannot come back once the batch `deleted_in` is durable; then the
    /// region may be written.
    Dirty { deleted_in: Seq, _count: DirtyCount },
}

/// Counts one dirty region of a target until it is dropped.
pub(super) struct DirtyCount(Arc<AtomicUsize>);

impl DirtyCount {
    pub fn new(count: &Arc<AtomicUsize>) -> DirtyCount {
        count.fetch_add(1, Ordering::Relaxed);
        DirtyCount(Arc::clone(count))
    }
}

impl Drop for DirtyCount {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The region of a byte.
pub(super) fn region_of(at: u64) -> u64 {
    at / REGION
}

/// The regions that a range overlaps.
pub(super) fn regions_of(range: &Range<u64>) -> Range<u64> {
    match range.is_empty() {
        true => 0..0,
        false => region_of(range.start)..region_of(range.end - 1) + 1,
    }
}

/// The blocks that a range overlaps.
pub(super) fn blocks_of(range: &Range<u64>) -> Range<u64> {
    match range.is_empty() {
        true => 0..0,
        false => range.start / CHECKSUM_BLOCK..(range.end - 1) / CHECKSUM_BLOCK + 1,
    }
}

/// The blocks that a range covers whole.
pub(super) fn whole_blocks_of(range: &Range<u64>) -> Range<u64> {
    let first = range.start.div_ceil(CHECKSUM_BLOCK);
    first..(range.end / CHECKSUM_BLOCK).max(first)
}

/// The number of a region's bytes before the end of an object of this size.
pub(super) fn region_len(region: u64, size: u64) -> u64 {
    size.saturating_sub(region * REGION).min(REGION)
}

impl Region {
    /// A dirty region without known checksums, in an object of `size` bytes; the blocks after its end are zeros. A
    /// former record cannot come back once the batch `deleted_in` is durable.
    pub fn new_dirty_region(
        number: u64,
        size: u64,
        deleted_in: Seq,
        count: &Arc<AtomicUsize>,
    ) -> Region {
        let mut region = Region {
            sums: Box::new([0; REGION_BLOCKS]),
            known: [0; REGION_BLOCKS / 64],
            state: RegionState::Dirty {
                deleted_in,
                _count: DirtyCount::new(count),
            },
            last_change: 0,
            last_changed_at: BootTime(0),
        };
        let first = region_len(number, size).div_ceil(CHECKSUM_BLOCK) as usize;
        region.set_zeros(first..REGION_BLOCKS);
        region
    }

    /// A clean region as its record has it: `len` bytes, and zeros after them.
    pub fn new_clean(len: u64, sums: &[u32]) -> Region {
        debug_assert_eq!(sums.len() as u64, len.div_ceil(CHECKSUM_BLOCK));
        let mut region = Region {
            sums: Box::new([*ZERO_SUM; REGION_BLOCKS]),
            known: [u64::MAX; REGION_BLOCKS / 64],
            state: RegionState::Clean { len, used: true },
            last_change: 0,
            last_changed_at: BootTime(0),
        };
        region.sums[..sums.len()].copy_from_slice(sums);
        region
    }

    pub fn get(&self, block: usize) -> Option<u32> {
        (self.known[block / 64] >> (block % 64) & 1 == 1).then(|| self.sums[block])
    }

    pub fn set(&mut self, block: usize, sum: Option<u32>) {
        let bit = 1 << (block % 64);
        match sum {
            Some(sum) => {
                self.sums[block] = sum;
                self.known[block / 64] |= bit;
            }
            None => self.known[block / 64] &= !bit,
        }
    }

    pub fn set_zeros(&mut self, blocks: Range<usize>) {
        for block in blocks {
            self.set(block, Some(*ZERO_SUM));
        }
    }

    /// The blocks before `end` without a known checksum, as ranges.
    pub fn unknown_blocks(&self, end: usize) -> Vec<Range<usize>> {
        let mut found: Vec<Range<usize>> = Vec::new();
        for block in (0..end).filter(|block| self.get(*block).is_none()) {
            match found.last_mut() {
                Some(last) if last.end == block => last.end += 1,
                _ => found.push(block..block + 1),
            }
        }
        found
    }

    /// The checksums of the first blocks, if all are known.
    pub fn first_checksums(&self, count: usize) -> Option<&[u32]> {
        self.unknown_blocks(count)
            .is_empty()
            .then(|| &self.sums[..count])
    }

    pub fn is_dirty(&self) -> bool {
        matches!(self.state, RegionState::Dirty { .. })
    }

    /// Makes the region dirty: its record was deleted in the batch `deleted_in`. Its checksums stay known.
    pub fn make_dirty(&mut self, deleted_in: Seq, count: &Arc<AtomicUsize>) {
        self.state = RegionState::Dirty {
            deleted_in,
            _count: DirtyCount::new(count),
        };
    }

    /// Makes the region clean: its record was staged.
    pub fn make_clean(&mut self, len: u64) {
        self.state = RegionState::Clean { len, used: true };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_overlap_and_cover() {
        assert_eq!(regions_of(&(0..0)), 0..0);
        assert_eq!(regions_of(&(REGION - 1..REGION + 1)), 0..2);
        assert_eq!(blocks_of(&(4095..8193)), 0..3);
        assert_eq!(whole_blocks_of(&(4095..8193)), 1..2);
        assert_eq!(whole_blocks_of(&(1..2)), 1..1);
        assert_eq!(whole_blocks_of(&(8192..8192)), 2..2);
    }

    #[test]
    fn blocks_after_the_end_are_known_to_be_zeros() {
        let count = Arc::default();
        let region = Region::new_dirty_region(1, REGION + 5000, Seq(0), &count);
        assert_eq!(
            (region.get(0), region.get(1), region.get(2)),
            (None, None, Some(*ZERO_SUM))
        );
        assert_eq!(region.unknown_blocks(REGION_BLOCKS), [0..2]);
        assert_eq!(region.first_checksums(2), None);
        assert_eq!(count.load(Ordering::Relaxed), 1);
        drop(region);
        assert_eq!(count.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_region_that_becomes_dirty_keeps_its_checksums() {
        let count = Arc::default();
        let mut region = Region::new_clean(5000, &[7, 8]);
        region.make_dirty(Seq(3), &count);
        assert!(region.is_dirty());
        region.set(1, None);
        assert_eq!(
            (region.get(0), region.get(1), region.get(2)),
            (Some(7), None, Some(*ZERO_SUM))
        );
        region.make_clean(5000);
        assert_eq!(count.load(Ordering::Relaxed), 0);
    }
}
