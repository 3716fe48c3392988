//! `gupfs check`: checks that names, objects and counts of a stopped store agree.

use crate::amount::{show_count, show_size};
use crate::check::salvage::{self, SalvageLoss, Salvaged, show_date};
use crate::check::{self, CheckOptions, FormerTarget, Report};
use crate::exit::{CliResult, Exit, OrCliError};
use crate::store_dir::StoreDir;
use clap::Args;
use gupfs_platform::Platform;
use gupfs_proto::OstId;
use std::path::PathBuf;

/// Problems that the text lists; the JSON contains all.
const SHOWN: usize = 100;

/// Look for inconsistencies in a stopped store, and repair what can be repaired without losing anything
#[derive(Args)]
#[command(after_help = "Examples:
  gupfs check /srv/gupfs
  gupfs check /srv/gupfs --data
  gupfs check /srv/gupfs --repair --json
  gupfs check /srv/mds --ost /srv/disks --ost /mnt/other-host/disks
  gupfs check /srv/gupfs --salvage

It finds: objects without inode, missing objects of an inode, objects on a wrong OST, directory entries without inode, inodes \
without entry (--repair names them in the root directory), wrong counts, unreadable records, leftovers of interrupted operations; \
with --data also bytes that do not match their checksum. OSTs of a cluster whose directories are not named with --ost are not \
checked; the number of objects that must be on them is printed.

--salvage is for metadata that does not open, or has problems that --repair leaves: it keeps the readable part of log and index, rebuilds \
files from their objects, names inodes without a name in /lost+found, and prints each loss. The damaged log and \
index are kept in DIR/mds/salvaged-DATE.

Exit codes: 0 no problems · 1 problems were found · 2 the store could not be checked: in use, or not a store · 4 problems were \
found and all are repaired; after --salvage: the readable metadata is in place and consistent")]
pub struct Check {
    /// The store's directory
    dir: PathBuf,
    /// An OST outside the store's directory, or a directory that contains OSTs; may be repeated
    #[arg(long, value_name = "DIR")]
    ost: Vec<PathBuf>,
    /// Also read all bytes and compare them with their checksums
    #[arg(long)]
    data: bool,
    /// Repair the problems whose repair loses no data
    #[arg(long)]
    repair: bool,
    /// Rebuild the metadata from the readable part of it, and print what is lost
    #[arg(long, conflicts_with_all = ["data", "repair"])]
    salvage: bool,
    /// As one JSON object
    #[arg(long)]
    json: bool,
}

impl Check {
    pub fn run(self) -> CliResult<Exit> {
        crate::logging::start_quiet();
        let unusable = |error: crate::exit::CliError| error.exit(Exit::Unusable);
        let store_dir = StoreDir::at(&self.dir).map_err(unusable)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .or_cli_error(|| "cannot start the runtime".into())?;
        let options = CheckOptions {
            osts: self.ost,
            data: self.data,
            repair: self.repair,
        };
        let platform = Platform::real();
        if self.salvage {
            let done = runtime.block_on(salvage::run(&store_dir, &options, &platform))?;
            if self.json {
                println!("{}", salvage_json(&done));
            } else {
                print!("{}", salvage_text(&done));
            }
            return Ok(done.exit());
        }
        let report = runtime.block_on(check::run(&store_dir, options, &platform))?;
        if self.json {
            println!("{}", json(&report));
        } else {
            print!("{}", text(&report));
        }
        Ok(report.exit())
    }
}

fn salvage_json(done: &Salvaged) -> serde_json::Value {
    let mut json = serde_json::json!(done);
    json["clean"] = done.findings.faults.is_empty().into();
    json["problems"] = list(&done.findings.faults).into();
    json
}

fn salvage_text(done: &Salvaged) -> String {
    let Some(damaged_dir) = &done.damaged_dir else {
        return "Nothing is damaged: the metadata is unchanged.\n".to_string();
    };
    let mut text = String::new();
    for (word, losses) in [("lost", &done.lost), ("kept", &done.found)] {
        for loss in losses.iter().take(SHOWN) {
            text += &format!("{word}: {}\n", show_loss(loss));
        }
        let more = losses.len().saturating_sub(SHOWN);
        if more > 0 {
            text += &format!("… and {} more; --json lists all\n", show_count(more as u64));
        }
    }
    if let Some(secs) = done.newest_kept {
        text += &format!("the newest kept change is of {}\n", show_date(secs));
    }
    if done.repaired > 0 {
        text += &format!(
            "{} counts and links were repaired\n",
            show_count(done.repaired)
        );
    }
    for fault in done.findings.faults.iter().take(SHOWN) {
        text += &format!("problem: {fault}\n");
    }
    for (ost, objects) in &done.findings.elsewhere {
        text += &format!(
            "not checked: ost{ost}, which must have {} objects (name its directory with --ost DIR)\n",
            show_count(*objects)
        );
    }
    text += &format!(
        "the new metadata has {} inodes with {} names; the damaged log and index are in '{}'\n",
        show_count(done.findings.inodes),
        show_count(done.findings.entries),
        damaged_dir.display()
    );
    text += &match done.findings.faults.len() {
        0 => "Salvaged. No problems.\n".to_string(),
        n => format!("Salvaged; {} problems are left.\n", show_count(n as u64)),
    };
    text
}

fn show_loss(loss: &SalvageLoss) -> String {
    match &loss.path {
        Some(path) => format!("{path}: {}", loss.text),
        None => loss.text.clone(),
    }
}

fn former_text(ost: OstId, former: &FormerTarget) -> String {
    let since = &former.since;
    match former.is_removed {
        true => format!("not checked: ost{ost}, which was removed on {since}\n"),
        false => format!(
            "not checked: ost{ost}, which was declared lost on {since}; {} objects were there\n",
            show_count(former.objects)
        ),
    }
}

/// The problems with their kinds, for scripts.
fn list(faults: &[check::CheckFault]) -> Vec<serde_json::Value> {
    faults
        .iter()
        .map(|fault| {
            serde_json::json!({
                "kind": fault.kind(),
                "text": fault.to_string(),
                "repairable": fault.is_repairable(),
            })
        })
        .collect()
}

fn json(report: &Report) -> serde_json::Value {
    serde_json::json!({
        "clean": report.findings.faults.is_empty(),
        "seen": report.findings,
        "problems": list(&report.findings.faults),
        "repaired": list(&report.repaired),
    })
}

fn text(report: &Report) -> String {
    let findings = &report.findings;
    let mut text = format!(
        "{} inodes, {} of them directories · {} names · {} objects",
        show_count(findings.inodes),
        show_count(findings.directories),
        show_count(findings.entries),
        show_count(findings.objects)
    );
    if findings.bytes > 0 {
        text += &format!(" · {} of data", show_size(findings.bytes));
    }
    text.push('\n');
    if findings.orphans + findings.purges > 0 {
        text += &format!(
            "{} orphans, {} purges: the next start completes them\n",
            show_count(findings.orphans),
            show_count(findings.purges)
        );
    }
    if findings.lost_found.objects > 0 {
        text += &format!(
            "{} quarantined objects in lost+found of OSTs, {}\n",
            show_count(findings.lost_found.objects),
            show_size(findings.lost_found.bytes)
        );
    }
    for (ost, objects) in &findings.elsewhere {
        text += &format!(
            "not checked: ost{ost}, which must have {} objects (name its directory with --ost DIR)\n",
            show_count(*objects)
        );
    }
    for (ost, former) in &findings.former {
        text += &former_text(*ost, former);
    }
    for fault in report.repaired.iter().take(SHOWN) {
        text += &format!("repaired: {fault}\n");
    }
    for fault in findings.faults.iter().take(SHOWN) {
        let advice = if fault.is_repairable() {
            " (--repair repairs it)"
        } else {
            ""
        };
        text += &format!("problem: {fault}{advice}\n");
    }
    let left = findings.faults.len().saturating_sub(SHOWN);
    if left > 0 {
        text += &format!("… and {} more; --json lists all\n", show_count(left as u64));
    }
    text += &match (findings.faults.len(), report.repaired.len()) {
        (0, 0) => "No problems.\n".to_string(),
        (0, n) => format!("{} problems, all repaired.\n", show_count(n as u64)),
        (n, 0) => format!("{} problems.\n", show_count(n as u64)),
        (n, m) => format!(
            "{} problems are left, {} were repaired.\n",
            show_count(n as u64),
            show_count(m as u64)
        ),
    };
    text
}
