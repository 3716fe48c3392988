//! `gupfs ost lost`: declares that a target is lost for ever, and lists the files that have lost bytes.

use super::target::{TargetFlags, TargetRequests};
use crate::amount::show_count;
use crate::commands::mds_requests::show_progress;
use crate::daemon::block_on;
use crate::exit::{CliError, CliResult, Exit};
use clap::Args;
use gupfs_proto::cluster::{ClusterReplyBody, ClusterRequest, LostFile, LostFilePosition};
use gupfs_proto::{OstId, Timestamp};
use std::io::{IsTerminal, Write};

/// Declare that a target is lost for ever, and list the files that have lost bytes
#[derive(Args)]
#[command(after_help = "Examples:
  gupfs ost lost 3 --mds node1
  gupfs ost lost 3 --mds node1 --json > lost-files

Nothing waits for the target any more: reads and writes of bytes that were only there fail with EIO at once, such files can be \
removed, and mirrored files get another copy on other targets. Run it again to list the files again. There is no way back: if \
the target reports again it is refused; wipe its directory and add it as a new target.

The list has the first name of each file from the root of the file system, one a line. With --json each line is an object, and \
the last has the number of files.

Exit codes: 0 declared lost, now or before · 1 refused, for instance because the target serves · 2 the key is wrong · 3 the \
metadata server cannot be reached")]
pub struct Lost {
    #[command(flatten)]
    target: TargetFlags,
    /// Also if the target serves now
    #[arg(long)]
    yes: bool,
    /// One JSON object a line
    #[arg(long)]
    json: bool,
}

impl Lost {
    pub fn run(self) -> CliResult<Exit> {
        crate::logging::start_quiet();
        let requests = self.target.requests()?;
        block_on(async {
            let since = self.declare(&requests).await?;
            self.list_files(&requests, since).await
        })?;
        Ok(Exit::Fine)
    }

    /// Declares the target lost; returns since when it is.
    async fn declare(&self, requests: &TargetRequests) -> CliResult<Timestamp> {
        let mut reply = declare(requests, self.yes).await?;
        if let ClusterReplyBody::TargetServes { address } = &reply {
            confirm(requests.ost, address.as_deref())?;
            reply = declare(requests, true).await?;
        }
        let ClusterReplyBody::TargetLost { since, is_new } = reply else {
            return Err(requests.unexpected_reply());
        };
        if !self.json {
            let verb = if is_new { "is" } else { "was" };
            println!(
                "ost{} {verb} declared lost on {}.",
                requests.ost,
                since.format_minute()
            );
        }
        Ok(since)
    }

    /// Prints the files a part at a time, so that there may be any number of them.
    async fn list_files(&self, requests: &TargetRequests, since: Timestamp) -> CliResult<()> {
        let (mut from, mut files, mut examined) = (None, 0, 0);
        loop {
            let page = next_files(requests, from).await?;
            for file in &page.files {
                println!("{}", self.show(file));
            }
            files += page.files.len() as u64;
            examined += page.examined;
            from = page.next;
            if from.is_none() {
                break;
            }
            show_progress(&format!("{} inodes examined", show_count(examined)));
        }
        show_progress("");
        match self.json {
            true => {
                let since = since.format_minute();
                println!(
                    "{}",
                    serde_json::json!({ "ost": self.target.ost.0, "lost_since": since, "files": files, "inodes_examined": examined })
                );
            }
            false => println!(
                "{} files have lost bytes. Restore them from a backup, or remove them.",
                show_count(files)
            ),
        }
        Ok(())
    }

    fn show(&self, file: &LostFile) -> String {
        let LostFile { ino, path } = file;
        match (self.json, path) {
            (true, _) => serde_json::json!({ "inode": ino.0, "path": path }).to_string(),
            (false, Some(path)) => one_line(path),
            (false, None) => format!("inode {ino}, which has no name"),
        }
    }
}

/// The files of one reply.
struct LostFilePart {
    files: Vec<LostFile>,
    examined: u64,
    next: Option<LostFilePosition>,
}

async fn declare(requests: &TargetRequests, while_serving: bool) -> CliResult<ClusterReplyBody> {
    let ost = requests.ost;
    let request = ClusterRequest::DeclareLost { ost, while_serving };
    requests.send(request).await
}

async fn next_files(
    requests: &TargetRequests,
    from: Option<LostFilePosition>,
) -> CliResult<LostFilePart> {
    let ost = requests.ost;
    let request = ClusterRequest::LostFiles { ost, from };
    match requests.send(request).await? {
        ClusterReplyBody::LostFiles {
            files,
            examined,
            next,
        } => Ok(LostFilePart {
            files,
            examined,
            next,
        }),
        _ => Err(requests.unexpected_reply()),
    }
}

/// A path without control characters: any user can name a file with a line break and the path of another file behind it.
fn one_line(path: &str) -> String {
    let escaped = path.chars().map(|letter| match letter.is_control() {
        true => letter.escape_default().to_string(),
        false => letter.to_string(),
    });
    escaped.collect()
}

/// Asks the administrator whether a target that serves is lost.
///
/// # Errors
/// Unless the answer is yes; without a terminal there is none.
fn confirm(ost: OstId, address: Option<&str>) -> CliResult<()> {
    let by = address.map_or("the metadata server's process".into(), |address| {
        format!("the object server at {address}")
    });
    let refused = CliError::new(format!(
        "{by} serves ost{ost} now, so it was not declared lost"
    ));
    if !std::io::stdin().is_terminal() {
        return Err(refused.todo("stop its server, or give --yes if its bytes are to be given up"));
    }
    print!("{by} serves ost{ost} now. Give up all bytes there for ever? Type yes: ");
    let _ = std::io::stdout().flush();
    let mut answer = String::new();
    let read = std::io::stdin().read_line(&mut answer);
    match read.is_ok() && answer.trim() == "yes" {
        true => Ok(()),
        false => Err(refused),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_a_line_break_is_one_line_of_the_list() {
        assert_eq!(
            one_line("/home/a\n/home/b/\u{1b}[2Jé"),
            "/home/a\\n/home/b/\\u{1b}[2Jé"
        );
    }
}
