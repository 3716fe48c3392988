//! `gupfs bench` and `gupfs verify` of a program that was built without the evaluation tools.

use crate::exit::{CliError, CliResult, Exit};
use clap::Args;
use std::ffi::OsString;

/// Not in this build: build gupfs with the feature `tools`
#[derive(Args)]
#[command(hide = true)]
pub struct WithoutTools {
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    _arguments: Vec<OsString>,
}

impl WithoutTools {
    /// # Errors
    /// Always.
    pub fn run(self) -> CliResult<Exit> {
        let error = CliError::new("this gupfs was built without the evaluation tools")
            .todo("build it with them: `make build`");
        Err(error.exit(Exit::Unusable))
    }
}
