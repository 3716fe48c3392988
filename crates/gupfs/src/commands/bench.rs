//! `gupfs bench`: how fast this machine is, layer by layer.

use crate::exit::{Exit, Outcome, Trouble};
use clap::Subcommand;
use gupfs_bench::door;

/// Measure: what the kernel's door costs on this machine
#[derive(Subcommand)]
pub enum Bench {
    Door(door::Door),
    #[command(hide = true)]
    DoorServer(door::Server),
    #[command(hide = true)]
    DoorProgram(door::Program),
}

impl Bench {
    pub fn run(self) -> Outcome<Exit> {
        let measured = match self {
            Bench::Door(door) => door.run(),
            Bench::DoorServer(server) => server.run(),
            Bench::DoorProgram(program) => program.run(),
        };
        measured
            .map(|()| Exit::Fine)
            .map_err(|error| Trouble::new(format!("{error:#}")))
    }
}
