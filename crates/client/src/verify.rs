//! Checksums at the reader's end: what was stored is what arrived, or nothing is.

use bytes::Bytes;
use gupfs_proto::checksum;
use gupfs_proto::data::BlockSums;
use gupfs_proto::limits::CHECKSUM_BLOCK;

/// The sums that go with `data` written at `at` of an object: one for each block it covers whole. `last`: nothing of
/// the object lies behind it, so that its last block may be short.
pub fn sums_of(data: &Bytes, at: u64, last: bool) -> BlockSums {
    let first_block = at.div_ceil(CHECKSUM_BLOCK);
    let skip = first_block * CHECKSUM_BLOCK - at;
    if skip >= data.len() as u64 {
        return BlockSums::default();
    }
    let mut whole = &data[skip as usize..];
    if !last {
        let short = whole.len() % CHECKSUM_BLOCK as usize;
        whole = &whole[..whole.len() - short];
    }
    let blocks = whole.chunks(CHECKSUM_BLOCK as usize);
    BlockSums {
        first_block,
        sums: blocks.map(|block| Some(checksum::block(block))).collect(),
    }
}

/// Whether `data`, read at `at` of an object where `asked` bytes were asked, matches every sum that can be checked:
/// those of blocks it covers whole, and of a short last one when the object ends there.
pub fn matches(data: &[u8], at: u64, asked: u64, sums: &BlockSums) -> bool {
    let end = at + data.len() as u64;
    let ends_here = (data.len() as u64) < asked;
    sums.sums.iter().enumerate().all(|(index, sum)| {
        let Some(sum) = sum else { return true };
        let from = (sums.first_block + index as u64) * CHECKSUM_BLOCK;
        let to = from + CHECKSUM_BLOCK;
        if from < at || from >= end || (to > end && !ends_here) {
            return true;
        }
        let block = &data[(from - at) as usize..(to.min(end) - at) as usize];
        checksum::block(block) == *sum
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const B: usize = CHECKSUM_BLOCK as usize;

    fn bytes(len: usize) -> Bytes {
        (0..len).map(|i| (i * 7 % 251) as u8).collect()
    }

    #[test]
    fn only_whole_blocks_are_summed_and_a_last_short_one() {
        let data = bytes(2 * B + 100);
        assert_eq!(sums_of(&data, 0, false).sums.len(), 2);
        assert_eq!(sums_of(&data, 0, true).sums.len(), 3);
        let shifted = sums_of(&data, 100, false);
        assert_eq!((shifted.first_block, shifted.sums.len()), (1, 1));
        assert_eq!(sums_of(&bytes(50), 10, true), BlockSums::default());
    }

    #[test]
    fn a_turned_bit_is_seen_in_every_block_that_was_summed() {
        let data = bytes(2 * B + 100);
        let sums = sums_of(&data, 0, true);
        let asked = 3 * B as u64;
        assert!(matches(&data, 0, asked, &sums));
        for at in [0, B, 2 * B, 2 * B + 99] {
            let mut bad = data.to_vec();
            bad[at] ^= 1;
            assert!(!matches(&bad, 0, asked, &sums), "bit at {at}");
        }
    }

    #[test]
    fn a_block_read_in_part_is_not_judged() {
        let data = bytes(2 * B);
        let sums = sums_of(&data, 0, false);
        let part = &data[10..2 * B - 10];
        assert!(matches(part, 10, part.len() as u64, &sums));
    }
}
