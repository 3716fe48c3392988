//! Data patterns: the bytes of a file tell which writer wrote them.
//!
//! Without a check, a writer has random bytes that are made once, with each 4 KiB piece marked by its place: no storage
//! below can shrink or share them, and marking costs nothing beside the write. With a check, every word is made from the
//! run, the file, the offset and the writer: a wrong word says what it is.

use std::fmt;
use std::path::Path;

use gupfs_kit::random::mix;

use crate::error::{SuiteError, SuiteResult};
use crate::memory::Buffer;
use crate::rng::{Rng, mix_all};

/// A piece that is marked: smaller ones are not looked at by anything that shares equal blocks.
const PIECE: usize = 4096;
const WORD: u64 = 8;

/// All words that one writer writes to one place.
#[derive(Clone, Copy)]
pub struct PatternWords(u64);

impl PatternWords {
    /// The words of whatever the numbers together name.
    pub fn keyed(key: &[u64]) -> PatternWords {
        PatternWords(mix_all(key))
    }

    /// The eight bytes of which the first lies at the offset, a multiple of eight.
    pub(crate) fn word(self, offset: u64) -> [u8; 8] {
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

/// Makes the pieces of a record differ from those of every other record.
pub fn mark(bytes: &mut [u8], mark: u64, offset: u64) {
    for (index, piece) in bytes.chunks_mut(PIECE).enumerate() {
        if let Some(word) = piece.first_chunk_mut::<8>() {
            *word = mix(mark ^ (offset + (index * PIECE) as u64)).to_le_bytes();
        }
    }
}

/// Bytes from an offset to the next multiple of eight, or to a record's end.
pub fn first_word(offset: u64, record: u64) -> usize {
    (8 - offset % 8).min(record) as usize
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The origin of some bytes: one of the writers of a file, in one of its passes over it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Origin {
    pub file: u64,
    pub writer: u64,
    pub pass: u64,
}

impl Origin {
    fn words(self, run: u64) -> PatternWords {
        PatternWords::keyed(&[run, self.file, self.writer, self.pass])
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "writer {} in pass {}", self.writer, self.pass)
    }
}

/// Makes the records that a writer writes, in memory that it fills again and again.
pub struct PatternGenerator {
    run: u64,
    buffer: Buffer,
    words: PatternWords,
    checked: bool,
}

impl PatternGenerator {
    /// For records of so many bytes at most; `checked` if a [`PatternChecker`] will compare them.
    pub fn new(run: u64, origin: Origin, record: usize, checked: bool) -> PatternGenerator {
        let words = origin.words(run);
        let mut buffer = Buffer::zeroed(record);
        Rng::new(words.0).fill(&mut buffer);
        PatternGenerator {
            run,
            buffer,
            words,
            checked,
        }
    }

    /// The next records are of another origin.
    pub fn turn_to(&mut self, origin: Origin) {
        self.words = origin.words(self.run);
    }

    /// The record at the offset.
    pub fn record(&mut self, offset: u64, length: usize) -> &[u8] {
        let bytes = &mut self.buffer[..length];
        match self.checked {
            true => self.words.fill(bytes, offset),
            false => mark(bytes, self.words.0, offset),
        }
        bytes
    }
}

/// Compares what was read with what was written by a checked [`PatternGenerator`].
pub struct PatternChecker {
    run: u64,
    /// Other origins that wrong words may be of: an error names the one that matches.
    others: Vec<Origin>,
    expected: Vec<u8>,
}

impl PatternChecker {
    pub fn new(run: u64, others: Vec<Origin>) -> PatternChecker {
        PatternChecker {
            run,
            others,
            expected: Vec::new(),
        }
    }

    /// Whether the bytes found at the offset are those that `due` wrote there.
    pub fn compare(
        &mut self,
        path: &Path,
        offset: u64,
        found: &[u8],
        due: Origin,
    ) -> SuiteResult<()> {
        self.expected.resize(found.len(), 0);
        due.words(self.run).fill(&mut self.expected, offset);
        if found == self.expected {
            return Ok(());
        }
        let mut at = 0;
        loop {
            let here = offset + at as u64;
            let end = (at + first_word(here, u64::MAX)).min(found.len());
            if found[at..end] != self.expected[at..end] {
                return Err(self.wrong(path, here, &self.expected[at..end], &found[at..end], due));
            }
            at = end;
        }
    }

    fn wrong(
        &self,
        path: &Path,
        at: u64,
        expected: &[u8],
        found: &[u8],
        due: Origin,
    ) -> SuiteError {
        let whose = match self.whose(at, found) {
            Some(origin) => format!("which {origin} wrote"),
            None if found.iter().all(|byte| *byte == 0) => "as if never written".into(),
            None => "which nobody wrote there in this run".into(),
        };
        SuiteError::failed(format!(
            "{}: wrong data at offset {at}: expected {} of {due}, found {}, {whose}",
            path.display(),
            hex(expected),
            hex(found),
        ))
    }

    fn whose(&self, at: u64, found: &[u8]) -> Option<Origin> {
        // Shorter pieces could be anybody's by chance.
        if found.len() < 4 {
            return None;
        }
        let mut theirs = [0; WORD as usize];
        self.others.iter().copied().find(|origin| {
            origin.words(self.run).fill(&mut theirs[..found.len()], at);
            theirs[..found.len()] == *found
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_at_an_offset_do_not_depend_on_where_a_record_starts() {
        let words = PatternWords::keyed(&[1, 2]);
        let mut whole = [0; 64];
        words.fill(&mut whole, 0);
        for (start, end) in [(0, 64), (3, 5), (3, 40), (8, 9), (17, 64), (5, 5)] {
            let mut part = vec![0; end - start];
            words.fill(&mut part, start as u64);
            assert_eq!(part, whole[start..end], "{start}..{end}");
        }
    }

    #[test]
    fn marked_pieces_differ() {
        let mut bytes = vec![7; 3 * PIECE];
        mark(&mut bytes, 1, 0);
        assert_ne!(bytes[..8], bytes[PIECE..PIECE + 8]);
        assert_ne!(bytes[..8], bytes[2 * PIECE..2 * PIECE + 8]);
    }

    #[test]
    fn a_wrong_word_says_where_it_is_and_whose() {
        let [due, other] = [0, 1].map(|writer| Origin {
            file: 3,
            writer,
            pass: 1,
        });
        let mut checker = PatternChecker::new(9, vec![due, other]);
        let right = PatternGenerator::new(9, due, 40, true)
            .record(100, 40)
            .to_vec();
        let mut said = |found: &[u8]| {
            checker
                .compare(Path::new("f"), 100, found, due)
                .map_err(|error| error.to_string())
        };
        assert_eq!(said(&right), Ok(()));

        let mut lost = right.clone();
        lost[12..20]
            .copy_from_slice(&PatternGenerator::new(9, other, 40, true).record(100, 40)[12..20]);
        let lost = said(&lost).unwrap_err();
        assert!(
            lost.starts_with("f: wrong data at offset 112: expected "),
            "{lost}"
        );
        assert!(lost.contains(" of writer 0 in pass 1, found "), "{lost}");
        assert!(lost.ends_with("which writer 1 in pass 1 wrote"), "{lost}");

        let mut hole = right.clone();
        hole[4..12].fill(0);
        assert!(
            said(&hole)
                .unwrap_err()
                .ends_with("0000000000000000, as if never written")
        );

        let mut foreign = right;
        foreign[39] ^= 1;
        let foreign = said(&foreign).unwrap_err();
        assert!(
            foreign.contains("at offset 136") && foreign.ends_with("in this run"),
            "{foreign}"
        );
    }
}
