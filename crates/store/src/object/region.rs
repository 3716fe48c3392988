//! What is known of one region of 1 MiB, pure: the checksums of its blocks, and whether a record on disk vouches for them.

use gupfs_platform::BootTime;
use gupfs_proto::Seq;
use gupfs_proto::checksum;
use gupfs_proto::limits::{CHECKSUM_BLOCK, REGION, REGION_BLOCKS};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

/// The sum of a block that was never written, or of zeros.
pub(super) static ZERO_SUM: LazyLock<u32> = LazyLock::new(|| checksum::block(&[]));

pub(super) struct Region {
    sums: Box<[u32; REGION_BLOCKS]>,
    known: [u64; REGION_BLOCKS / 64],
    pub standing: Standing,
    /// The number of the last change that began in it.
    pub changed: u64,
    /// When that was.
    pub touched: BootTime,
}

pub(super) enum Standing {
    /// Its record is in the log: after any crash these sums are the bytes'. `len` is where the region's last byte was.
    Clean { len: u64, used: bool },
    /// It has no record, and none comes back once `mark` is durable: it may be written then.
    Dirty { mark: Seq, _counted: Counted },
}

/// One of the dirty regions that a target counts.
pub(super) struct Counted(Arc<AtomicUsize>);

impl Counted {
    pub fn new(count: &Arc<AtomicUsize>) -> Counted {
        count.fetch_add(1, Ordering::Relaxed);
        Counted(Arc::clone(count))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The region a byte lies in.
pub(super) fn region_of(at: u64) -> u64 {
    at / REGION
}

/// The regions that a range touches.
pub(super) fn regions_of(range: &Range<u64>) -> Range<u64> {
    match range.is_empty() {
        true => 0..0,
        false => region_of(range.start)..region_of(range.end - 1) + 1,
    }
}

/// The blocks that a range touches.
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

/// How many bytes of a region lie before the end of an object of that size.
pub(super) fn len_in(region: u64, size: u64) -> u64 {
    size.saturating_sub(region * REGION).min(REGION)
}

impl Region {
    /// One that no record vouches for, in an object of `size` bytes: what lies behind the end is zeros.
    /// None comes back once `mark` is durable.
    pub fn unrecorded(number: u64, size: u64, mark: Seq, count: &Arc<AtomicUsize>) -> Region {
        let mut region = Region {
            sums: Box::new([0; REGION_BLOCKS]),
            known: [0; REGION_BLOCKS / 64],
            standing: Standing::Dirty {
                mark,
                _counted: Counted::new(count),
            },
            changed: 0,
            touched: BootTime(0),
        };
        let first = len_in(number, size).div_ceil(CHECKSUM_BLOCK) as usize;
        region.zeros(first..REGION_BLOCKS);
        region
    }

    /// One as its record has it: `len` bytes, and zeros behind them.
    pub fn clean(len: u64, sums: &[u32]) -> Region {
        debug_assert_eq!(sums.len() as u64, len.div_ceil(CHECKSUM_BLOCK));
        let mut region = Region {
            sums: Box::new([*ZERO_SUM; REGION_BLOCKS]),
            known: [u64::MAX; REGION_BLOCKS / 64],
            standing: Standing::Clean { len, used: true },
            changed: 0,
            touched: BootTime(0),
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

    pub fn zeros(&mut self, blocks: Range<usize>) {
        for block in blocks {
            self.set(block, Some(*ZERO_SUM));
        }
    }

    /// Blocks before `end` whose sums are not known, as ranges.
    pub fn unknown(&self, end: usize) -> Vec<Range<usize>> {
        let mut found: Vec<Range<usize>> = Vec::new();
        for block in (0..end).filter(|block| self.get(*block).is_none()) {
            match found.last_mut() {
                Some(last) if last.end == block => last.end += 1,
                _ => found.push(block..block + 1),
            }
        }
        found
    }

    /// The sums of the first blocks, if all are known.
    pub fn first(&self, count: usize) -> Option<&[u32]> {
        self.unknown(count).is_empty().then(|| &self.sums[..count])
    }

    pub fn is_dirty(&self) -> bool {
        matches!(self.standing, Standing::Dirty { .. })
    }

    /// Takes away its record, as of `mark`. What its sums are stays known.
    pub fn mark(&mut self, mark: Seq, count: &Arc<AtomicUsize>) {
        self.standing = Standing::Dirty {
            mark,
            _counted: Counted::new(count),
        };
    }

    /// Its record was staged.
    pub fn settle(&mut self, len: u64) {
        self.standing = Standing::Clean { len, used: true };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_touch_and_cover() {
        assert_eq!(regions_of(&(0..0)), 0..0);
        assert_eq!(regions_of(&(REGION - 1..REGION + 1)), 0..2);
        assert_eq!(blocks_of(&(4095..8193)), 0..3);
        assert_eq!(whole_blocks_of(&(4095..8193)), 1..2);
        assert_eq!(whole_blocks_of(&(1..2)), 1..1);
        assert_eq!(whole_blocks_of(&(8192..8192)), 2..2);
    }

    #[test]
    fn what_lies_behind_the_end_is_known_to_be_zeros() {
        let count = Arc::default();
        let region = Region::unrecorded(1, REGION + 5000, Seq(0), &count);
        assert_eq!(
            (region.get(0), region.get(1), region.get(2)),
            (None, None, Some(*ZERO_SUM))
        );
        assert_eq!(region.unknown(REGION_BLOCKS), [0..2]);
        assert_eq!(region.first(2), None);
        assert_eq!(count.load(Ordering::Relaxed), 1);
        drop(region);
        assert_eq!(count.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_marked_region_keeps_its_sums() {
        let count = Arc::default();
        let mut region = Region::clean(5000, &[7, 8]);
        region.mark(Seq(3), &count);
        assert!(region.is_dirty());
        region.set(1, None);
        assert_eq!(
            (region.get(0), region.get(1), region.get(2)),
            (Some(7), None, Some(*ZERO_SUM))
        );
        region.settle(5000);
        assert_eq!(count.load(Ordering::Relaxed), 0);
    }
}
