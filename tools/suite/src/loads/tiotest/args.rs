//! The flags of tiotest.

use clap::Args;

use crate::common_flags::CommonFlags;
use crate::error::SuiteResult;
use crate::size::{CALL_MAX, Size, parse_positive};
use crate::workload::usage_error;

/// Threads at once, each on a file of its own: write, random write, read, random read
#[derive(Args, Clone, Debug)]
pub struct Tiotest {
    /// Threads, all in one process unless --np says otherwise
    #[arg(short = 't', long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub threads: u16,
    /// Bytes of each thread's file
    #[arg(short = 'f', long, value_name = "SIZE", default_value = "16M", value_parser = parse_positive)]
    pub size: Size,
    /// Bytes of each operation
    #[arg(short = 'b', long, value_name = "SIZE", default_value = "4K", value_parser = parse_positive)]
    pub block: Size,
    /// Operations of each thread in a random test
    #[arg(short = 'r', long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    pub random: u64,
    /// Map the files into memory instead of calling read and write
    #[arg(short = 'm', long, conflicts_with = "direct")]
    pub mmap: bool,
    /// Open with O_DIRECT
    #[arg(short = 'I', long)]
    pub direct: bool,
    /// fsync each file that was written before it is closed, within the time measured
    #[arg(long)]
    pub sync: bool,
    /// Decides where the random tests go
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,
    #[command(flatten)]
    pub common: CommonFlags,
}

impl Tiotest {
    /// Whole blocks of a file.
    pub fn blocks(&self) -> u64 {
        self.size.0 / self.block.0
    }

    pub fn total(&self) -> u64 {
        self.size.0.saturating_mul(u64::from(self.threads))
    }

    /// Whether the flags go together.
    pub(super) fn check_flags(&self) -> SuiteResult<()> {
        if self.block.0 > self.size.0.min(CALL_MAX) {
            return usage_error(format!(
                "-b {} is more than the file of -f {} has, or than one system call moves (1G)",
                self.block, self.size
            ));
        }
        if self.direct && !self.block.0.is_multiple_of(512) {
            return usage_error(format!(
                "--direct moves whole sectors: -b {} must be a multiple of 512",
                self.block
            ));
        }
        Ok(())
    }
}
