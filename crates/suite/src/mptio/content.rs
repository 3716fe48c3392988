//! What the bytes are, and so who wrote them.
//!
//! Without a check, a thread writes random bytes that are made once, with each 4 KiB piece marked by its place: no storage
//! below can shrink or share them, and marking costs nothing beside the write. With a check, every word is made from the
//! run, the place, the offset, the test and the writer: a wrong word says what it is.

use super::regions::Place;
use super::tests::Test;
use crate::chance::{Dice, mix, mix_all};

/// Who wrote a word: a thread of a process in a test.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Writer {
    pub rank: usize,
    pub thread: usize,
    pub test: Test,
}

/// A piece that is marked: smaller ones are not looked at by anything that shares equal blocks.
const PIECE: usize = 4096;
const WORD: u64 = 8;

fn number(place: Place) -> u64 {
    match place {
        Place::Global => mix_all(&[1]),
        Place::Process(rank) => mix_all(&[2, rank as u64]),
        Place::Thread(rank, thread) => mix_all(&[3, rank as u64, thread as u64]),
        Place::Device(device) => mix_all(&[4, device as u64]),
    }
}

/// All words that one writer writes to one place.
#[derive(Clone, Copy)]
pub struct Words(u64);

impl Words {
    pub fn of(run: u64, place: Place, writer: Writer) -> Words {
        let Writer { rank, thread, test } = writer;
        let key = [run, number(place), rank as u64, thread as u64, test as u64];
        Words(mix_all(&key))
    }

    /// The eight bytes of which the first lies at the offset, a multiple of eight.
    fn word(self, offset: u64) -> [u8; 8] {
        mix(self.0 ^ offset).to_le_bytes()
    }

    /// The bytes at an offset, which need not be a multiple of eight.
    pub fn fill(self, bytes: &mut [u8], mut offset: u64) {
        let skip = (offset % WORD) as usize;
        let (head, rest) = bytes.split_at_mut(bytes.len().min((8 - skip) % 8));
        head.copy_from_slice(&self.word(offset - skip as u64)[skip..][..head.len()]);
        offset += head.len() as u64;
        for piece in rest.chunks_mut(8) {
            piece.copy_from_slice(&self.word(offset)[..piece.len()]);
            offset += WORD;
        }
    }
}

/// Random bytes for a thread that nobody will check.
pub fn fill_at_random(bytes: &mut [u8], run: u64, rank: usize, thread: usize) {
    Dice::new(mix_all(&[run, rank as u64, thread as u64])).fill(bytes);
}

/// Makes the pieces of a record differ from those of every other record.
pub fn mark(bytes: &mut [u8], mark: u64, offset: u64) {
    for (index, piece) in bytes.chunks_mut(PIECE).enumerate() {
        if let Some(word) = piece.first_chunk_mut::<8>() {
            *word = mix(mark ^ (offset + (index * PIECE) as u64)).to_le_bytes();
        }
    }
}

/// Records that a random test visits, one after the other. The same for who writes and who checks.
pub fn visits(run: u64, writer: Writer, records: u64) -> impl Iterator<Item = u64> {
    let Writer { rank, thread, test } = writer;
    let mut dice = Dice::new(mix_all(&[run, 99, rank as u64, thread as u64, test as u64]));
    std::iter::repeat_with(move || dice.below(records))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITER: Writer = Writer {
        rank: 1,
        thread: 2,
        test: Test::SeqWrite,
    };

    #[test]
    fn bytes_at_an_offset_do_not_depend_on_where_a_record_starts() {
        let words = Words::of(1, Place::Global, WRITER);
        let mut whole = [0; 64];
        words.fill(&mut whole, 0);
        for (start, end) in [(0, 64), (3, 5), (3, 40), (8, 9), (17, 64), (5, 5)] {
            let mut part = vec![0; end - start];
            words.fill(&mut part, start as u64);
            assert_eq!(part, whole[start..end], "{start}..{end}");
        }
    }

    #[test]
    fn every_writer_test_place_and_run_has_words_of_its_own() {
        let other_test = Writer {
            test: Test::RandomWrite,
            ..WRITER
        };
        let words = [
            Words::of(1, Place::Global, WRITER),
            Words::of(2, Place::Global, WRITER),
            Words::of(1, Place::Process(1), WRITER),
            Words::of(1, Place::Global, other_test),
            Words::of(1, Place::Global, Writer { rank: 2, ..WRITER }),
        ];
        let distinct: std::collections::BTreeSet<_> = words.map(|w| w.word(8)).into();
        assert_eq!(distinct.len(), words.len());
    }

    #[test]
    fn marked_pieces_differ() {
        let mut bytes = vec![7; 3 * PIECE];
        mark(&mut bytes, 1, 0);
        assert_ne!(bytes[..8], bytes[PIECE..PIECE + 8]);
        assert_ne!(bytes[..8], bytes[2 * PIECE..2 * PIECE + 8]);
    }
}
