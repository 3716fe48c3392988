//! `gupfs stop`: stops a running process, as Ctrl-C does.

use crate::control::{ControlRequest, ControlTarget};
use crate::exit::{CliError, CliResult, Exit};
use crate::store_dir::Lock;
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

/// How often the command checks whether the process has exited.
const STEP: Duration = Duration::from_millis(50);

/// Unmount and stop a running gupfs; all data is kept
#[derive(Args)]
#[command(after_help = "Examples:
  gupfs stop /srv/gupfs
  gupfs stop /mnt/gupfs --force

Exit codes: 0 stopped · 1 it did not stop, for example because the mount is in use · 2 not a gupfs store or mount · \
3 it was not running")]
pub struct Stop {
    /// The store's directory or its mount point [default: the only gupfs mount of this machine]
    path: Option<PathBuf>,
    /// Stop also while programs use the mount: their calls fail
    #[arg(long)]
    force: bool,
    /// How long to wait until the process exits, in seconds
    #[arg(long, default_value_t = 60, value_name = "SECONDS")]
    wait: u64,
}

impl Stop {
    pub fn run(self) -> CliResult<Exit> {
        let target = ControlTarget::find(self.path.as_deref())?;
        // The reply comes when it is unmounted; the process exits after that.
        let () = target.request(&ControlRequest::Stop { force: self.force })?;
        let dir = target.name();
        let mut left = Duration::from_secs(self.wait);
        while !has_ended(&target)? {
            if left.is_zero() {
                return Err(CliError::new(format!(
                    "'{dir}' is unmounted, but its process has not ended after {} seconds",
                    self.wait
                ))
                .todo("wait longer, or read the log of that process"));
            }
            std::thread::sleep(STEP);
            left = left.saturating_sub(STEP);
        }
        println!("'{dir}' is stopped.");
        Ok(Exit::Fine)
    }
}

/// A store's process releases the lock last; a mount without a store has only its control socket.
fn has_ended(target: &ControlTarget) -> CliResult<bool> {
    match target.store_dir() {
        Some(store_dir) => Ok(!Lock::is_taken(store_dir)?),
        None => {
            let reply: CliResult<serde_json::Value> = target.request(&ControlRequest::Status);
            Ok(reply.is_err_and(|error| error.exit == Exit::NotRunning))
        }
    }
}
