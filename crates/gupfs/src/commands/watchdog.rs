//! `gupfs guardian`: the mount watchdog, a small process that aborts the mount when the serving process dies or freezes.
//!
//! `gupfs up` starts it with a pipe as standard input and the connection's `abort` file as standard output; `gupfs_fuse::watchdog` describes
//! what it waits for. Users do not start it: neither help nor completions mention it.

use crate::exit::{CliResult, Exit, OrCliError};
use crate::node::WATCHDOG_COMMAND;
use clap::Parser;
use gupfs_fuse::connection::{ConnectionControl, ConnectionId};
use gupfs_fuse::watchdog::{WatchdogOptions, WatchdogOutcome, watch};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::Duration;

/// Watches a serving process; started by `gupfs up`
#[derive(Parser)]
pub struct WatchdogCommand {
    #[arg(long)]
    connection: u32,
    #[arg(long)]
    detach: PathBuf,
    /// After so many seconds without a heartbeat the process counts as frozen
    #[arg(long)]
    silence: u64,
}

impl WatchdogCommand {
    /// Some if this process was started as a mount watchdog.
    pub fn from_args() -> Option<WatchdogCommand> {
        let mut args = std::env::args_os().skip(1).peekable();
        let is_watchdog = args.peek().is_some_and(|first| first == WATCHDOG_COMMAND);
        is_watchdog.then(|| WatchdogCommand::parse_from(args))
    }

    /// `NotRunning` if the watched process ended or froze, so that the watchdog aborted its mount.
    pub fn run(self) -> CliResult<Exit> {
        crate::logging::start(&crate::config::Log::default());
        // A session of its own: Ctrl-C and a closed terminal are meant for the watched process, whose end makes the watchdog exit.
        // setsid(2) fails only for the leader of a process group, if a user has started it by hand.
        let _ = rustix::process::setsid();
        let abort = std::io::stdout().as_fd().try_clone_to_owned();
        let abort = abort.or_cli_error(|| "standard output is closed".into())?;
        let options = WatchdogOptions {
            control: &ConnectionControl::from_abort_file(ConnectionId(self.connection), abort),
            detach: Some(&self.detach),
            heartbeat_timeout: Some(Duration::from_secs(self.silence)),
        };
        let outcome = watch(std::io::stdin(), options)
            .or_cli_error(|| format!("cannot watch connection {}", self.connection))?;
        Ok(match outcome {
            WatchdogOutcome::CleanEnd => Exit::Fine,
            WatchdogOutcome::ServerDied | WatchdogOutcome::HeartbeatTimeout => Exit::NotRunning,
        })
    }
}
