//! `gupfs-suite`: all of the suite in one program, for hosts without `gupfs`, whose `gupfs bench` has the same commands.

use std::process::ExitCode;

use clap::Parser;
use gupfs_suite::bench_cli::Bench;
use gupfs_suite::workload;

/// Evaluate file systems: workloads on directories side by side, and reports
#[derive(Parser)]
#[command(
    name = "gupfs-suite",
    version,
    max_term_width = 100,
    disable_help_subcommand = true
)]
struct Suite {
    #[command(subcommand)]
    bench: Bench,
}

fn main() -> ExitCode {
    let suite: Suite = match workload::parse() {
        Ok(suite) => suite,
        Err(code) => return code,
    };
    match std::env::current_exe() {
        Ok(self_command) => ExitCode::from(suite.bench.run(vec![self_command.into_os_string()])),
        Err(error) => {
            eprintln!("gupfs-suite: it is not known where this program lies: {error}");
            ExitCode::from(2)
        }
    }
}
