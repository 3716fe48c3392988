//! The command line with which a command starts this program again.

use std::ffi::OsString;

use crate::exit::{CliError, CliResult, Exit};

/// The executable and the name of a command of it.
pub fn command_line(command: &str) -> CliResult<Vec<OsString>> {
    let itself = std::env::current_exe().map_err(|error| {
        CliError::new("cannot find the executable of this program")
            .because(&error)
            .exit(Exit::Unusable)
    })?;
    Ok(vec![itself.into_os_string(), command.into()])
}
