//! `gupfs verify`: checks whether several mounts of a file system agree; the crate `verify` implements it.

use super::own_executable;
use crate::exit::{CliResult, Exit};
use gupfs_verify::report::Verdict;

pub use gupfs_verify::cli::Verify;

pub fn run(verify: Verify) -> CliResult<Exit> {
    // It starts its workers with this.
    let command_line = own_executable::command_line("verify")?;
    Ok(match verify.run(command_line) {
        Verdict::Agreed => Exit::Fine,
        Verdict::Disagreed => Exit::Failed,
        Verdict::CouldNotRun => Exit::Unusable,
    })
}
