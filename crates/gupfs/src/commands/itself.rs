//! How commands start this program again.

use std::ffi::OsString;

use crate::exit::{Exit, Outcome, Trouble};

/// The executable and the name of a command of it.
pub fn words(command: &str) -> Outcome<Vec<OsString>> {
    let itself = std::env::current_exe().map_err(|error| {
        Trouble::new("It is not known where this program lies")
            .because(&error)
            .exit(Exit::Unusable)
    })?;
    Ok(vec![itself.into_os_string(), command.into()])
}
