//! `gupfs guardian`: the small process beside a mount that cuts it when the serving process dies or freezes.
//!
//! `gupfs up` starts it with a pipe as standard input and the connection's `abort` file as standard output; what it waits for stands in `gupfs_fuse::guardian`. It is no
//! command for people: neither help nor completions tell of it.

use crate::exit::{Exit, OrCliError, CliResult};
use clap::Parser;
use gupfs_fuse::connection::{ConnectionId, ConnectionControl};
use gupfs_fuse::watchdog::{WatchdogOptions, watch};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::Duration;

/// The first argument of such a process.
pub const NAME: &str = "guardian";

/// Watches a serving process; started by `gupfs up`
#[derive(Parser)]
pub struct WatchdogCommand {
    #[arg(long)]
    connection: u32,
    #[arg(long)]
    detach: PathBuf,
    /// Without a sign of life for so many seconds the process counts as gone
    #[arg(long)]
    silence: u64,
}

impl WatchdogCommand {
    /// If this process was started as one.
    pub fn from_args() -> Option<WatchdogCommand> {
        let mut args = std::env::args_os().skip(1).peekable();
        let meant = args.peek().is_some_and(|first| first == NAME);
        meant.then(|| WatchdogCommand::parse_from(args))
    }

    pub fn run(self) -> CliResult<Exit> {
        crate::logging::start(&crate::config::Log::default());
        // A session of its own: Ctrl-C and a closed terminal are meant for the process that is watched, and its end
        // is what ends us. It fails only for the leader of a group, which somebody has started by hand.
        let _ = rustix::process::setsid();
        let abort = std::io::stdout().as_fd().try_clone_to_owned();
        let abort = abort.or_trouble(|| "standard output is closed".into())?;
        let orders = WatchdogOptions {
            control: &ConnectionControl::from_abort_file(ConnectionId(self.connection), abort),
            detach: Some(&self.detach),
            heartbeat_timeout: Some(Duration::from_secs(self.silence)),
        };
        watch(std::io::stdin(), orders)
            .or_trouble(|| format!("cannot watch connection {}", self.connection))?;
        Ok(Exit::Fine)
    }
}
