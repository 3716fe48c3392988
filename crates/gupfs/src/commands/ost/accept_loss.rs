//! `gupfs ost accept-loss`: accepts an older copy of a target, once.

use super::target::{TargetFlags, TargetRequests};
use crate::amount::show_count;
use crate::daemon::block_on;
use crate::exit::{CliError, CliResult, Exit};
use clap::Args;
use gupfs_proto::OstId;
use gupfs_proto::cluster::{ClusterReplyBody, ClusterRequest, RefusedCopy, TargetCopy};
use std::io::{IsTerminal, Write};

/// Accept that a target is an older copy of itself, or was made anew: what it lacks is lost
#[derive(Args)]
#[command(after_help = "Examples:
  gupfs ost accept-loss 3 --mds node1
  gupfs ost accept-loss 3 --mds node1 --yes --json

The metadata server refuses a target whose directory was restored from a copy (`gupfs status` says so), because later writes are missing \
there. If the newest directory is gone for good, start the object server with the copy, give this command, and restart the object server: \
the copy serves from then on. In files that existed, later writes are missing without a trace; files that were made later fail with EIO; \
mirrored files lose nothing that another copy has. The decision is recorded for the copy that the command has shown, and is used up when \
it serves. A target without any copy is declared lost instead (`gupfs ost lost`). Lost metadata is accepted with `gupfs mds --accept-loss`.

Exit codes: 0 accepted, now or before · 1 refused, for instance because the target serves · 2 the key is wrong · 3 the metadata server cannot be \
reached")]
pub struct AcceptLoss {
    #[command(flatten)]
    target: TargetFlags,
    /// Accepts without a question
    #[arg(long)]
    yes: bool,
    /// As one JSON object
    #[arg(long)]
    json: bool,
}

impl AcceptLoss {
    pub fn run(self) -> CliResult<Exit> {
        crate::logging::start_quiet();
        let requests = self.target.requests()?;
        let ost = self.target.ost;
        block_on(async {
            let refused = ask(&requests, None).await?;
            if !self.json {
                println!("{}", describe(ost, &refused));
            }
            if !self.yes && !refused.is_accepted {
                confirm(ost)?;
            }
            let accepted = ask(&requests, Some(refused.copy)).await?;
            self.print(&accepted);
            Ok::<_, CliError>(())
        })?;
        Ok(Exit::Fine)
    }

    fn print(&self, accepted: &RefusedCopy) {
        let ost = self.target.ost;
        if self.json {
            let json = serde_json::json!({
                "ost": ost.0,
                "is_accepted": accepted.is_accepted,
                "address": accepted.address,
                "stamp": accepted.copy.stamp,
                "objects": accepted.objects,
                "objects_before": accepted.objects_before,
                "why": accepted.why,
            });
            return println!("{json}");
        }
        match &accepted.address {
            Some(address) => println!(
                "The loss is accepted. Restart the object server at {address} now: ost{ost} serves then."
            ),
            None => println!(
                "The loss is accepted. Restart the metadata server's process now: ost{ost} serves then."
            ),
        }
    }
}

async fn ask(requests: &TargetRequests, copy: Option<TargetCopy>) -> CliResult<RefusedCopy> {
    let ost = requests.ost;
    let request = ClusterRequest::AcceptTargetLoss { ost, copy };
    match requests.send(request).await? {
        ClusterReplyBody::RefusedCopy(refused) => Ok(refused),
        _ => Err(requests.unexpected_reply()),
    }
}

/// Which copy it is, and what it lacks as far as that is known.
fn describe(ost: OstId, refused: &RefusedCopy) -> String {
    let server = match &refused.address {
        Some(address) => format!("the object server at {address}"),
        None => "the metadata server's process".into(),
    };
    let mut text = format!("ost{ost} at {server}: {}.", refused.why);
    if let Some(objects) = refused.objects {
        text += &format!("\nThe copy has {} objects", show_count(objects));
        text += &match refused.objects_before {
            Some(before) => format!(
                "; the target had {} when it served last.",
                show_count(before)
            ),
            None => "; how many the target had is not known.".into(),
        };
    }
    text
}

/// Asks the administrator.
///
/// # Errors
/// Unless the answer is yes; without a terminal there is none.
fn confirm(ost: OstId) -> CliResult<()> {
    let refused = CliError::new(format!("the loss of ost{ost} was not accepted"));
    if !std::io::stdin().is_terminal() {
        return Err(refused.todo("bring back the directory that it had, or give --yes if what the copy lacks is to be given up"));
    }
    print!("Give up for ever what this copy lacks? Type yes: ");
    let _ = std::io::stdout().flush();
    let mut answer = String::new();
    let read = std::io::stdin().read_line(&mut answer);
    match read.is_ok() && answer.trim() == "yes" {
        true => Ok(()),
        false => Err(refused),
    }
}
