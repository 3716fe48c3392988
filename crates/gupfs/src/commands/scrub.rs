//! `gupfs scrub`: has all objects verified now.

use super::mds_requests::{MdsFlags, MdsRequests, show_progress};
use crate::amount::{parse_size, show_count, show_size};
use crate::daemon::block_on;
use crate::exit::{CliError, CliResult, Exit};
use clap::Args;
use gupfs_proto::cluster::{ClusterReplyBody, ClusterRequest, ScrubAction, ScrubSummary};
use std::time::Duration;

/// How often a waiting command asks.
const ASK_EVERY: Duration = Duration::from_millis(500);

/// Verify all data on all targets, and repair damage from copies, while the cluster serves
#[derive(Args)]
#[command(after_help = "Examples:
  gupfs scrub --mds node1 --wait
  gupfs scrub --mds node1 --rate 200MiB

Each target reads its objects and compares them with their checksums, and the copies of mirrored files are compared with each other. A \
damaged block is repaired from a copy that matches its own checksums. Without this command all data is verified once in 30 days \
([mds] scrub_period), and damage that a program meets is repaired within some ten seconds. `gupfs status` shows what was found.

Exit codes: 0 begun, or all is in order · 1 there is damage that nothing can repair, or data that could not be verified, for instance because \
a target is down · 2 the key is wrong · 3 the metadata server cannot be reached")]
pub struct Scrub {
    #[command(flatten)]
    mds: MdsFlags,
    /// Reads at most so much each second [default: as fast as it can]
    #[arg(long, value_name = "SIZE", value_parser = parse_rate)]
    rate: Option<u64>,
    /// Waits until all is verified, and shows the progress
    #[arg(long)]
    wait: bool,
    /// As one JSON object
    #[arg(long)]
    json: bool,
}

impl Scrub {
    pub fn run(self) -> CliResult<Exit> {
        crate::logging::start_quiet();
        let requests = self.mds.requests()?;
        let start = ScrubAction::Start { rate: self.rate };
        let summary = block_on(async {
            let mut summary = ask(&requests, start).await?;
            let passes = summary.passes;
            while self.wait && summary.is_scrubbing {
                show_progress(&describe(&summary));
                tokio::time::sleep(ASK_EVERY).await;
                summary = ask(&requests, ScrubAction::Ask).await?;
            }
            show_progress("");
            // The next start of the server has forgotten the scrub, and what it had found.
            if self.wait && summary.passes <= passes {
                return Err(CliError::new(
                    "the metadata server was restarted before all data was verified",
                )
                .todo("begin the scrub again"));
            }
            Ok::<_, CliError>(summary)
        })?;
        self.print(&summary);
        let is_fine = summary.is_scrubbing || (summary.damaged == 0 && summary.files_left == 0);
        Ok(match is_fine {
            true => Exit::Fine,
            false => Exit::Failed,
        })
    }

    fn print(&self, summary: &ScrubSummary) {
        if self.json {
            let json = serde_json::json!({
                "is_scrubbing": summary.is_scrubbing,
                "inodes_examined": summary.inodes_examined,
                "files_left": summary.files_left,
                "why": summary.why,
                "bytes_verified": summary.bytes_verified,
                "blocks_repaired": summary.blocks_repaired,
                "members_renewed": summary.members_renewed,
                "damaged": summary.damaged,
            });
            return println!("{json}");
        }
        if summary.is_scrubbing {
            return println!("The scrub has begun; `gupfs status` shows it.");
        }
        println!("{}.", describe(summary));
        match (summary.damaged, summary.files_left) {
            (0, 0) => println!("All data is in order."),
            (0, left) => println!("{} files could not be verified whole.", show_count(left)),
            (damaged, _) => println!(
                "{} objects have damage that nothing can repair: `gupfs status` names them.",
                show_count(damaged)
            ),
        }
    }
}

async fn ask(requests: &MdsRequests, action: ScrubAction) -> CliResult<ScrubSummary> {
    match requests.send(ClusterRequest::Scrub { action }).await? {
        ClusterReplyBody::Scrubbing(summary) => Ok(summary),
        _ => Err(requests.unexpected_reply("a scrub")),
    }
}

/// "200MiB", "200MiB/s".
fn parse_rate(text: &str) -> Result<u64, String> {
    match parse_size(text.strip_suffix("/s").unwrap_or(text))? {
        0 => Err("a scrub at this rate would never end".into()),
        rate => Ok(rate),
    }
}

/// What was done since the start of the metadata server.
fn describe(summary: &ScrubSummary) -> String {
    let mut text = format!(
        "{} inodes examined · {} verified, {} blocks repaired, {} copies made anew",
        show_count(summary.inodes_examined),
        show_size(summary.bytes_verified),
        show_count(summary.blocks_repaired),
        show_count(summary.members_renewed)
    );
    if summary.damaged > 0 {
        text += &format!(" · {} objects damaged", show_count(summary.damaged));
    }
    if let (left @ 1.., Some(why)) = (summary.files_left, &summary.why) {
        text += &format!(" · {} files left ({why})", show_count(left));
    }
    text
}
