//! The flags of matrix.

use clap::{Args, ValueEnum};

use super::tests::Test;
use crate::common_flags::CommonFlags;
use crate::error::SuiteResult;
use crate::size::{CALL_MAX, Size, parse_positive};
use crate::workload::{has_duplicates, usage_error};

/// Iozone's tests for every record size and file size
#[derive(Args, Clone, Debug)]
pub struct Matrix {
    /// File sizes
    #[arg(short, long, value_name = "SIZE,…", value_delimiter = ',', default_value = "1M,4M,16M",
          value_parser = parse_positive)]
    pub size: Vec<Size>,
    /// Record sizes; those larger than a file are left out for it
    #[arg(short = 'b', long, value_name = "SIZE,…", value_delimiter = ',', default_value = "4K,16K,64K,256K,1M",
          value_parser = parse_positive)]
    pub record: Vec<Size>,
    /// Tests besides write, always in iozone's order [default: all]
    #[arg(
        short = 'T',
        long,
        value_enum,
        value_delimiter = ',',
        value_name = "TEST,…"
    )]
    pub tests: Vec<Test>,
    /// Workers at once, each on a file of its own
    #[arg(short = 'n', long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub workers: u16,
    /// fsync each file that was written before it is closed, within the time measured (iozone's -e)
    #[arg(long)]
    pub sync: bool,
    /// Open with O_DIRECT (iozone's -I); not with the tests that have a buffer
    #[arg(short = 'I', long)]
    pub direct: bool,
    /// Decides the random order
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,
    #[command(flatten)]
    pub common: CommonFlags,
}

impl Matrix {
    pub fn wanted(&self) -> Vec<Test> {
        let wants = |test: &Test| match self.tests.is_empty() {
            true => !(self.direct && test.buffered()),
            // The others need the file.
            false => *test == Test::Write || self.tests.contains(test),
        };
        Test::value_variants()
            .iter()
            .copied()
            .filter(wants)
            .collect()
    }

    /// Pairs of file size and record size.
    pub fn pairs(&self) -> impl Iterator<Item = (Size, Size)> {
        self.size.iter().flat_map(|size| {
            let records = self.record.iter().filter(|record| *record <= size);
            records.map(|record| (*size, *record))
        })
    }

    /// The files, and the records of others that are rewritten.
    pub fn room(&self) -> u64 {
        let most = self
            .pairs()
            .map(|(size, record)| size.0.saturating_add(record.0))
            .max();
        most.unwrap_or(0).saturating_mul(u64::from(self.workers))
    }

    /// Whether the flags go together.
    pub(super) fn check_flags(&self) -> SuiteResult<()> {
        if has_duplicates(&self.size) || has_duplicates(&self.record) {
            return usage_error("-s and -b take each size once: a figure's name says both");
        }
        if self.pairs().next().is_none() {
            return usage_error("every record size of -b is larger than every file size of -s");
        }
        if self.direct && self.tests.iter().any(|test| test.buffered()) {
            return usage_error(
                "--direct goes around buffers, and fwrite, frewrite, fread and freread are about one",
            );
        }
        for record in &self.record {
            if record.0 > CALL_MAX {
                return usage_error(format!(
                    "-b {record} is more than one system call moves: at most 1G"
                ));
            }
            if self.direct && !record.0.is_multiple_of(512) {
                return usage_error(format!(
                    "--direct moves whole sectors: -b {record} must be a multiple of 512"
                ));
            }
        }
        Ok(())
    }
}
