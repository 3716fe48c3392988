//! The flags of reliability.

use clap::Args;

use crate::common_flags::CommonFlags;
use crate::error::SuiteResult;
use crate::size::{Size, parse_positive};
use crate::workload::usage_error;

/// Load with checked data while a fault command runs: what was lost of what was acknowledged, and how long all stood still
#[derive(Args, Clone, Debug)]
pub struct Reliability {
    /// A shell's line that makes the fault; it knows the run's directory as $DIR
    #[arg(long, value_name = "COMMAND")]
    pub fault: String,
    /// When it is run, in seconds from the start [default: a quarter of -t]
    #[arg(long, value_name = "SECONDS")]
    pub at: Option<f64>,
    /// A shell's line that repairs what the fault broke; also run if the run ends early
    #[arg(long, value_name = "COMMAND")]
    pub repair: Option<String>,
    /// When that is run [default: half of -t]
    #[arg(long, value_name = "SECONDS", requires = "repair")]
    pub repair_at: Option<f64>,
    /// How long the load lasts, in seconds
    #[arg(short = 't', long, value_name = "SECONDS", default_value_t = 20.0)]
    pub seconds: f64,
    /// How long commands, reading back, and a call that hangs are waited for after that, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0)]
    pub patience: f64,
    /// Workers, each writing a file of its own, round and round
    #[arg(short = 'n', long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub workers: u16,
    /// Bytes of each file
    #[arg(short = 'f', long, value_name = "SIZE", default_value = "16M", value_parser = parse_positive)]
    pub size: Size,
    /// Record size: bytes of each write
    #[arg(short = 'b', long, value_name = "SIZE", default_value = "64K", value_parser = parse_positive)]
    pub record: Size,
    /// Records between two fsync: what one acknowledges
    #[arg(short = 's', long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub sync_every: u64,
    #[command(flatten)]
    pub common: CommonFlags,
}

/// Every worker has a buffer of this size.
const RECORD_MAX: u64 = 1 << 28;

/// Of each file: what is known of every record is told to all processes.
const RECORDS_MAX: u64 = 1 << 20;

impl Reliability {
    pub fn records(&self) -> usize {
        (self.size.0 / self.record.0) as usize
    }

    pub fn fault_at(&self) -> f64 {
        self.at.unwrap_or(self.seconds / 4.0)
    }

    pub fn repair_at(&self) -> f64 {
        self.repair_at.unwrap_or(self.seconds / 2.0)
    }

    pub fn total(&self) -> u64 {
        self.size.0.saturating_mul(u64::from(self.workers))
    }

    /// Whether the flags go together.
    pub(super) fn check_flags(&self) -> SuiteResult<()> {
        if !(self.seconds > 0.0 && self.seconds <= 1e5) {
            return usage_error("-t takes a number of seconds above 0");
        }
        if !(self.patience >= 0.0 && self.patience <= 1e5) {
            return usage_error("--patience takes a number of seconds, 0 or more");
        }
        for (flag, at) in [("--at", self.fault_at()), ("--repair-at", self.repair_at())] {
            if !(at >= 0.0 && at < self.seconds) {
                return usage_error(format!(
                    "{flag} must lie within the {} s of -t",
                    self.seconds
                ));
            }
        }
        if self.record.0 > RECORD_MAX.min(self.size.0) {
            return usage_error(format!(
                "-b {} is more than the file of -f {} has, or than 256M",
                self.record, self.size
            ));
        }
        if self.size.0 / self.record.0 > RECORDS_MAX {
            return usage_error(format!(
                "-f {} has more than {RECORDS_MAX} records of -b {}",
                self.size, self.record
            ));
        }
        Ok(())
    }
}
