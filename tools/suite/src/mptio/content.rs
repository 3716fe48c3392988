//! The writer of each word of a region (see [`crate::pattern`]), and the records that a random test visits.

use super::regions::TargetFile;
use super::tests::Test;
use crate::pattern::PatternWords;
use crate::rng::{Rng, mix_all};

/// The writer of a word: a thread of a process in a test.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Writer {
    pub rank: usize,
    pub thread: usize,
    pub test: Test,
}

fn number(place: TargetFile) -> u64 {
    match place {
        TargetFile::Global => mix_all(&[1]),
        TargetFile::Process(rank) => mix_all(&[2, rank as u64]),
        TargetFile::Thread(rank, thread) => mix_all(&[3, rank as u64, thread as u64]),
        TargetFile::Device(device) => mix_all(&[4, device as u64]),
    }
}

/// All words that one writer writes to one place.
pub fn words(run: u64, place: TargetFile, writer: Writer) -> PatternWords {
    let Writer { rank, thread, test } = writer;
    PatternWords::keyed(&[run, number(place), rank as u64, thread as u64, test as u64])
}

/// Random bytes for a thread whose data the run does not check.
pub fn fill_at_random(bytes: &mut [u8], run: u64, rank: usize, thread: usize) {
    Rng::new(mix_all(&[run, rank as u64, thread as u64])).fill(bytes);
}

/// Records that a random test visits, one after the other. The writer and the checker compute the same.
pub fn visits(run: u64, writer: Writer, records: u64) -> impl Iterator<Item = u64> {
    let Writer { rank, thread, test } = writer;
    let mut rng = Rng::new(mix_all(&[run, 99, rank as u64, thread as u64, test as u64]));
    std::iter::repeat_with(move || rng.below(records))
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
    fn every_writer_test_place_and_run_has_words_of_its_own() {
        let other_test = Writer {
            test: Test::RandomWrite,
            ..WRITER
        };
        let all = [
            words(1, TargetFile::Global, WRITER),
            words(2, TargetFile::Global, WRITER),
            words(1, TargetFile::Process(1), WRITER),
            words(1, TargetFile::Global, other_test),
            words(1, TargetFile::Global, Writer { rank: 2, ..WRITER }),
        ];
        let distinct: std::collections::BTreeSet<_> = all.map(|w| w.word(8)).into();
        assert_eq!(distinct.len(), all.len());
    }
}
