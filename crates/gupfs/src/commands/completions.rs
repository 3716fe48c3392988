//! `gupfs completions`: prints a script with which a shell completes the commands.

use crate::exit::{CliResult, Exit};
use clap::Args;

/// Print completions for a shell
#[derive(Args)]
#[command(after_help = "Example:
  gupfs completions bash > /usr/share/bash-completion/completions/gupfs

Exit codes: 0 printed · 2 wrong arguments")]
pub struct Completions {
    shell: clap_complete::Shell,
}

impl Completions {
    pub fn run(self, mut cli: clap::Command) -> CliResult<Exit> {
        clap_complete::generate(self.shell, &mut cli, "gupfs", &mut std::io::stdout());
        Ok(Exit::Fine)
    }
}
