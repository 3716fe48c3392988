//! `gupfs config`: look at configuration files without starting anything.

use crate::cluster::read_tls;
use crate::config::Config;
use crate::exit::{Exit, CliResult};
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Look at a configuration file
#[derive(Subcommand)]
pub enum ConfigCommand {
    Check(Check),
}

/// Read a configuration file and say what is wrong with it, with the line
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
        // What it names is looked at, too.
        read_tls(&config.cluster)?;
        println!("'{}' can be used.", file.display());
        Ok(Exit::Fine)
    }
}
