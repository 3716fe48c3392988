//! The flags that the workloads of this crate have in common.

use std::path::PathBuf;

use clap::Args;

use crate::output::Destination;
use crate::workload::parse_np;

#[derive(Args, Clone, Debug)]
pub struct CommonFlags {
    /// Directory to work in, in a new one below it that is removed at the end
    #[arg(short, long, value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,
    /// Start so many processes on this host; workers are dealt to them in turn [default: one for each worker that is a process]
    #[arg(long, value_name = "N", value_parser = parse_np)]
    pub np: Option<usize>,
    /// Check what was written (rates then include making and comparing these data)
    #[arg(long)]
    pub check: bool,
    /// Keep what the run made
    #[arg(short = 'K', long)]
    pub keep: bool,
    /// Write the report to BASE_YYYYMMDD_HHMMSS (UTC) instead of standard output
    #[arg(short = 'N', long, value_name = "BASE")]
    pub name: Option<PathBuf>,
    /// Also write the report to this file as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

impl CommonFlags {
    pub fn destination(&self) -> Destination<'_> {
        Destination {
            base: self.name.as_deref(),
            json: self.json.as_deref(),
        }
    }
}
