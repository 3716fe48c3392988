//! `gupfs version`: the versions of the program and of its store format.

use crate::exit::{CliResult, Exit};
use crate::store_dir;
use clap::Args;

/// Show the version of the program and of the formats it knows
#[derive(Args)]
#[command(after_help = "Example:
  gupfs version --json

Exit codes: 0 shown · 2 wrong arguments")]
pub struct Version {
    /// As one JSON object
    #[arg(long)]
    json: bool,
}

impl Version {
    pub fn run(self) -> CliResult<Exit> {
        let version = env!("CARGO_PKG_VERSION");
        if self.json {
            let object =
                serde_json::json!({ "version": version, "store_format": store_dir::VERSION });
            println!("{object}");
        } else {
            println!("gupfs {version}");
            println!(
                "store format: reads and writes version {}",
                store_dir::VERSION
            );
        }
        Ok(Exit::Fine)
    }
}
