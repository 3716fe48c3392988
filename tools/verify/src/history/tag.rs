//! Bytes that name their writer.
//!
//! Every aligned word of eight bytes that is written holds the tag of its write (48 bits) and a check over the offset it
//! was written at (16 bits): a read knows the writer of each word, and whether it was meant to be there. A word of zeros was
//! never written, or cut.

/// Bytes of a word. All offsets and lengths of operations are multiples of it, so no word has two writers.
pub const WORD: u64 = 8;

/// The tag of words that no worker wrote.
pub const BAD: u64 = u64::MAX;

/// Workers are below this, their operations in a run below 2³².
pub const WORKERS_MAX: u16 = 1 << 15;

/// The tag of an operation: unique in its run, never 0 and never [`BAD`].
pub fn of(worker: u16, number: u32) -> u64 {
    debug_assert!(worker < WORKERS_MAX);
    (u64::from(worker) + 1) << 32 | u64::from(number)
}

/// The worker that used the tag, and its operation's number.
pub fn writer(tag: u64) -> Option<(u16, u32)> {
    let worker = (tag >> 32).checked_sub(1)?;
    (worker < u64::from(WORKERS_MAX)).then_some((worker as u16, tag as u32))
}

fn check(offset: u64, tag: u64) -> u64 {
    // Any mixing of both that spreads over 16 bits serves.
    ((offset / WORD + 1) ^ tag.rotate_left(17)).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 48
}

/// The word that a write with this tag puts at this offset.
pub fn word(tag: u64, offset: u64) -> u64 {
    tag << 16 | check(offset, tag)
}

/// The bytes of a write of `from..to` with this tag.
pub fn fill(tag: u64, from: u64, to: u64) -> Vec<u8> {
    (from..to)
        .step_by(WORD as usize)
        .flat_map(|offset| word(tag, offset).to_le_bytes())
        .collect()
}

/// Whose word this is.
pub fn read_word(bytes: [u8; WORD as usize], offset: u64) -> u64 {
    let value = u64::from_le_bytes(bytes);
    match value {
        0 => 0,
        _ if word(value >> 16, offset) == value => value >> 16,
        _ => BAD,
    }
}

/// The writers of bytes that were read at `from`: runs of one writer, each with the offset of its end. A last word that is not
/// whole has no writer.
pub fn read(bytes: &[u8], from: u64) -> Vec<(u64, u64)> {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    let mut offset = from;
    for chunk in bytes.chunks(WORD as usize) {
        let tag = chunk
            .try_into()
            .map_or(BAD, |whole| read_word(whole, offset));
        offset += chunk.len() as u64;
        match runs.last_mut() {
            Some(last) if last.1 == tag => last.0 = offset,
            _ => runs.push((offset, tag)),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_name_their_writer_and_their_place() {
        let (a, b) = (of(0, 7), of(3, 0));
        let mut bytes = fill(a, 4096, 4096 + 24);
        bytes.extend([0; 8]);
        bytes.extend(fill(b, 4128, 4136));
        assert_eq!(read(&bytes, 4096), [(4120, a), (4128, 0), (4136, b)]);
        assert_eq!(writer(a), Some((0, 7)));
        assert_eq!(read(&fill(a, 0, 8), 8), [(16, BAD)], "elsewhere");
        assert_eq!(
            read(&bytes[..12], 4096),
            [(4104, a), (4108, BAD)],
            "half a word"
        );
    }
}
