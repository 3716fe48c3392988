//! `gupfs bench`: measures file systems, and the layers of this machine. The crate `suite` evaluates file systems; the crate `bench`
//! measures gupfs's own layers.

use super::own_executable;
use crate::exit::{CliError, CliResult, Exit};
use clap::Subcommand;
use gupfs_bench::request_cost;
use gupfs_suite::bench_cli;

/// Measure file systems side by side, and what a FUSE request costs on this machine
#[derive(Subcommand)]
pub enum Bench {
    #[command(flatten)]
    Suite(bench_cli::Bench),
    Door(request_cost::RequestCost),
    #[command(hide = true)]
    DoorServer(request_cost::ServerCommand),
    #[command(hide = true)]
    DoorProgram(request_cost::ProgramCommand),
}

impl Bench {
    pub fn run(self) -> CliResult<Exit> {
        let measured = match self {
            Bench::Suite(suite) => return run_suite(suite),
            Bench::Door(door) => door.run(),
            Bench::DoorServer(server) => server.run(),
            Bench::DoorProgram(program) => program.run(),
        };
        measured
            .map(|()| Exit::Fine)
            .map_err(|error| CliError::new(format!("{error:#}")))
    }
}

/// The suite prints its errors itself.
fn run_suite(suite: bench_cli::Bench) -> CliResult<Exit> {
    Ok(match suite.run(own_executable::command_line("bench")?) {
        0 => Exit::Fine,
        2 => Exit::Unusable,
        _ => Exit::Failed,
    })
}
