//! Checksums at the client's end: a read returns the bytes that were written, or an error.

use bytes::Bytes;
use gupfs_proto::checksum;
use gupfs_proto::data::BlockChecksums;
use gupfs_proto::limits::CHECKSUM_BLOCK;
use gupfs_proto::{ByteCount, ObjectOffset};

/// The checksums of `data` written at `at` of an object: one for each block it covers whole. `last`: the object has no bytes
/// behind it, so its last block may be short.
pub fn sums_of(data: &Bytes, at: ObjectOffset, last: bool) -> BlockChecksums {
    let at = at.0;
    let first_block = at.div_ceil(CHECKSUM_BLOCK);
    let skip = first_block * CHECKSUM_BLOCK - at;
    if skip >= data.len() as u64 {
        return BlockChecksums::default();
    }
    let mut whole = &data[skip as usize..];
    if !last {
        let short = whole.len() % CHECKSUM_BLOCK as usize;
        whole = &whole[..whole.len() - short];
    }
    let blocks = whole.chunks(CHECKSUM_BLOCK as usize);
    BlockChecksums {
        first_block,
        checksums: blocks.map(|block| Some(checksum::block(block))).collect(),
    }
}

/// Whether `data`, read at `at` of an object by a request of `requested` bytes, matches every checksum that can be checked: those
/// of blocks it covers whole, and of a short last block when the object ends there.
pub fn matches(data: &[u8], at: ObjectOffset, requested: ByteCount, sums: &BlockChecksums) -> bool {
    let (at, requested) = (at.0, requested.0);
    let end = at + data.len() as u64;
    let ends_here = (data.len() as u64) < requested;
    sums.checksums.iter().enumerate().all(|(index, sum)| {
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
        assert_eq!(sums_of(&data, ObjectOffset(0), false).checksums.len(), 2);
        assert_eq!(sums_of(&data, ObjectOffset(0), true).checksums.len(), 3);
        let shifted = sums_of(&data, ObjectOffset(100), false);
        assert_eq!((shifted.first_block, shifted.checksums.len()), (1, 1));
        assert_eq!(
            sums_of(&bytes(50), ObjectOffset(10), true),
            BlockChecksums::default()
        );
    }

    #[test]
    fn a_flipped_bit_is_detected_in_every_summed_block() {
        let data = bytes(2 * B + 100);
        let sums = sums_of(&data, ObjectOffset(0), true);
        let requested = ByteCount(3 * B as u64);
        assert!(matches(&data, ObjectOffset(0), requested, &sums));
        for at in [0, B, 2 * B, 2 * B + 99] {
            let mut bad = data.to_vec();
            bad[at] ^= 1;
            assert!(
                !matches(&bad, ObjectOffset(0), requested, &sums),
                "bit at {at}"
            );
        }
    }

    #[test]
    fn a_partly_read_block_is_not_checked() {
        let data = bytes(2 * B);
        let sums = sums_of(&data, ObjectOffset(0), false);
        let part = &data[10..2 * B - 10];
        assert!(matches(
            part,
            ObjectOffset(10),
            ByteCount(part.len() as u64),
            &sums
        ));
    }
}
