//! `gupfs verify`: do several mounts of a file system agree? Everything about it is in the room `verify`.

use crate::exit::{Exit, Outcome, Trouble};
use gupfs_verify::report::Verdict;

pub use gupfs_verify::cli::Verify;

pub fn run(verify: Verify) -> Outcome<Exit> {
    let itself = std::env::current_exe().map_err(|error| {
        Trouble::new("It is not known where this program lies")
            .because(&error)
            .exit(Exit::Unusable)
    })?;
    // How its workers are started.
    let itself = vec![itself.into_os_string(), "verify".into()];
    Ok(match verify.run(itself) {
        Verdict::Agreed => Exit::Fine,
        Verdict::Disagreed => Exit::Failed,
        Verdict::CouldNotRun => Exit::Unusable,
    })
}
