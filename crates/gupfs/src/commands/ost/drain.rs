//! `gupfs ost drain`: has the objects of a target moved to other targets.

use super::target::{TargetFlags, TargetRequests};
use crate::amount::{parse_rate, show_count, show_size, show_time};
use crate::commands::mds_requests::show_progress;
use crate::daemon::block_on;
use crate::exit::{CliError, CliResult, Exit};
use clap::Args;
use gupfs_proto::cluster::{
    ClusterReplyBody, ClusterRequest, DrainChange, DrainNeeds, DrainState, LostFilePosition,
};
use std::time::Duration;

/// How often a waiting command asks.
const ASK_EVERY: Duration = Duration::from_millis(500);

/// Move all objects of a target to other targets, while the cluster serves
#[derive(Args)]
#[command(after_help = "Examples:
  gupfs ost drain 3 --mds node1 --wait
  gupfs ost drain 3 --mds node1 --rate 100MiB
  gupfs ost remove 3 --mds node1

The command refuses if the other targets have less space than the objects need, or too few failure domains for the copies of mirrored files. New files do not use the target any more, and its objects are copied to other targets while programs read and write. A file that is \
open for writing is moved after it was closed. The drain goes on after a restart of any server; `gupfs status` shows it, and how long it may take. The same command \
with another --rate changes the rate. --pause keeps new files away and moves nothing until --resume. With --cancel the target takes new files again; what was moved stays moved.

Exit codes: 0 begun, going on, or done · 1 refused, for instance because no other target has space or is in another failure domain · 2 the key is wrong · 3 the \
metadata server cannot be reached")]
pub struct Drain {
    #[command(flatten)]
    target: TargetFlags,
    /// Copies at most so much each second; 0 ends the limit [default: as fast as it can, or as before]
    #[arg(long, value_name = "SIZE", value_parser = parse_rate)]
    rate: Option<u64>,
    /// Begins also if the other targets have too little space or too few failure domains
    #[arg(long)]
    force: bool,
    /// Moves nothing until --resume; new files stay away
    #[arg(long, conflicts_with_all = ["wait", "resume", "cancel", "rate"])]
    pause: bool,
    /// Goes on after --pause
    #[arg(long, conflicts_with_all = ["cancel", "rate"])]
    resume: bool,
    /// Ends the drain of a target that was not removed yet
    #[arg(long, conflicts_with_all = ["wait", "rate"])]
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
        let state = block_on(async {
            if let DrainChange::Start { .. } = self.change()
                && !self.force
                && ask(&requests, DrainChange::Ask)
                    .await?
                    .progress
                    .since
                    .is_none()
            {
                check_room(&requests).await?;
            }
            let mut state = ask(&requests, self.change()).await?;
            while self.wait && !state.progress.is_drained && state.progress.since.is_some() {
                show_progress(&describe(&state));
                tokio::time::sleep(ASK_EVERY).await;
                state = ask(&requests, DrainChange::Ask).await?;
            }
            show_progress("");
            Ok::<_, CliError>(state)
        })?;
        self.print(&state);
        Ok(Exit::Fine)
    }

    fn change(&self) -> DrainChange {
        match (self.pause, self.resume, self.cancel) {
            (true, ..) => DrainChange::Pause,
            (_, true, _) => DrainChange::Resume,
            (.., true) => DrainChange::Cancel,
            _ => DrainChange::Start { rate: self.rate },
        }
    }

    fn print(&self, state: &DrainState) {
        let progress = &state.progress;
        let ost = self.target.ost;
        if self.json {
            let since = progress.since.map(|since| since.format_minute());
            let json = serde_json::json!({
                "ost": ost.0,
                "draining_since": since,
                "is_drained": progress.is_drained,
                "is_paused": state.is_paused,
                "rate": state.rate,
                "bytes_left": state.bytes_left,
                "seconds_left": state.seconds_left,
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
                describe(state)
            ),
        }
    }
}

async fn ask(requests: &TargetRequests, change: DrainChange) -> CliResult<DrainState> {
    let ost = requests.ost;
    match requests
        .send(ClusterRequest::ManageDrain { ost, change })
        .await?
    {
        ClusterReplyBody::DrainState(state) => Ok(state),
        _ => Err(requests.unexpected_reply()),
    }
}

/// Checks that the other targets have space and failure domains for the objects of this one.
///
/// # Errors
/// If they have not.
async fn check_room(requests: &TargetRequests) -> CliResult<()> {
    let (ost, mut from) = (requests.ost, None);
    let (mut needed, mut files, mut examined) = (0, 0, 0);
    let (mut files_stay, mut directories_fail) = (0, 0);
    let available = loop {
        let part = part_of_needs(requests, from).await?;
        files_stay += part.files_without_domain;
        directories_fail += part.directories_without_domain;
        let room = part.room;
        (needed, files) = (needed + room.bytes, files + room.files);
        examined += room.examined;
        from = room.next;
        if from.is_none() {
            break room.available;
        }
        show_progress(&format!("space: {} inodes examined", show_count(examined)));
    };
    show_progress("");
    // Without any other target the metadata server says so.
    if available == 0 {
        return Ok(());
    }
    if needed > available {
        return Err(CliError::new(format!(
            "ost{ost} has {} of {} files, and the other targets that take new files have {} available, so it is not drained",
            show_size(needed),
            show_count(files),
            show_size(available)
        ))
        .todo("add a target, or begin in any case with --force: the drain stops when the others are full, and nothing is lost then"));
    }
    if files_stay > 0 || directories_fail > 0 {
        return Err(CliError::new(format!(
            "without ost{ost} there are too few failure domains, so it is not drained: {} mirrored files could not leave it, or an OST that is being drained, \
             and new files could not be created in {} directories with mirrors",
            show_count(files_stay),
            show_count(directories_fail)
        ))
        .todo("add a target in another failure domain, or convert these files and directories (`gupfs layout`); with --force the drain begins in any case, and does not end before that"));
    }
    Ok(())
}

async fn part_of_needs(
    requests: &TargetRequests,
    from: Option<LostFilePosition>,
) -> CliResult<DrainNeeds> {
    let ost = requests.ost;
    match requests
        .send(ClusterRequest::DrainNeeds { ost, from })
        .await?
    {
        ClusterReplyBody::DrainNeeds(needs) => Ok(needs),
        _ => Err(requests.unexpected_reply()),
    }
}

fn describe(state: &DrainState) -> String {
    let progress = &state.progress;
    let mut text = format!(
        "{} files moved, {}",
        show_count(progress.files_moved),
        show_size(progress.bytes_moved)
    );
    if state.is_paused {
        text += " · paused (--resume)";
    }
    if let Some(left) = state.bytes_left {
        text += &format!(" · {} left", show_size(left));
    }
    if let Some(seconds) = state.seconds_left.filter(|_| !state.is_paused) {
        text += &format!(", about {}", show_time(Duration::from_secs(seconds)));
    }
    if let Some(rate) = state.rate {
        text += &format!(" at no more than {}/s", show_size(rate));
    }
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
