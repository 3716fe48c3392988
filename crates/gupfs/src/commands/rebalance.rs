//! `gupfs rebalance`: has the use of the OSTs evened out.

use super::mds_requests::{MdsFlags, MdsRequests, show_progress};
use crate::amount::parse_rate;
use crate::daemon::block_on;
use crate::exit::{CliError, CliResult, Exit};
use crate::node::show_rebalance;
use clap::Args;
use gupfs_proto::Timestamp;
use gupfs_proto::cluster::{ClusterReplyBody, ClusterRequest};
use gupfs_proto::rebalance::{RebalanceChange, RebalanceState};
use std::time::Duration;

/// How often a waiting command asks.
const ASK_EVERY: Duration = Duration::from_millis(500);

/// How many requests may fail one after the other, each within some ten seconds: a metadata server that is started again answers soon.
const FAILURES_MAX: u32 = 8;

/// Even out the used space of the OSTs, for instance after some were added, while the cluster serves
#[derive(Args)]
#[command(after_help = "Examples:
  gupfs rebalance --mds node1 --wait
  gupfs rebalance --mds node1 --rate 200MiB
  gupfs rebalance --mds node1 --pause

Parts of files are copied from OSTs on fuller disks to OSTs on emptier ones while programs read and write, and the former objects are removed. It ends when the disk of each \
OST is filled as the mean of all, give or take 3 percent points (--within), or when nothing that can be moved makes them more even. Files that are being written stay \
where they are. OSTs on one file system count as one disk; OSTs that are drained, lost or down take no part. A drain goes first. It goes on after a \
restart of any server; `gupfs status` shows it, and how long it may take. The same command with another --rate changes the rate.

Exit codes: 0 begun, going on, or even · 1 ended, and not even, or there is none to pause, resume or cancel · 2 the key is wrong · 3 the metadata server cannot be reached")]
pub struct RebalanceCommand {
    #[command(flatten)]
    mds: MdsFlags,
    /// Copies at most so much each second; 0 ends the limit [default: as fast as it can, or as before]
    #[arg(long, value_name = "SIZE", value_parser = parse_rate)]
    rate: Option<u64>,
    /// Ends when the use of no disk differs more from the mean [default: 3, or as before]
    #[arg(long, value_name = "PERCENT_POINTS", value_parser = clap::value_parser!(u8).range(0..=50))]
    within: Option<u8>,
    /// Copies nothing until --resume
    #[arg(long, conflicts_with_all = ["wait", "resume", "cancel", "rate", "within"])]
    pause: bool,
    /// Goes on after --pause
    #[arg(long, conflicts_with_all = ["cancel", "rate", "within"])]
    resume: bool,
    /// Ends it; what was moved stays moved
    #[arg(long, conflicts_with_all = ["wait", "rate", "within"])]
    cancel: bool,
    /// Waits until it has ended, and shows the progress
    #[arg(long)]
    wait: bool,
    /// As one JSON object
    #[arg(long)]
    json: bool,
}

impl RebalanceCommand {
    pub fn run(self) -> CliResult<Exit> {
        crate::logging::start_quiet();
        let requests = self.mds.requests()?;
        let change = self.change();
        let state = block_on(async {
            if !matches!(change, RebalanceChange::Start { .. })
                && !ask(&requests, RebalanceChange::Ask).await?.is_going_on()
            {
                return Err(
                    CliError::new("no rebalance is going on").todo("`gupfs rebalance` begins one")
                );
            }
            let state = ask(&requests, change).await?;
            match self.wait {
                true => wait(&requests, state).await,
                false => Ok(state),
            }
        })?;
        self.print(&state);
        let is_uneven = (state.outcome.as_ref()).is_some_and(|outcome| !outcome.is_even);
        Ok(match is_uneven {
            true => Exit::Failed,
            false => Exit::Fine,
        })
    }

    fn change(&self) -> RebalanceChange {
        match (self.pause, self.resume, self.cancel) {
            (true, ..) => RebalanceChange::Pause,
            (_, true, _) => RebalanceChange::Resume,
            (.., true) => RebalanceChange::Cancel,
            _ => RebalanceChange::Start {
                rate: self.rate,
                within: self.within,
            },
        }
    }

    fn print(&self, state: &RebalanceState) {
        if self.json {
            let shown = |time: Timestamp| time.format_minute();
            let volumes = state.volumes.iter().map(|volume| {
                let osts: Vec<u16> = volume.osts.iter().map(|ost| ost.0).collect();
                serde_json::json!({ "osts": osts, "total": volume.total, "used": volume.used })
            });
            let outcome = state.outcome.as_ref();
            let json = serde_json::json!({
                "since": state.since.map(shown),
                "ended": outcome.map(|outcome| shown(outcome.at)),
                "is_even": outcome.map(|outcome| outcome.is_even),
                "is_paused": state.is_paused,
                "rate": state.rate,
                "within": state.within,
                "files_moved": state.files_moved,
                "bytes_moved": state.bytes_moved,
                "bytes_copied": state.bytes_copied,
                "bytes_left": state.bytes_left,
                "seconds_left": state.seconds_left,
                "files_left": state.files_left,
                "why": outcome.map_or(state.why.clone(), |outcome| outcome.why.clone()),
                "volumes": volumes.collect::<Vec<_>>(),
            });
            return println!("{json}");
        }
        match state.since {
            None => println!("No rebalance is going on."),
            Some(since) => println!(
                "The rebalance since {}: {}.",
                since.format_minute(),
                show_rebalance(state)
            ),
        }
    }
}

/// Asks until the rebalance has ended, also while the metadata server is started again.
async fn wait(requests: &MdsRequests, mut state: RebalanceState) -> CliResult<RebalanceState> {
    let mut failures = 0;
    while state.is_going_on() {
        show_progress(&show_rebalance(&state));
        tokio::time::sleep(ASK_EVERY).await;
        match ask(requests, RebalanceChange::Ask).await {
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

async fn ask(requests: &MdsRequests, change: RebalanceChange) -> CliResult<RebalanceState> {
    match requests.send(ClusterRequest::Rebalance { change }).await? {
        ClusterReplyBody::Rebalancing(state) => Ok(state),
        _ => Err(requests.unexpected_reply("a rebalance")),
    }
}
