//! The flags of pioraw.

use clap::Parser;

use crate::common_flags::CommonFlags;
use crate::error::SuiteResult;
use crate::size::{CALL_MAX, Size, parse_positive};
use crate::workload::usage_error;

/// The most that processes write and read in a given time, each on a file of its own, for several block sizes
///
/// Start it with mpirun or srun (built with the feature mpi), or with --np for processes on this host. Exit status: 0 a whole
/// report was written, 1 something failed, 2 the flags are wrong. For example: pioraw --np 4 -f 256M -t 120 -b 4K,64K,1M -d /mnt/x
#[derive(Parser, Clone, Debug)]
#[command(name = "pioraw", version)]
pub struct Pioraw {
    /// Bytes of each process's file; whoever reaches its end starts over
    #[arg(short = 'f', long, value_name = "SIZE", default_value = "256M", value_parser = parse_positive)]
    pub size: Size,
    /// Seconds of each measurement
    #[arg(short = 't', long, value_name = "SECONDS", default_value_t = 120.0)]
    pub seconds: f64,
    /// Block sizes, one after the other
    #[arg(short = 'b', long, value_name = "SIZE,…", value_delimiter = ',', default_value = "4K,16K,64K,256K,1M",
          value_parser = parse_positive)]
    pub block: Vec<Size>,
    /// Open with O_DIRECT
    #[arg(short = 'I', long)]
    pub direct: bool,
    #[command(flatten)]
    pub common: CommonFlags,
}

impl Pioraw {
    /// Whether the flags go together.
    pub(super) fn check_flags(&self) -> SuiteResult<()> {
        if !(self.seconds > 0.0 && self.seconds <= 1e6) {
            return usage_error("-t takes a number of seconds above 0");
        }
        for (index, block) in self.block.iter().enumerate() {
            if block.0 > self.size.0.min(CALL_MAX) {
                return usage_error(format!(
                    "-b {block} is more than the file of -f {} has, or than one system call moves (1G)",
                    self.size
                ));
            }
            if self.direct && !block.0.is_multiple_of(512) {
                return usage_error(format!(
                    "--direct moves whole sectors: -b {block} must be a multiple of 512"
                ));
            }
            if self.block[..index].contains(block) {
                return usage_error("-b takes each size once: a figure's name says it");
            }
        }
        Ok(())
    }
}
