//! # commands: one file each
//!
//! Owns   the arguments, the work and the output of each command.
//! Never  shares state between commands.
//! Enter  at `run`.

pub mod bench;
pub mod check;
pub mod completions;
pub mod config;
pub mod df;
pub mod doctor;
pub mod guardian;
mod itself;
pub mod key;
pub mod layout;
pub mod man;
pub mod mds;
pub mod mount;
mod options;
pub mod oss;
pub mod ost;
pub mod status;
pub mod stop;
pub mod sync;
pub mod tls;
pub mod up;
pub mod verify;
pub mod version;

use crate::cli::Command;
use crate::exit::{CliResult, Exit};

pub fn run(command: Command) -> CliResult<Exit> {
    match command {
        Command::Tls(tls) => tls.run(),
        Command::Up(up) => up.run(),
        Command::Mds(mds) => mds.run(),
        Command::Oss(oss) => oss.run(),
        Command::Ost(ost) => ost.run(),
        Command::Key(key) => key.run(),
        Command::Mount(mount) => mount.run(),
        Command::Stop(stop) => stop.run(),
        Command::Status(status) => status.run(),
        Command::Df(df) => df.run(),
        Command::Sync(sync) => sync.run(),
        Command::Layout(layout) => layout.run(),
        Command::Check(check) => check.run(),
        Command::Config(config) => config.run(),
        Command::Doctor(doctor) => doctor.run(),
        Command::Bench(bench) => bench.run(),
        Command::Verify(verify) => verify::run(verify),
        Command::Completions(completions) => completions.run(),
        Command::Man(man) => man.run(),
        Command::Version(version) => version.run(),
    }
}
