//! Iozone's thirteen tests, in its order.

use clap::ValueEnum;

use crate::rng::Rng;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Test {
    /// A new file, record after record
    Write,
    /// The same file again
    Rewrite,
    /// Record after record
    Read,
    /// The same again
    Reread,
    /// Each record once, in random order
    RandomRead,
    /// Each record once, in random order
    RandomWrite,
    /// From the last record to the first
    BackwardRead,
    /// The first record of another file, over and over
    RecordRewrite,
    /// Every 17th record, round and round until all are read
    StridedRead,
    /// As write, through a buffer as stdio has
    Fwrite,
    /// As rewrite, through such a buffer
    Frewrite,
    /// As read, through such a buffer
    Fread,
    /// As reread, through such a buffer
    Freread,
}

/// Iozone's default.
const STRIDE: u64 = 17;

impl Test {
    pub fn name(self) -> &'static str {
        match self {
            Test::Write => "Write",
            Test::Rewrite => "Rewrite",
            Test::Read => "Read",
            Test::Reread => "Reread",
            Test::RandomRead => "Random_read",
            Test::RandomWrite => "Random_write",
            Test::BackwardRead => "Backward_read",
            Test::RecordRewrite => "Record_rewrite",
            Test::StridedRead => "Strided_read",
            Test::Fwrite => "Fwrite",
            Test::Frewrite => "Frewrite",
            Test::Fread => "Fread",
            Test::Freread => "Freread",
        }
    }

    pub fn writes(self) -> bool {
        matches!(
            self,
            Test::Write
                | Test::Rewrite
                | Test::RandomWrite
                | Test::RecordRewrite
                | Test::Fwrite
                | Test::Frewrite
        )
    }

    /// Whether it begins with an empty file.
    pub fn makes(self) -> bool {
        matches!(self, Test::Write | Test::RecordRewrite | Test::Fwrite)
    }

    /// Whether it goes through a buffer of the program.
    pub fn buffered(self) -> bool {
        self >= Test::Fwrite
    }

    /// The records that it visits, by number, in its order.
    pub fn visits(self, records: u64, seed: u64) -> Vec<u64> {
        match self {
            Test::RandomRead | Test::RandomWrite => {
                let mut order: Vec<u64> = (0..records).collect();
                let mut rng = Rng::new(seed);
                for last in (1..order.len()).rev() {
                    order.swap(last, rng.below(last as u64 + 1) as usize);
                }
                order
            }
            Test::BackwardRead => (0..records).rev().collect(),
            Test::StridedRead => (0..STRIDE)
                .flat_map(|start| (start..records).step_by(STRIDE as usize))
                .collect(),
            Test::RecordRewrite => vec![0; records as usize],
            _ => (0..records).collect(),
        }
    }
}

#[test]
fn every_record_is_visited_once_but_where_one_is_rewritten() {
    for test in Test::value_variants() {
        let mut visited = test.visits(40, 1);
        match test {
            Test::RecordRewrite => assert_eq!(visited, [0; 40]),
            _ => {
                visited.sort();
                assert_eq!(visited, (0..40).collect::<Vec<_>>(), "{test:?}");
            }
        }
    }
    assert_eq!(Test::StridedRead.visits(40, 1)[..5], [0, 17, 34, 1, 18]);
    assert_eq!(Test::BackwardRead.visits(3, 1), [2, 1, 0]);
    assert_ne!(
        Test::RandomRead.visits(40, 1),
        Test::RandomRead.visits(40, 2)
    );
}
