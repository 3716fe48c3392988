//! `gupfs config`: checks configuration files without starting a server.

use crate::cluster::read_tls;
use crate::config::Config;
use crate::exit::{CliResult, Exit};
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Check a configuration file
#[derive(Subcommand)]
pub enum ConfigCommand {
    Check(Check),
}

/// Read a configuration file and print what is wrong with it, with the line
#[derive(Args)]
#[command(after_help = "Example:
  gupfs config check /etc/gupfs.toml

Exit codes: 0 it can be used · 2 it cannot")]
pub struct Check {
    file: PathBuf,
}

impl ConfigCommand {
    pub fn run(self) -> CliResult<Exit> {
        let ConfigCommand::Check(Check { file }) = self;
        let config = Config::read(&file)?;
        // The TLS files that it names are read, too.
        read_tls(&config.cluster)?;
        println!("'{}' can be used.", file.display());
        Ok(Exit::Fine)
    }
}
