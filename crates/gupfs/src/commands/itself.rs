//! How commands start this program again.

use std::ffi::OsString;

use crate::exit::{Exit, CliResult, CliError};

/// The executable and the name of a command of it.
pub fn command_line(command: &str) -> CliResult<Vec<OsString>> {
    let itself = std::env::current_exe().map_err(|error| {
        CliError::new("It is not known where this program lies")
            .because(&error)
            .exit(Exit::Unusable)
    })?;
    Ok(vec![itself.into_os_string(), command.into()])
}
