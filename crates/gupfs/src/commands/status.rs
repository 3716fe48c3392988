//! `gupfs status`: what runs, what it does, what it waits for.

use crate::control::{Ask, Place};
use crate::exit::{Exit, Outcome, Trouble};
use crate::node::{Offline, StatusAnswer};
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

const EVERY: Duration = Duration::from_secs(1);

/// Show what runs, what it does, what it waits for, what is damaged
#[derive(Args)]
#[command(after_help = "Examples:
  gupfs status
  gupfs status /srv/gupfs --json
  gupfs status /mnt/gupfs --watch

Exit codes: 0 it runs · 1 it cannot be asked · 2 not a gupfs store or mount · 3 nothing serves it; what can be seen of \
the store is shown")]
pub struct Status {
    /// The store's directory or its mount point; without it, the only one mounted here
    path: Option<PathBuf>,
    /// As one JSON object
    #[arg(long)]
    json: bool,
    /// Show it again every second, until Ctrl-C
    #[arg(long)]
    watch: bool,
}

impl Status {
    pub fn run(self) -> Outcome<Exit> {
        let place = Place::find(self.path.as_deref())?;
        loop {
            let answer: Result<StatusAnswer, Trouble> = place.ask(&Ask::Status);
            let answer = match answer {
                Err(trouble) if trouble.exit == Exit::NotRunning => return self.offline(&place),
                other => other?,
            };
            let text = match self.json {
                true => format!("{}\n", answer.status),
                false => answer.text,
            };
            if !self.watch {
                print!("{text}");
                return Ok(Exit::Fine);
            }
            // Home, the text, and nothing of what stood below it before.
            let clear = if self.json { "" } else { "\x1b[H\x1b[2J" };
            print!("{clear}{text}");
            std::thread::sleep(EVERY);
        }
    }

    fn offline(&self, place: &Place) -> Outcome<Exit> {
        let marker = place.home.read_marker()?;
        let offline = Offline::of(&place.home, &marker);
        match self.json {
            true => println!("{}", serde_json::json!(offline)),
            false => print!("{}", offline.text()),
        }
        Ok(Exit::NotRunning)
    }
}
