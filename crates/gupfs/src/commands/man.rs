//! `gupfs man`: writes manual pages from the definitions of the command line.

use crate::exit::{CliResult, Exit, OrCliError};
use clap::Args;
use std::path::PathBuf;

/// Print the manual page, or write one page for each command into a directory
#[derive(Args)]
#[command(after_help = "Examples:
  gupfs man | man -l -
  gupfs man --dir /usr/local/share/man/man1

Exit codes: 0 done · 1 could not write · 2 wrong arguments")]
pub struct Man {
    /// Write gupfs.1, gupfs-up.1, … here instead
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl Man {
    pub fn run(self, cli: clap::Command) -> CliResult<Exit> {
        match &self.dir {
            None => clap_mangen::Man::new(cli)
                .render(&mut std::io::stdout())
                .or_cli_error(|| "cannot print the manual page".into())?,
            Some(dir) => clap_mangen::generate_to(cli, dir)
                .or_cli_error(|| format!("cannot write to '{}'", dir.display()))?,
        }
        Ok(Exit::Fine)
    }
}
