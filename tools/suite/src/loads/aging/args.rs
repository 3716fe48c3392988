//! The flags of aging.

use std::str::FromStr;

use clap::Args;

use crate::common_flags::CommonFlags;
use crate::error::SuiteResult;
use crate::size::{CALL_MAX, Size, parse_positive};
use crate::workload::usage_error;

/// Speed as the file system fills and fragments: at each level files are removed and written anew, then large ones are measured
#[derive(Args, Clone, Debug)]
pub struct Aging {
    /// What is filled: bytes, or a share of the free space such as 90%
    #[arg(long, value_name = "SIZE|N%", default_value = "512M")]
    pub room: FillLimit,
    /// Levels to fill to, in percent of the room
    #[arg(short, long, value_name = "N,…", value_delimiter = ',', default_value = "25,50,75,90",
          value_parser = clap::value_parser!(u8).range(1..=100))]
    pub levels: Vec<u8>,
    /// How often all bytes are removed and written anew at each level
    #[arg(long, value_name = "TIMES", default_value_t = 1.0)]
    pub churn: f64,
    /// Smallest file that fills
    #[arg(long, value_name = "SIZE", default_value = "4K", value_parser = parse_positive)]
    pub least: Size,
    /// Largest file that fills
    #[arg(long, value_name = "SIZE", default_value = "4M", value_parser = parse_positive)]
    pub most: Size,
    /// Workers, each with a directory
    #[arg(short = 'n', long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub workers: u16,
    /// Bytes of the large file that each worker is measured with
    #[arg(short = 'f', long, value_name = "SIZE", default_value = "16M", value_parser = parse_positive)]
    pub size: Size,
    /// Record size: bytes of each read or write
    #[arg(short = 'b', long, value_name = "SIZE", default_value = "1M", value_parser = parse_positive)]
    pub record: Size,
    /// How often the large files are made, written and read at each level; the median counts
    #[arg(short = 'r', long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub runs: u16,
    /// Decides the sizes, and which files are removed
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,
    #[command(flatten)]
    pub common: CommonFlags,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FillLimit {
    Bytes(u64),
    /// Of what is free.
    Percent(u8),
}

impl FromStr for FillLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<FillLimit, String> {
        match text.strip_suffix('%').map(str::parse) {
            Some(Ok(percent @ 1..=100)) => Ok(FillLimit::Percent(percent)),
            Some(_) => Err("write 1% to 100% of the free space, or a size".into()),
            None => parse_positive(text).map(|size| FillLimit::Bytes(size.0)),
        }
    }
}

impl Aging {
    /// Bytes of the large files of all workers.
    pub fn probes(&self) -> u64 {
        self.size.0.saturating_mul(u64::from(self.workers))
    }

    /// Whether the flags go together.
    pub(super) fn check_flags(&self) -> SuiteResult<()> {
        if !self.levels.is_sorted_by(|a, b| a < b) {
            return usage_error(
                "-l must grow: a file system that is filled is not emptied in between",
            );
        }
        if !(self.churn >= 0.0 && self.churn <= 1e4) {
            return usage_error("--churn takes a number of times, 0 or more");
        }
        if self.least > self.most {
            return usage_error("sizes must not shrink from --least to --most");
        }
        if self.record.0 > CALL_MAX.min(self.size.0) {
            return usage_error(format!(
                "-b {} is more than the file of -f {} has, or than one system call moves (1G)",
                self.record, self.size
            ));
        }
        Ok(())
    }
}
