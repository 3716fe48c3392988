//! `gupfs ost remove`: removes a drained target from the cluster.

use super::target::TargetFlags;
use crate::daemon::block_on;
use crate::exit::{CliResult, Exit};
use clap::Args;
use gupfs_proto::cluster::{ClusterReplyBody, ClusterRequest};

/// Remove a drained target from the cluster
#[derive(Args)]
#[command(after_help = "Examples:
  gupfs ost drain 3 --mds node1 --wait
  gupfs ost remove 3 --mds node1

Only a target that `gupfs ost drain` has emptied is removed; one whose disk is gone is declared lost instead (`gupfs ost lost`). \
Afterwards wipe its directory, or remove the disk. If its server reports it again, it is refused.

Exit codes: 0 removed, now or before · 1 refused, for instance because it is not empty · 2 the key is wrong · 3 the metadata server \
cannot be reached")]
pub struct Remove {
    #[command(flatten)]
    target: TargetFlags,
    /// As one JSON object
    #[arg(long)]
    json: bool,
}

impl Remove {
    pub fn run(self) -> CliResult<Exit> {
        crate::logging::start_quiet();
        let requests = self.target.requests()?;
        let ost = self.target.ost;
        let reply = block_on(requests.send(ClusterRequest::RemoveTarget { ost }));
        let reply = reply.map_err(|error| {
            error.todo(format!(
                "`gupfs status` lists the targets; `gupfs ost drain {ost} --wait` empties this one, then it can be removed"
            ))
        })?;
        let ClusterReplyBody::TargetRemoved { since, is_new } = reply else {
            return Err(requests.unexpected_reply());
        };
        let since = since.format_minute();
        match self.json {
            true => println!(
                "{}",
                serde_json::json!({ "ost": ost.0, "removed_since": since, "is_new": is_new })
            ),
            false => {
                let verb = if is_new { "is" } else { "was" };
                println!(
                    "ost{ost} {verb} removed from the cluster on {since}. Its directory can be wiped."
                );
            }
        }
        Ok(Exit::Fine)
    }
}
