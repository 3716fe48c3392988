//! The command line with which a command starts this program again.

use std::ffi::OsString;

use crate::exit::{CliError, CliResult, Exit};

/// The path of the executable and the name of the command.
///
/// # Errors
/// If the executable cannot be found.
#[cfg(feature = "tools")]
pub fn command_line(command: &str) -> CliResult<Vec<OsString>> {
    Ok(vec![path()?, command.into()])
}

/// The path of the executable.
///
/// # Errors
/// If it cannot be found.
pub fn path() -> CliResult<OsString> {
    let executable = std::env::current_exe().map_err(|error| {
        CliError::new("cannot find the executable of this program")
            .because(&error)
            .exit(Exit::Unusable)
    })?;
    Ok(executable.into_os_string())
}
