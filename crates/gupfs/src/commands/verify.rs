//! `gupfs verify`: do several mounts of a file system agree? Everything about it is in the room `verify`.

use super::itself;
use crate::exit::{CliResult, Exit};
use gupfs_verify::report::Verdict;

pub use gupfs_verify::cli::Verify;

pub fn run(verify: Verify) -> CliResult<Exit> {
    // How its workers are started.
    let itself = itself::command_line("verify")?;
    Ok(match verify.run(itself) {
        Verdict::Agreed => Exit::Fine,
        Verdict::Disagreed => Exit::Failed,
        Verdict::CouldNotRun => Exit::Unusable,
    })
}
