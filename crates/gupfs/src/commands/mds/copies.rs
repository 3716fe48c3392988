//! `gupfs mds list`, `move` and `remove`: the copies of the metadata.

use crate::cluster::{MDS_PORT, with_port};
use crate::commands::mds_requests::{MdsFlags, MdsRequests, show_progress};
use crate::daemon::block_on;
use crate::exit::{CliError, CliResult, Exit};
use crate::node::show_copies;
use clap::Args;
use gupfs_proto::CopyId;
use gupfs_proto::cluster::{ClusterReplyBody, ClusterRequest};
use gupfs_proto::copy::{CopiesChange, CopiesReport, CopyReport, CopyStanding};
use std::time::Duration;

/// How often a waiting command asks, and how often at most: half a minute.
const ASK_EVERY: Duration = Duration::from_millis(250);
const ASKS_MAX: usize = 120;

/// Show the copies of the metadata: who owns it, and how far the others are
#[derive(Args)]
#[command(after_help = "Examples:
  gupfs mds list --mds node1
  gupfs mds list --mds node1,node2 --json

Exit codes: 0 shown · 1 the metadata has no copies · 2 the key is wrong · 3 no metadata server can be reached")]
pub struct List {
    #[command(flatten)]
    mds: MdsFlags,
    /// As one JSON object
    #[arg(long)]
    json: bool,
}

/// Have another metadata server own the metadata; programs wait for less than a second
#[derive(Args)]
#[command(after_help = "Examples:
  gupfs mds move node2 --mds node1

The owner stops in order, the named copy takes over, and the former owner goes on as a copy. `gupfs stop` on the owner's host does the same with any copy.

Exit codes: 0 moved · 1 that copy is not up to date, or does not exist · 2 the key is wrong · 3 no metadata server can be reached")]
pub struct Move {
    /// The metadata server that is to own the metadata, as `gupfs mds list` shows it
    #[arg(value_name = "HOST[:PORT]")]
    to: String,
    #[command(flatten)]
    mds: MdsFlags,
    /// As one JSON object
    #[arg(long)]
    json: bool,
}

/// Remove a copy of the metadata: it is not expected to come back
#[derive(Args)]
#[command(after_help = "Examples:
  gupfs mds remove node3 --mds node1

A process of the copy that runs ends. Its directory stays as it is; `gupfs mds DIR --join` with an empty directory makes a new copy.

Exit codes: 0 removed · 1 it owns the metadata, or does not exist · 2 the key is wrong · 3 no metadata server can be reached")]
pub struct Remove {
    /// The metadata server, as `gupfs mds list` shows it
    #[arg(value_name = "HOST[:PORT]")]
    copy: String,
    #[command(flatten)]
    mds: MdsFlags,
    /// As one JSON object
    #[arg(long)]
    json: bool,
}

impl List {
    pub fn run(self) -> CliResult<Exit> {
        crate::logging::start_quiet();
        let requests = self.mds.requests()?;
        let report = block_on(ask(&requests))?;
        print(&report, self.json);
        Ok(Exit::Fine)
    }
}

impl Move {
    pub fn run(self) -> CliResult<Exit> {
        crate::logging::start_quiet();
        let requests = self.mds.requests()?;
        let report = block_on(async {
            let to = find(&ask(&requests).await?, &self.to)?;
            if to.is_owner {
                return Err(CliError::new(format!(
                    "'{}' owns the metadata already",
                    to.address
                )));
            }
            let report = change(&requests, CopiesChange::Move { to: to.copy }).await?;
            wait_moved(&requests, report, to.copy).await
        })?;
        print(&report, self.json);
        Ok(Exit::Fine)
    }
}

impl Remove {
    pub fn run(self) -> CliResult<Exit> {
        crate::logging::start_quiet();
        let requests = self.mds.requests()?;
        let report = block_on(async {
            let copy = find(&ask(&requests).await?, &self.copy)?.copy;
            change(&requests, CopiesChange::Remove { copy }).await
        })?;
        print(&report, self.json);
        Ok(Exit::Fine)
    }
}

async fn ask(requests: &MdsRequests) -> CliResult<CopiesReport> {
    match requests.send(ClusterRequest::Copies).await? {
        ClusterReplyBody::Copies(report) => Ok(report),
        _ => Err(requests.unexpected_reply("the copies of the metadata")),
    }
}

async fn change(requests: &MdsRequests, change: CopiesChange) -> CliResult<CopiesReport> {
    match requests
        .send(ClusterRequest::ChangeCopies { change })
        .await?
    {
        ClusterReplyBody::Copies(report) => Ok(report),
        ClusterReplyBody::ChangeRefused { why } => Err(CliError::new(why)),
        _ => Err(requests.unexpected_reply("the copies of the metadata")),
    }
}

/// Asks until this copy owns the metadata.
async fn wait_moved(
    requests: &MdsRequests,
    mut report: CopiesReport,
    to: CopyId,
) -> CliResult<CopiesReport> {
    for _ in 0..ASKS_MAX {
        let owns = |copy: &CopyReport| copy.copy == to && copy.is_owner;
        if report.is_held && report.members.iter().any(owns) {
            show_progress("");
            return Ok(report);
        }
        show_progress("waiting for the new owner");
        tokio::time::sleep(ASK_EVERY).await;
        // Between two owners no server answers for a moment.
        if let Ok(newer) = ask(requests).await {
            report = newer;
        }
    }
    Err(
        CliError::new("another copy has taken over, or none has yet")
            .todo("`gupfs mds list` shows who owns the metadata"),
    )
}

/// The copy at this address.
fn find(report: &CopiesReport, host: &str) -> CliResult<CopyReport> {
    let address = with_port(host, MDS_PORT);
    let mut members = report.members.iter();
    let found = members.find(|copy| copy.address == address);
    found.cloned().ok_or_else(|| {
        let known: Vec<&str> = (report.members.iter())
            .map(|copy| copy.address.as_str())
            .collect();
        CliError::new(format!(
            "there is no copy of the metadata at '{address}', but at {}",
            known.join(", ")
        ))
        .todo("give the address as `gupfs mds list` shows it")
    })
}

fn print(report: &CopiesReport, json: bool) {
    if !json {
        return show_copies(report)
            .iter()
            .for_each(|line| println!("{line}"));
    }
    let copies = report.members.iter().map(|copy| {
        let standing = match copy.standing {
            CopyStanding::Counting => "counting",
            CopyStanding::Joining => "joining",
            CopyStanding::Struck => "struck",
            CopyStanding::LeftOut => "left_out",
        };
        serde_json::json!({
            "copy": format!("{:016x}", copy.copy.0),
            "address": copy.address,
            "is_owner": copy.is_owner && report.is_held,
            "standing": standing,
            "behind": copy.behind,
            "unsynced": copy.unsynced,
            "snapshot_parts": copy.snapshot_parts,
            "struck": copy.struck,
            "strikes": copy.strikes,
        })
    });
    let json = serde_json::json!({
        "owner_epoch": report.epoch.0,
        "is_held": report.is_held,
        "arbiter_error": report.arbiter_error,
        "copies": copies.collect::<Vec<_>>(),
    });
    println!("{json}");
}
