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

use crate::exit::{Exit, Outcome, Trouble};
use crate::home::{Home, Lock, Marker};
use crate::node::{Share, open_metadata};
use gupfs_namespace::check::Problem;
use gupfs_platform::Platform;
use gupfs_proto::{OstId, OwnerEpoch};
use gupfs_store::kv::Kv;
use gupfs_store::log::Stop;
use gupfs_store::object::LostFound;
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
pub struct Wish {
    /// Directories of OSTs that are not in the store's own, or of servers that have some.
    pub osts: Vec<PathBuf>,
    /// Read all bytes and compare them with their checksums.
    pub data: bool,
    pub repair: bool,
}

/// One thing that is wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fault {
    Record(Problem),
    Object(ObjectProblem),
    /// A target that cannot be looked at, and why.
    Target(OstId, String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Record(problem) => problem.fmt(f),
            Fault::Object(problem) => problem.fmt(f),
            Fault::Target(ost, why) => write!(f, "ost{ost} cannot be looked at: {why}"),
        }
    }
}

impl Fault {
    pub fn is_repairable(&self) -> bool {
        match self {
            Fault::Record(problem) => problem.is_repairable(),
            Fault::Object(problem) => problem.is_repairable(),
            Fault::Target(..) => false,
        }
    }

    /// As every crash leaves it, and every start settles it.
    fn is_left_by_a_crash(&self, crashed: bool) -> bool {
        let forgotten = matches!(self, Fault::Object(ObjectProblem::WithoutInode { .. }));
        (crashed && forgotten)
            || matches!(
                self,
                Fault::Record(
                    Problem::OrphanWithoutSession { .. } | Problem::WriterWithoutSession { .. }
                )
            )
    }

    /// For scripts.
    pub fn kind(&self) -> String {
        match self {
            Fault::Record(problem) => {
                let text = format!("{problem:?}");
                let end = text.find(|c: char| !c.is_alphanumeric());
                text[..end.unwrap_or(text.len())].to_string()
            }
            Fault::Object(problem) => problem.kind().to_string(),
            Fault::Target(..) => "TargetDown".to_string(),
        }
    }
}

/// What was looked at, and what was found.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Seen {
    pub inodes: u64,
    pub directories: u64,
    pub entries: u64,
    pub orphans: u64,
    pub purges: u64,
    pub objects: u64,
    /// Bytes compared with their checksums.
    pub bytes: u64,
    /// Objects in `lost+found` of OSTs: of files that are lost, and no problem.
    pub lost_found: LostFound,
    /// OSTs that were not there to be looked at, with the objects that must be on them.
    pub elsewhere: BTreeMap<OstId, u64>,
    #[serde(skip)]
    pub faults: Vec<Fault>,
}

/// The last look, and what was mended before it.
#[derive(Default)]
pub struct Report {
    pub seen: Seen,
    pub repaired: Vec<Fault>,
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
pub async fn run(home: &Home, wish: Wish, platform: &Platform) -> Outcome<Report> {
    let unusable = |trouble: Trouble| trouble.exit(Exit::Unusable);
    let marker = home.read_marker().map_err(unusable)?;
    let _lock = Lock::take(home).map_err(unusable)?;
    let places = targets::find(home, &marker, &wish.osts)
        .await
        .map_err(unusable)?;
    let store = Store::open(home, &marker, places, platform).await?;
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
    targets: Vec<targets::Opened>,
}

impl Store {
    async fn open(
        home: &Home,
        marker: &Marker,
        places: Vec<(OstId, PathBuf)>,
        platform: &Platform,
    ) -> Outcome<Store> {
        let share =
            Share::of_this_process(places.len()).map_err(|trouble| trouble.exit(Exit::Unusable))?;
        let (kv, found) = open_metadata(home, marker, share, platform).await?;
        Ok(Store {
            platform: platform.clone(),
            kv,
            crashed: !found.log.stopped,
            owner_epoch: found.log.epoch,
            targets: targets::open(marker.cluster(), places, share, platform).await,
        })
    }

    async fn check_and_repair(&self, wish: &Wish) -> Outcome<Report> {
        let mut report = Report::default();
        for round in 0..ROUNDS {
            // Bytes do not change by repairs: they are read once.
            let data = wish.data && round == 0;
            let mut seen = self.look(data).await?;
            if round > 0 {
                let damaged =
                    |fault: &&Fault| matches!(fault, Fault::Object(ObjectProblem::Damaged { .. }));
                seen.faults
                    .extend(report.seen.faults.iter().filter(damaged).cloned());
                seen.bytes = report.seen.bytes;
            }
            let (mendable, _): (Vec<Fault>, Vec<Fault>) =
                seen.faults.iter().cloned().partition(Fault::is_repairable);
            report.seen = seen;
            if !wish.repair || mendable.is_empty() {
                break;
            }
            report.repaired.extend(self.repair(mendable).await?);
        }
        Ok(report)
    }

    /// One look at everything.
    async fn look(&self, data: bool) -> Outcome<Seen> {
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
            true => Stop::WorkLeft,
            false => Stop::InOrder,
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
