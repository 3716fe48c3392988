//! `gupfs-verify`: `gupfs verify` as a program of its own.

use std::process::ExitCode;

use clap::Parser;
use gupfs_verify::cli::Verify;
use gupfs_verify::report::Verdict;

#[derive(Parser)]
#[command(name = "gupfs-verify", version, max_term_width = 100)]
struct Cli {
    #[command(flatten)]
    verify: Verify,
}

fn main() -> ExitCode {
    let itself = match std::env::current_exe() {
        Ok(path) => vec![path.into_os_string()],
        Err(error) => {
            eprintln!("gupfs-verify: where it lies is not known: {error}");
            return ExitCode::from(2);
        }
    };
    ExitCode::from(match Cli::parse().verify.run(itself) {
        Verdict::Agreed => 0,
        Verdict::Disagreed => 1,
        Verdict::CouldNotRun => 2,
    })
}
