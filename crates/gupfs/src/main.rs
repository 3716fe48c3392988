//! # gupfs: the one binary
//!
//! Owns   the command line, the configuration, the directory of a store, and the composition of the crates into a process.
//! Never  knows what a file system operation means.
//! Enter  at `commands::up` for all roles in one process; each other command is one file beside it.

// The binary is not simulated: it uses the real platform.

mod amount;
mod check;
mod cli;
mod cluster;
mod commands;
mod config;
mod control;
mod daemon;
mod events;
mod exit;
mod jobs;
mod kernel;
mod logging;
mod metrics;
mod mountpoint;
mod node;
mod store_dir;
mod stores;

use clap::Parser;
use commands::mount::helper::MountHelper;
use commands::watchdog::WatchdogCommand;
use exit::Exit;
use kernel::KernelProbesProcess;
use rustix::process::Resource;
use std::process::ExitCode;

/// Raises the limit of open files to the hard limit. A store keeps many files open; the usual soft limit exists for programs that use
/// select(2). If the hard limit is too low, `gupfs doctor` reports the number that is needed.
fn raise_open_files() {
    let mut limit = rustix::process::getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = rustix::process::setrlimit(Resource::Nofile, limit);
}

fn main() -> ExitCode {
    // First, so that it holds for every task and thread of every role, also in the mount watchdog's process.
    gupfs_platform::panics::exit_on_panic(Exit::Panicked as i32);
    raise_open_files();
    let (name, outcome) = if let Some(watchdog) = WatchdogCommand::from_args() {
        (node::WATCHDOG_COMMAND, watchdog.run())
    } else if let Some(helper) = MountHelper::from_args() {
        return commands::mount::helper::end(helper.run());
    } else if let Some(facts) = KernelProbesProcess::from_args() {
        (kernel::NAME, facts.run())
    } else {
        let command = cli::Cli::parse().command;
        (command.name(), command.run())
    };
    match outcome {
        Ok(exit) => exit.into(),
        Err(error) => {
            eprintln!("gupfs {name}: {error}");
            error.exit.into()
        }
    }
}
