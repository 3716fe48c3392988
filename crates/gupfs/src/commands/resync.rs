//! `gupfs resync`: how far the resync of mirrored files is, and holding it back.

use super::mds_requests::{MdsFlags, MdsRequests, show_progress};
use crate::amount::parse_rate;
use crate::daemon::block_on;
use crate::exit::{CliResult, Exit};
use crate::node::show_resync;
use clap::Args;
use gupfs_proto::cluster::{ClusterReplyBody, ClusterRequest};
use gupfs_proto::resync::{ResyncChange, ResyncState};
use std::time::Duration;

/// How often a waiting command asks.
const ASK_EVERY: Duration = Duration::from_millis(500);

/// How many requests may fail one after the other, each within some ten seconds: a metadata server that is started again answers soon.
const FAILURES_MAX: u32 = 8;

/// Show how far mirrored files are brought up to date, limit the rate of that, or pause it
#[derive(Args)]
#[command(after_help = "Examples:
  gupfs resync --mds node1
  gupfs resync --mds node1 --rate 100MiB
  gupfs resync --mds node1 --pause
  gupfs resync --mds node1 --wait

Copies of mirrored files that lack writes, because their OST was away or is a new one, are brought up to date by themselves; this command need not be called for \
that. Until then a file survives the loss of fewer OSTs. A rate holds until the next start of the metadata server, which takes `[mds] resync_rate`; a pause ends then.

Exit codes: 0 done · 2 the key is wrong · 3 the metadata server cannot be reached")]
pub struct ResyncCommand {
    #[command(flatten)]
    mds: MdsFlags,
    /// Copies at most so much each second; 0 ends the limit
    #[arg(long, value_name = "SIZE", value_parser = parse_rate)]
    rate: Option<u64>,
    /// Copies nothing until --resume
    #[arg(long, conflicts_with_all = ["wait", "resume"])]
    pause: bool,
    /// Goes on after --pause
    #[arg(long)]
    resume: bool,
    /// Waits until all copies are up to date, and shows the progress
    #[arg(long)]
    wait: bool,
    /// As one JSON object
    #[arg(long)]
    json: bool,
}

impl ResyncCommand {
    pub fn run(self) -> CliResult<Exit> {
        crate::logging::start_quiet();
        let requests = self.mds.requests()?;
        let changes = [
            self.rate.map(ResyncChange::Rate),
            self.pause.then_some(ResyncChange::Pause),
            self.resume.then_some(ResyncChange::Resume),
        ];
        let state = block_on(async {
            for change in changes.into_iter().flatten() {
                ask(&requests, change).await?;
            }
            let state = ask(&requests, ResyncChange::Ask).await?;
            match self.wait {
                true => wait(&requests, state).await,
                false => Ok(state),
            }
        })?;
        self.print(&state);
        Ok(Exit::Fine)
    }

    fn print(&self, state: &ResyncState) {
        if self.json {
            let json = serde_json::to_string(state).expect("plain fields");
            return println!("{json}");
        }
        println!("The resync: {}.", show_resync(state));
        if let (true, Some(why)) = (state.is_expected, &state.last_error) {
            println!("One file was left: {why}.");
        }
    }
}

/// Asks until no file may have stale members, also while the metadata server is started again.
async fn wait(requests: &MdsRequests, mut state: ResyncState) -> CliResult<ResyncState> {
    let mut failures = 0;
    while state.is_expected {
        show_progress(&show_resync(&state));
        tokio::time::sleep(ASK_EVERY).await;
        match ask(requests, ResyncChange::Ask).await {
            Ok(answer) => (state, failures) = (answer, 0),
            Err(error) if failures == FAILURES_MAX || error.exit == Exit::Unusable => {
                return Err(error);
            }
            Err(_) => failures += 1,
        }
    }
    show_progress("");
    Ok(state)
}

async fn ask(requests: &MdsRequests, change: ResyncChange) -> CliResult<ResyncState> {
    match requests.send(ClusterRequest::Resync { change }).await? {
        ClusterReplyBody::Resync(state) => Ok(state),
        _ => Err(requests.unexpected_reply("a resync")),
    }
}
