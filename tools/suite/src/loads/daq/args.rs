//! The flags of daq.

use clap::Args;

use crate::common_flags::CommonFlags;
use crate::error::SuiteResult;
use crate::size::{CALL_MAX, Size, parse_positive};
use crate::workload::usage_error;

/// A data buffer: writers leave files, readers read and remove each; influx and outflux in balance
#[derive(Args, Clone, Debug)]
pub struct Daq {
    /// Processes that write
    #[arg(short, long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=512))]
    pub writers: u16,
    /// Processes that read
    #[arg(short, long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=512))]
    pub readers: u16,
    /// Bytes of each file
    #[arg(short = 'f', long, value_name = "SIZE", default_value = "16M", value_parser = parse_positive)]
    pub size: Size,
    /// Record size: bytes of each read or write
    #[arg(short = 'b', long, value_name = "SIZE", default_value = "1M", value_parser = parse_positive)]
    pub record: Size,
    /// How long, in seconds; the first quarter is not counted
    #[arg(short = 't', long, value_name = "SECONDS", default_value_t = 20.0)]
    pub seconds: f64,
    /// Moderate the writers: MB/s of all of them together
    #[arg(long, value_name = "MB/S")]
    pub influx: Option<f64>,
    /// Files of each writer that may wait to be read; a writer that has left so many waits itself
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..))]
    pub ahead: u16,
    #[command(flatten)]
    pub common: CommonFlags,
}

impl Daq {
    pub fn workers(&self) -> usize {
        usize::from(self.writers) + usize::from(self.readers)
    }

    /// Seconds that are not counted: until files wait, or readers do.
    pub fn warm_up(&self) -> f64 {
        self.seconds / 4.0
    }

    /// Bytes that lie there at most: those that wait, and one of each writer that is being written.
    pub fn total(&self) -> u64 {
        let files = u64::from(self.writers) * (u64::from(self.ahead) + 1);
        files.saturating_mul(self.size.0)
    }

    /// Whether the flags go together.
    pub(super) fn check_flags(&self) -> SuiteResult<()> {
        if !(self.seconds > 0.0 && self.seconds <= 1e6) {
            return usage_error("-t takes a number of seconds above 0");
        }
        if self.influx.is_some_and(|rate| !(rate > 0.0 && rate <= 1e9)) {
            return usage_error("--influx takes a number of MB/s above 0");
        }
        if self.record.0 > CALL_MAX {
            return usage_error(format!(
                "-b {} is more than one system call moves: at most 1G",
                self.record
            ));
        }
        Ok(())
    }
}
