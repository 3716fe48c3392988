//! The flags of mdmark.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

use super::tree::Limits;
use crate::common_flags::CommonFlags;
use crate::error::SuiteResult;
use crate::size::{Size, parse_positive};
use crate::workload::usage_error;

/// Metadata operations on a directory tree that resembles a real one: scan, update, statistics, mixed operations, delete
///
/// First look at a real tree, then grow such a one elsewhere; without a profile, a made-up home directory is grown. The tree is the
/// same for the same profile, limits and seed. Exit status: 0 a whole report was written, 1 something failed, 2 the flags are
/// wrong. For example: mdmark --scan /home --profile home.json; mdmark --profile home.json --np 8 -d /mnt/x
#[derive(Parser, Clone, Debug)]
#[command(name = "mdmark", version)]
pub struct Mdmark {
    /// Only look at this tree, and write its densities to --profile
    #[arg(long, value_name = "DIR", requires = "profile")]
    pub scan: Option<PathBuf>,
    /// Densities to grow the tree from
    #[arg(short = 'p', long, value_name = "FILE")]
    pub profile: Option<PathBuf>,
    /// Files and directories to make
    #[arg(short = 'e', long, value_name = "N", default_value_t = 10_000,
          value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub entries: u64,
    /// Levels of directories at most
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u8).range(1..=64))]
    pub depth: u8,
    /// Bytes of a file at most: larger ones are made as small
    #[arg(long, value_name = "SIZE", default_value = "64K", value_parser = parse_positive)]
    pub largest: Size,
    /// Decides the tree, and what is mixed
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,
    /// What is done once the tree is made, always in this order
    #[arg(
        short = 'T',
        long,
        value_enum,
        value_delimiter = ',',
        value_name = "TEST,…",
        default_value = "scan,stats,update,mix,delete"
    )]
    pub tests: Vec<Test>,
    /// Seconds of the mixed operations
    #[arg(short = 't', long, value_name = "SECONDS", default_value_t = 10.0)]
    pub seconds: f64,
    #[command(flatten)]
    pub common: CommonFlags,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Test {
    /// Walk the tree and stat each entry
    Scan,
    /// Walk the tree and count entries and subdirectories
    Stats,
    /// Walk the tree, stat each entry and set its times
    Update,
    /// All processes wander through the tree and mix operations
    Mix,
    /// Walk the tree, stat each entry and remove it
    Delete,
}

impl Mdmark {
    pub fn limits(&self) -> Limits {
        Limits {
            entries: self.entries,
            depth: usize::from(self.depth),
            largest: self.largest.0,
        }
    }

    pub fn wants(&self, test: Test) -> bool {
        self.tests.contains(&test)
    }

    /// Whether the flags go together.
    pub(super) fn check_flags(&self) -> SuiteResult<()> {
        if !(self.seconds > 0.0 && self.seconds <= 1e6) {
            return usage_error("-t takes a number of seconds above 0");
        }
        Ok(())
    }
}
