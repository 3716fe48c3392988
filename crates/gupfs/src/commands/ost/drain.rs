//! `gupfs ost drain`: has the objects of a target moved to other targets.

use super::target::{TargetFlags, TargetRequests};
use crate::amount::{show_count, show_size};
use crate::commands::mds_requests::show_progress;
use crate::daemon::block_on;
use crate::exit::{CliError, CliResult, Exit};
use clap::Args;
use gupfs_proto::cluster::{ClusterReplyBody, ClusterRequest, DrainAction, DrainProgress};
use std::time::Duration;

/// How often a waiting command asks.
const ASK_EVERY: Duration = Duration::from_millis(500);

/// Move all objects of a target to other targets, while the cluster serves
#[derive(Args)]
#[command(after_help = "Examples:
  gupfs ost drain 3 --mds node1 --wait
  gupfs ost remove 3 --mds node1

New files do not use the target any more, and its objects are copied to other targets while programs read and write. A file that is \
open for writing is moved after it was closed. The drain goes on after a restart of any server; `gupfs status` shows it. With \
--cancel the target takes new files again; what was moved stays moved.

Exit codes: 0 begun, going on, or done · 1 refused, for instance because no other target has space · 2 the key is wrong · 3 the \
metadata server cannot be reached")]
pub struct Drain {
    #[command(flatten)]
    target: TargetFlags,
    /// Ends the drain of a target that was not removed yet
    #[arg(long, conflicts_with = "wait")]
    cancel: bool,
    /// Waits until the target is empty, and shows the progress
    #[arg(long)]
    wait: bool,
    /// As one JSON object
    #[arg(long)]
    json: bool,
}

impl Drain {
    pub fn run(self) -> CliResult<Exit> {
        crate::logging::start_quiet();
        let requests = self.target.requests()?;
        let action = match self.cancel {
            true => DrainAction::Cancel,
            false => DrainAction::Start,
        };
        let progress = block_on(async {
            let mut progress = ask(&requests, action).await?;
            self.warn_of_space(&progress);
            while self.wait && !progress.is_drained && progress.since.is_some() {
                show_progress(&describe(&progress));
                tokio::time::sleep(ASK_EVERY).await;
                progress = ask(&requests, DrainAction::Ask).await?;
            }
            show_progress("");
            Ok::<_, CliError>(progress)
        })?;
        self.print(&progress);
        Ok(Exit::Fine)
    }

    fn warn_of_space(&self, progress: &DrainProgress) {
        if progress.since.is_some()
            && !progress.is_drained
            && progress.used > progress.available_elsewhere
        {
            eprintln!(
                "warning: the disk of ost{} has {} used, and all other targets together have {} available; the drain stops when they are \
full, and nothing is lost then",
                self.target.ost,
                show_size(progress.used),
                show_size(progress.available_elsewhere)
            );
        }
    }

    fn print(&self, progress: &DrainProgress) {
        let ost = self.target.ost;
        if self.json {
            let since = progress.since.map(|since| since.format_minute());
            let json = serde_json::json!({
                "ost": ost.0,
                "draining_since": since,
                "is_drained": progress.is_drained,
                "files_moved": progress.files_moved,
                "bytes_moved": progress.bytes_moved,
                "files_left": progress.files_left,
                "why": progress.why,
            });
            return println!("{json}");
        }
        match progress.since {
            None => println!("ost{ost} is not being drained; it takes new files."),
            Some(_) if progress.is_drained => {
                println!(
                    "ost{ost} is empty: no file has an object there. `gupfs ost remove {ost}` removes it."
                );
            }
            Some(since) => println!(
                "ost{ost} is being drained since {}: {}.",
                since.format_minute(),
                describe(progress)
            ),
        }
    }
}

async fn ask(requests: &TargetRequests, action: DrainAction) -> CliResult<DrainProgress> {
    let ost = requests.ost;
    match requests.send(ClusterRequest::Drain { ost, action }).await? {
        ClusterReplyBody::Draining(progress) => Ok(progress),
        _ => Err(requests.unexpected_reply()),
    }
}

fn describe(progress: &DrainProgress) -> String {
    let mut text = format!(
        "{} files moved, {}",
        show_count(progress.files_moved),
        show_size(progress.bytes_moved)
    );
    if let Some(examined) = progress.inodes_examined {
        text += &format!(" · {} inodes examined", show_count(examined));
    }
    if let Some(left) = progress.files_left {
        text += &format!(" · {} files left there by the last walk", show_count(left));
    }
    if let Some(why) = &progress.why {
        text += &format!(" ({why})");
    }
    text
}
