//! Checksums of data: crc32c of each 4 KiB block, counted from the start of the object.

use crate::limits::CHECKSUM_BLOCK;

/// The checksum of each block in `bytes`, which begin at a block boundary. A shorter last block counts as padded with zeros, so
/// that extending a file by a hole changes no checksum.
pub fn blocks(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks(CHECKSUM_BLOCK as usize).map(block).collect()
}

/// The checksum of one block; shorter input counts as padded with zeros.
pub fn block(bytes: &[u8]) -> u32 {
    const ZEROS: [u8; CHECKSUM_BLOCK as usize] = [0; CHECKSUM_BLOCK as usize];
    debug_assert!(bytes.len() <= ZEROS.len());
    let sum = crc32c::crc32c(bytes);
    if bytes.len() == ZEROS.len() {
        sum
    } else {
        crc32c::crc32c_append(sum, &ZEROS[bytes.len()..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_tail_has_the_checksum_of_the_zero_padded_block() {
        let mut whole = vec![7u8; 100];
        let short = block(&whole);
        whole.resize(CHECKSUM_BLOCK as usize, 0);
        assert_eq!(short, block(&whole));
        assert_eq!(blocks(&[1u8; 5000]).len(), 2);
    }
}
