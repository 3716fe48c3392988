//! `gupfs sync`: makes all acknowledged changes of the file system durable.

use crate::amount::show_time;
use crate::control::{ControlRequest, ControlTarget, Synced};
use crate::exit::{CliResult, Exit};
use clap::Args;
use gupfs_platform::Platform;
use std::path::PathBuf;
use std::time::Duration;

/// Write all changes so far to the disks, so that they survive a power loss
#[derive(Args)]
#[command(after_help = "Examples:
  gupfs sync
  gupfs sync /mnt/gupfs --json

Linux does not pass syncfs(2), which `sync -f` uses, on to file systems like this one; this command does its work. A \
single file is synced by fsync(2), for example with `sync FILE`.

Exit codes: 0 synced · 1 something could not be synced · 2 not a gupfs store or mount · 3 no process serves it")]
pub struct Sync {
    /// The store's directory or its mount point [default: the only gupfs mount of this machine]
    path: Option<PathBuf>,
    /// As one JSON object
    #[arg(long)]
    json: bool,
}

impl Sync {
    pub fn run(self) -> CliResult<Exit> {
        let target = ControlTarget::find(self.path.as_deref())?;
        let clock = Platform::real().clock;
        let begun = clock.boot();
        let synced: Synced = target.request(&ControlRequest::Sync)?;
        let took: Duration = clock.boot().since(begun);
        match self.json {
            true => println!(
                "{}",
                serde_json::json!({ "change": synced.change, "seconds": took.as_secs_f64() })
            ),
            false => println!(
                "synced in {}: everything up to change {}",
                show_time(took),
                synced.change
            ),
        }
        Ok(Exit::Fine)
    }
}
