//! The five tests.

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum Test {
    SeqWrite,
    ReadModifyWrite,
    RandomWrite,
    SeqRead,
    RandomRead,
}

impl Test {
    pub const ALL: [Test; 5] = [
        Test::SeqWrite,
        Test::ReadModifyWrite,
        Test::RandomWrite,
        Test::SeqRead,
        Test::RandomRead,
    ];

    /// Its number, for `-k`.
    pub fn number(self) -> usize {
        self as usize
    }

    pub fn name(self) -> &'static str {
        match self {
            Test::SeqWrite => "Seq_Write",
            Test::ReadModifyWrite => "RMW",
            Test::RandomWrite => "Rand_Write",
            Test::SeqRead => "Seq_Read",
            Test::RandomRead => "Rand_Read",
        }
    }

    pub fn is_random(self) -> bool {
        matches!(self, Test::RandomWrite | Test::RandomRead)
    }

    pub fn writes(self) -> bool {
        !matches!(self, Test::SeqRead | Test::RandomRead)
    }

    /// Records moved by one operation: a record that is modified is read and written.
    pub fn moves(self) -> u64 {
        if self == Test::ReadModifyWrite { 2 } else { 1 }
    }
}
