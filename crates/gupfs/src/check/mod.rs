//! # check: the consistency check of a stopped store
//!
//! Owns   reading a whole store, the comparison of objects with inodes, the report, repairs.
//! Never  checks records itself: `gupfs_namespace::check` has those rules.
//! Enter  at `run`.

mod objects;
mod progress;
mod records;
mod repair;
pub mod salvage;
mod targets;

pub use objects::{FormerTarget, ObjectProblem};

use crate::exit::{CliError, CliResult, Exit};
use crate::store_dir::{Lock, Marker, StoreDir};
use crate::stores::{DescriptorBudget, open_metadata};
use gupfs_namespace::check::Problem;
use gupfs_platform::Platform;
use gupfs_proto::{OstId, OwnerEpoch};
use gupfs_store::kv::Kv;
use gupfs_store::log::StopMode;
use gupfs_store::object::LostFoundUsage;
use progress::Progress;
use records::Records;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

/// Most scans of one check: after a repair the store is scanned again, because the problem may have hidden another.
const ROUNDS: u32 = 5;

/// The options of a check. A check without any compares names, objects and counts.
#[derive(Clone, Default)]
pub struct CheckOptions {
    /// Directories of OSTs outside the store's directory, or directories that contain such OSTs.
    pub osts: Vec<PathBuf>,
    /// Read all bytes and compare them with their checksums.
    pub data: bool,
    pub repair: bool,
}

/// One problem of a store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CheckFault {
    Record(Problem),
    Object(ObjectProblem),
    /// A target that cannot be scanned, and why.
    Target(OstId, String),
}

impl fmt::Display for CheckFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CheckFault::Record(problem) => problem.fmt(f),
            CheckFault::Object(problem) => problem.fmt(f),
            CheckFault::Target(ost, why) => write!(f, "ost{ost} cannot be checked: {why}"),
        }
    }
}

impl CheckFault {
    pub fn is_repairable(&self) -> bool {
        match self {
            CheckFault::Record(problem) => problem.is_repairable(),
            CheckFault::Object(problem) => problem.is_repairable(),
            CheckFault::Target(..) => false,
        }
    }

    /// Whether a crash leaves this and the next start cleans it up.
    fn is_crash_leftover(&self, crashed: bool) -> bool {
        let forgotten = matches!(self, CheckFault::Object(ObjectProblem::WithoutInode { .. }));
        (crashed && forgotten)
            || matches!(
                self,
                CheckFault::Record(
                    Problem::OrphanWithoutSession { .. } | Problem::WriterWithoutSession { .. }
                )
            )
    }

    /// For scripts.
    pub fn kind(&self) -> String {
        match self {
            CheckFault::Record(problem) => {
                let text = format!("{problem:?}");
                let end = text.find(|c: char| !c.is_alphanumeric());
                text[..end.unwrap_or(text.len())].to_string()
            }
            CheckFault::Object(problem) => problem.kind().to_string(),
            CheckFault::Target(..) => "TargetDown".to_string(),
        }
    }
}

/// The counts and the problems of one scan.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct CheckFindings {
    pub inodes: u64,
    pub directories: u64,
    pub entries: u64,
    pub orphans: u64,
    pub purges: u64,
    pub objects: u64,
    /// Bytes compared with their checksums.
    pub bytes: u64,
    /// Quarantined objects. They are no problem.
    pub lost_found: LostFoundUsage,
    /// OSTs that were not scanned, with the number of objects that must be on them.
    pub elsewhere: BTreeMap<OstId, u64>,
    /// OSTs that were declared lost, or removed. They are no problem.
    pub former: BTreeMap<OstId, FormerTarget>,
    #[serde(skip)]
    pub faults: Vec<CheckFault>,
}

/// The result of the last scan, and the problems that were repaired before it.
#[derive(Default)]
pub struct Report {
    pub findings: CheckFindings,
    pub repaired: Vec<CheckFault>,
}

impl Report {
    pub fn exit(&self) -> Exit {
        match (self.findings.faults.is_empty(), self.repaired.is_empty()) {
            (true, true) => Exit::Fine,
            (true, false) => Exit::Repaired,
            (false, _) => Exit::Failed,
        }
    }
}

/// Checks a store that no process serves; with `repair`, repairs the problems whose repair loses no data.
///
/// # Errors
/// If the store is in use, cannot be opened, or a repair cannot be committed.
pub async fn run(
    store_dir: &StoreDir,
    options: CheckOptions,
    platform: &Platform,
) -> CliResult<Report> {
    let unusable = |error: CliError| error.exit(Exit::Unusable);
    let marker = store_dir.read_marker().map_err(unusable)?;
    let _lock = Lock::take(store_dir).map_err(unusable)?;
    let target_dirs = targets::find(store_dir, &marker, &options.osts)
        .await
        .map_err(unusable)?;
    let store = Store::open(store_dir, &marker, target_dirs, platform).await?;
    let outcome = store.check_and_repair(&options).await;
    store.close().await;
    outcome
}

/// The opened parts of a store.
struct Store {
    platform: Platform,
    /// Read directly, not through the thread pool: this process serves no requests.
    kv: Kv,
    /// The last server did not stop cleanly: the next start cleans up.
    crashed: bool,
    owner_epoch: OwnerEpoch,
    targets: Vec<targets::OpenedTarget>,
}

impl Store {
    async fn open(
        store_dir: &StoreDir,
        marker: &Marker,
        target_dirs: Vec<(OstId, PathBuf)>,
        platform: &Platform,
    ) -> CliResult<Store> {
        let budget = DescriptorBudget::of_this_process(target_dirs.len())
            .map_err(|error| error.exit(Exit::Unusable))?;
        let (kv, recovery) = open_metadata(store_dir, marker, budget, platform).await?;
        Ok(Store {
            platform: platform.clone(),
            kv,
            crashed: !recovery.log.clean_stop,
            owner_epoch: recovery.log.epoch,
            targets: targets::open(marker.cluster(), target_dirs, budget, platform).await,
        })
    }

    async fn check_and_repair(&self, options: &CheckOptions) -> CliResult<Report> {
        let mut report = Report::default();
        for round in 0..ROUNDS {
            // Repairs do not change bytes, so they are read once.
            let data = options.data && round == 0;
            let mut findings = self.scan(data).await?;
            if round > 0 {
                let damaged = |fault: &&CheckFault| {
                    matches!(fault, CheckFault::Object(ObjectProblem::Damaged { .. }))
                };
                let faults = report.findings.faults.iter();
                let before = faults.filter(|fault| !report.repaired.contains(fault));
                findings.faults.extend(before.filter(damaged).cloned());
                findings.bytes = report.findings.bytes;
            }
            let (repairable, _): (Vec<CheckFault>, Vec<CheckFault>) = findings
                .faults
                .iter()
                .cloned()
                .partition(CheckFault::is_repairable);
            report.findings = findings;
            if !options.repair || repairable.is_empty() {
                break;
            }
            report.repaired.extend(self.repair(repairable).await?);
        }
        Ok(report)
    }

    /// Scans all records and all objects.
    async fn scan(&self, data: bool) -> CliResult<CheckFindings> {
        let mut progress = Progress::new(&self.platform.clock);
        let mut records = Records::read(&self.kv, &mut progress)?;
        let mut findings = records.findings;
        let scanned =
            targets::scan(&self.targets, &mut records.expected, data, &mut progress).await;
        findings.objects = scanned.objects;
        findings.bytes = scanned.bytes;
        findings.lost_found = scanned.lost_found;
        findings.elsewhere = scanned.elsewhere;
        findings.former = scanned.former;
        findings.faults.extend(scanned.faults);
        findings
            .faults
            .retain(|fault| !fault.is_crash_leftover(self.crashed));
        progress.finish();
        Ok(findings)
    }

    async fn close(self) {
        let how = match self.crashed {
            true => StopMode::WorkPending,
            false => StopMode::Clean,
        };
        if let Err(error) = self.kv.stop(how).await {
            tracing::error!(%error, "cannot close the metadata store cleanly");
        }
        for (ost, target) in self.targets {
            if let Ok(objects) = target
                && let Err(error) = objects.stop().await
            {
                tracing::error!(%ost, %error, "cannot close the target cleanly");
            }
        }
    }
}
