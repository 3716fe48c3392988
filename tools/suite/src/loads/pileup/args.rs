//! The flags of pileup.

use clap::Args;

use crate::common_flags::CommonFlags;
use crate::error::SuiteResult;
use crate::size::{Size, parse_positive};
use crate::workload::usage_error;

/// A growing number of readers, each reading 50 to 60 KB at random places of a large file
#[derive(Args, Clone, Debug)]
pub struct Pileup {
    /// Files that are prepared
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..))]
    pub files: u16,
    /// Bytes of each file
    #[arg(short = 'f', long, value_name = "SIZE", default_value = "16M", value_parser = parse_positive)]
    pub size: Size,
    /// The ramp: numbers of readers, one after the other
    #[arg(short = 'n', long, value_name = "N,…", value_delimiter = ',', default_value = "1,2,4,8",
          value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub readers: Vec<u16>,
    /// Seconds for each number of readers
    #[arg(short = 't', long, value_name = "SECONDS", default_value_t = 10.0)]
    pub seconds: f64,
    /// Bytes of the smallest read
    #[arg(long, value_name = "SIZE", default_value = "50K", value_parser = parse_positive)]
    pub least: Size,
    /// Bytes of the largest read
    #[arg(long, value_name = "SIZE", default_value = "60K", value_parser = parse_positive)]
    pub most: Size,
    /// A reader chooses another file after so many reads [default: it stays with its file]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub stay: Option<u64>,
    /// Before each number of readers, let the memory of their hosts forget the files (servers may still remember them)
    #[arg(long)]
    pub cold: bool,
    /// Decides what is read where
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,
    #[command(flatten)]
    pub common: CommonFlags,
}

impl Pileup {
    pub fn total(&self) -> u64 {
        self.size.0.saturating_mul(u64::from(self.files))
    }

    /// Whether the flags go together.
    pub(super) fn check_flags(&self) -> SuiteResult<()> {
        if self.least > self.most || self.most > self.size {
            return usage_error(format!(
                "a read has --least {} to --most {} bytes, and a file -f {}: they must not shrink in this order",
                self.least, self.most, self.size
            ));
        }
        if !(self.seconds > 0.0 && self.seconds <= 1e6) {
            return usage_error("-t takes a number of seconds above 0");
        }
        if !self.readers.is_sorted_by(|a, b| a < b) {
            return usage_error("-n is a ramp: its numbers must grow");
        }
        Ok(())
    }
}
