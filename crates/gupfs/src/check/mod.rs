//! # check: do names, objects and counts of a stopped store fit together
//!
//! Owns   reading a whole store, the comparison of objects with inodes, the report, repairs.
//! Never  judges records by itself: those rules are `gupfs_namespace::check`.
//! Enter  at `run`.

mod objects;
mod progress;
mod records;
mod repair;
pub mod salvage;
mod targets;

pub use objects::ObjectProblem;

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

/// How often a repair is followed by another look: one may show what another hid.
const ROUNDS: u32 = 5;

/// What to do beside looking at names and objects.
#[derive(Clone, Default)]
pub struct CheckOptions {
    /// Directories of OSTs that are not in the store's own, or of servers that have some.
    pub osts: Vec<PathBuf>,
    /// Read all bytes and compare them with their checksums.
    pub data: bool,
    pub repair: bool,
}

/// One thing that is wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CheckFault {
    Record(Problem),
    Object(ObjectProblem),
    /// A target that cannot be looked at, and why.
    Target(OstId, String),
}

impl fmt::Display for CheckFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CheckFault::Record(problem) => problem.fmt(f),
            CheckFault::Object(problem) => problem.fmt(f),
            CheckFault::Target(ost, why) => write!(f, "ost{ost} cannot be looked at: {why}"),
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

    /// As every crash leaves it, and every start settles it.
    fn is_left_by_a_crash(&self, crashed: bool) -> bool {
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

/// What was looked at, and what was found.
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
    /// Objects in `lost+found` of OSTs: of files that are lost, and no problem.
    pub lost_found: LostFoundUsage,
    /// OSTs that were not there to be looked at, with the objects that must be on them.
    pub elsewhere: BTreeMap<OstId, u64>,
    #[serde(skip)]
    pub faults: Vec<CheckFault>,
}

/// The last look, and what was mended before it.
#[derive(Default)]
pub struct Report {
    pub seen: CheckFindings,
    pub repaired: Vec<CheckFault>,
}

impl Report {
    pub fn exit(&self) -> Exit {
        match (self.seen.faults.is_empty(), self.repaired.is_empty()) {
            (true, true) => Exit::Fine,
            (true, false) => Exit::Repaired,
            (false, _) => Exit::Failed,
        }
    }
}

/// Looks at a store that nothing serves; with `repair`, mends what loses nothing.
pub async fn run(
    store_dir: &StoreDir,
    wish: CheckOptions,
    platform: &Platform,
) -> CliResult<Report> {
    let unusable = |error: CliError| error.exit(Exit::Unusable);
    let marker = store_dir.read_marker().map_err(unusable)?;
    let _lock = Lock::take(store_dir).map_err(unusable)?;
    let places = targets::find(store_dir, &marker, &wish.osts)
        .await
        .map_err(unusable)?;
    let store = Store::open(store_dir, &marker, places, platform).await?;
    let outcome = store.check_and_repair(&wish).await;
    store.close().await;
    outcome
}

/// The opened parts of a store.
struct Store {
    platform: Platform,
    /// Read without hand-offs: this process has nothing else to do.
    kv: Kv,
    /// Its last owner did not stop in order: the next start clears up.
    crashed: bool,
    owner_epoch: OwnerEpoch,
    targets: Vec<targets::OpenedTarget>,
}

impl Store {
    async fn open(
        store_dir: &StoreDir,
        marker: &Marker,
        places: Vec<(OstId, PathBuf)>,
        platform: &Platform,
    ) -> CliResult<Store> {
        let share = DescriptorBudget::of_this_process(places.len())
            .map_err(|error| error.exit(Exit::Unusable))?;
        let (kv, found) = open_metadata(store_dir, marker, share, platform).await?;
        Ok(Store {
            platform: platform.clone(),
            kv,
            crashed: !found.log.clean_stop,
            owner_epoch: found.log.epoch,
            targets: targets::open(marker.cluster(), places, share, platform).await,
        })
    }

    async fn check_and_repair(&self, wish: &CheckOptions) -> CliResult<Report> {
        let mut report = Report::default();
        for round in 0..ROUNDS {
            // Bytes do not change by repairs: they are read once.
            let data = wish.data && round == 0;
            let mut seen = self.look(data).await?;
            if round > 0 {
                let damaged = |fault: &&CheckFault| {
                    matches!(fault, CheckFault::Object(ObjectProblem::Damaged { .. }))
                };
                seen.faults
                    .extend(report.seen.faults.iter().filter(damaged).cloned());
                seen.bytes = report.seen.bytes;
            }
            let (mendable, _): (Vec<CheckFault>, Vec<CheckFault>) = seen
                .faults
                .iter()
                .cloned()
                .partition(CheckFault::is_repairable);
            report.seen = seen;
            if !wish.repair || mendable.is_empty() {
                break;
            }
            report.repaired.extend(self.repair(mendable).await?);
        }
        Ok(report)
    }

    /// One look at everything.
    async fn look(&self, data: bool) -> CliResult<CheckFindings> {
        let mut progress = Progress::new(&self.platform.clock);
        let mut records = Records::read(&self.kv, &mut progress)?;
        let mut seen = records.seen;
        let looked = targets::look(&self.targets, &mut records.expected, data, &mut progress).await;
        seen.objects = looked.objects;
        seen.bytes = looked.bytes;
        seen.lost_found = looked.lost_found;
        seen.elsewhere = looked.elsewhere;
        seen.faults.extend(looked.faults);
        seen.faults
            .retain(|fault| !fault.is_left_by_a_crash(self.crashed));
        progress.finish();
        Ok(seen)
    }

    async fn close(self) {
        let how = match self.crashed {
            true => StopMode::WorkPending,
            false => StopMode::Clean,
        };
        if let Err(error) = self.kv.stop(how).await {
            tracing::error!(%error, "the metadata store could not be closed cleanly");
        }
        for (ost, target) in self.targets {
            if let Ok(objects) = target
                && let Err(error) = objects.stop().await
            {
                tracing::error!(%ost, %error, "the target could not be closed cleanly");
            }
        }
    }
}
