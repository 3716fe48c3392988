//! The flags of bonnie.

use clap::Args;

use crate::common_flags::CommonFlags;
use crate::error::SuiteResult;
use crate::size::{CALL_MAX, Size, parse_positive};
use crate::workload::usage_error;

/// One file: written and read byte by byte and in chunks, rewritten, and sought in by several processes; with CPU times
#[derive(Args, Clone, Debug)]
pub struct Bonnie {
    /// Bytes of the file
    #[arg(short = 'f', long, value_name = "SIZE", default_value = "100M", value_parser = parse_positive)]
    pub size: Size,
    /// Bytes of each read or write in chunks
    #[arg(short = 'b', long, value_name = "SIZE", default_value = "16K", value_parser = parse_positive)]
    pub chunk: Size,
    /// Processes that seek
    #[arg(short = 'n', long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub seekers: u16,
    /// Seeks of each of them
    #[arg(short = 's', long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    pub seeks: u64,
    /// fsync the file that was written before it is closed, within the time measured
    #[arg(long)]
    pub sync: bool,
    /// Decides where is sought
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,
    #[command(flatten)]
    pub common: CommonFlags,
}

impl Bonnie {
    /// Whole chunks of the file.
    pub fn chunks(&self) -> u64 {
        self.size.0 / self.chunk.0
    }

    /// Whether the flags go together.
    pub(super) fn check_flags(&self) -> SuiteResult<()> {
        if self.chunk.0 > self.size.0.min(CALL_MAX) {
            return usage_error(format!(
                "-b {} is more than the file of -f {} has, or than one system call moves (1G)",
                self.chunk, self.size
            ));
        }
        if self.chunk.0 < 8 {
            return usage_error("-b must be 8 or more: the rewriting changes a word of each chunk");
        }
        Ok(())
    }
}
