//! # salvage: rebuilds a damaged metadata store from its readable part
//!
//! Owns   the order (read, fill a new store, repair it, scan it, exchange the two), and the report of the losses.
//! Never  changes a file of the damaged store: the exchange moves its log and index to another directory.
//! Enter  at `run`, for `gupfs check --salvage`; at `before_start`, for a start with `--accept-loss`.
//!
//! A salvage may be interrupted at any moment and started again: until the exchange the damaged store stays in its place, and the next
//! salvage completes an interrupted exchange.

mod dirs;
mod editor;
mod names;
mod rebuild;
mod repair;
mod sources;

pub use dirs::show_date;

use super::progress::Progress;
use super::{CheckFindings, CheckOptions, Store, targets};
use crate::exit::{CliError, CliResult, Exit, OrCliError};
use crate::store_dir::{Lock, Marker, StoreDir};
use crate::stores::{DescriptorBudget, open_metadata};
use dirs::SalvageDirs;
use gupfs_namespace::initial_batch;
use gupfs_platform::{Disk, Platform};
use gupfs_proto::{OstId, OwnerEpoch, Timestamp, VirtualShards};
use gupfs_store::kv::{Kv, KvOptions};
use gupfs_store::log::{LogOptions, StopMode, StoreId};
use serde::Serialize;
use std::path::PathBuf;

/// One thing that was lost, or that was kept in a changed form.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct SalvageLoss {
    /// The kind, for scripts.
    pub kind: &'static str,
    pub text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inode: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

impl SalvageLoss {
    fn new(kind: &'static str, text: impl Into<String>) -> SalvageLoss {
        SalvageLoss {
            kind,
            text: text.into(),
            inode: None,
            path: None,
        }
    }

    fn of(mut self, ino: gupfs_proto::InodeId) -> SalvageLoss {
        self.inode = Some(format!("{:x}", ino.0));
        self
    }

    fn at(mut self, path: String) -> SalvageLoss {
        self.path = Some(path);
        self
    }
}

/// The result of a salvage.
#[derive(Default, Serialize)]
pub struct Salvaged {
    pub lost: Vec<SalvageLoss>,
    /// Inodes that were linked in /lost+found, and inodes that were rebuilt.
    pub found: Vec<SalvageLoss>,
    /// Number of repaired counts, links and records.
    #[serde(rename = "mended")]
    pub repaired: u64,
    /// Time of the newest change that was kept, in seconds since 1970.
    pub newest_kept: Option<i64>,
    /// The directory of the damaged log and index; None if nothing was damaged and the store is unchanged.
    #[serde(rename = "aside")]
    pub damaged_dir: Option<PathBuf>,
    /// The findings of the scan of the new store.
    #[serde(rename = "seen")]
    pub findings: CheckFindings,
}

impl Salvaged {
    pub fn exit(&self) -> Exit {
        match (&self.damaged_dir, self.findings.faults.is_empty()) {
            (_, false) => Exit::Failed,
            (None, true) => Exit::Fine,
            (Some(_), true) => Exit::Repaired,
        }
    }
}

/// Salvages a store that no process serves.
///
/// # Errors
/// If the store is in use, contains no metadata at all, or the new store cannot be written.
pub async fn run(
    store_dir: &StoreDir,
    options: &CheckOptions,
    platform: &Platform,
) -> CliResult<Salvaged> {
    let unusable = |error: CliError| error.exit(Exit::Unusable);
    let marker = store_dir.read_marker().map_err(unusable)?;
    let _lock = Lock::take(store_dir).map_err(unusable)?;
    let target_dirs = targets::find(store_dir, &marker, &options.osts)
        .await
        .map_err(unusable)?;
    salvage(store_dir, &marker, target_dirs, platform).await
}

/// For a start with `--accept-loss`, in the process that will serve the store: salvages the metadata if it cannot be opened. It does
/// not scan objects: the object servers quarantine those of lost inodes.
///
/// # Errors
/// If the salvage fails, or the store cannot be closed.
pub async fn before_start(
    store_dir: &StoreDir,
    marker: &Marker,
    platform: &Platform,
) -> CliResult<Option<Salvaged>> {
    let fresh = std::fs::read_dir(store_dir.mds_log())
        .map_or(true, |mut entries| entries.next().is_none())
        && !store_dir.mds_index().join("version").exists();
    if fresh {
        return Ok(None);
    }
    let budget = DescriptorBudget::of_this_process(0)?;
    match open_metadata(store_dir, marker, budget, platform).await {
        Ok((kv, _)) => {
            let closed = kv.stop(StopMode::WorkPending).await;
            closed.or_cli_error(|| "cannot close the metadata store cleanly".into())?;
            Ok(None)
        }
        Err(error) => {
            tracing::error!(%error, "cannot open the metadata store; salvaging its readable part");
            let done = salvage(store_dir, marker, Vec::new(), platform).await?;
            for loss in done.lost.iter().chain(&done.found) {
                tracing::warn!(
                    kind = loss.kind,
                    path = loss.path,
                    inode = loss.inode,
                    "{}",
                    loss.text
                );
            }
            Ok(Some(done))
        }
    }
}

async fn salvage(
    store_dir: &StoreDir,
    marker: &Marker,
    target_dirs: Vec<(OstId, PathBuf)>,
    platform: &Platform,
) -> CliResult<Salvaged> {
    refuse_missing_metadata(store_dir)?;
    let dirs = SalvageDirs::prepare(store_dir)?;
    let budget = DescriptorBudget::of_this_process(target_dirs.len())?;
    let mut progress = Progress::new(&platform.clock);
    let mut done = Salvaged::default();
    let read = sources::read(
        store_dir,
        marker,
        &dirs,
        budget,
        platform,
        &mut progress,
        &mut done,
    )
    .await?;
    done.newest_kept = read.newest.map(|time| time.secs);
    let damaged = !done.lost.is_empty();
    let kv = open_new(marker, &dirs, read, platform).await?;
    let mut store = Store {
        platform: platform.clone(),
        // So that the scan reports objects without inode.
        crashed: false,
        owner_epoch: kv.1,
        kv: kv.0,
        targets: targets::open(marker.cluster(), target_dirs, budget, platform).await,
    };
    let repaired = repair::repair(&store, marker, damaged, &mut done).await;
    progress.finish();
    // The next start has to recover as after a crash.
    store.crashed = true;
    let findings = match repaired {
        Ok(()) => store.scan(false).await,
        Err(error) => Err(error),
    };
    let closed = store.close_new().await;
    done.findings = findings?;
    closed?;
    if done.lost.is_empty() && done.found.is_empty() && done.repaired == 0 {
        dirs.discard()?;
        return Ok(done);
    }
    done.damaged_dir = Some(dirs.exchange(platform.clock.now())?);
    Ok(done)
}

/// Refuses a store without any metadata: probably its disk is not mounted.
fn refuse_missing_metadata(store_dir: &StoreDir) -> CliResult<()> {
    if store_dir.mds_swap().exists() {
        return Ok(());
    }
    let lost = store_dir.mds().join("lost");
    let is_empty =
        |dir: PathBuf| std::fs::read_dir(dir).map_or(true, |mut entries| entries.next().is_none());
    if !is_empty(store_dir.mds_log()) || !is_empty(store_dir.mds_index()) || lost.exists() {
        return Ok(());
    }
    let text = format!("there is no metadata in '{}'", store_dir.mds().display());
    Err(CliError::new(text)
        .exit(Exit::Unusable)
        .todo("if the metadata is on a separate disk, mount it; else restore the directory from a backup")
        .todo(format!(
            "if it is lost for good: `mkdir -p {0}/log {0}/index && touch {1}`, and salvage again; that rebuilds files from their objects, without names",
            store_dir.mds().display(),
            lost.display()
        )))
}

/// Opens the new store. Its log begins after all batches that the damaged log may have had.
async fn open_new(
    marker: &Marker,
    dirs: &SalvageDirs,
    read: sources::SalvagedIndex,
    platform: &Platform,
) -> CliResult<(Kv, OwnerEpoch)> {
    let failed = || "cannot create the new metadata store".to_string();
    let mut log = LogOptions::new(store_id(marker));
    log.start_after_index = true;
    log.epoch = Some(read.next_epoch);
    let disk = Disk::real(dirs.log()).or_cli_error(failed)?;
    let opened = Kv::open(disk, read.index, KvOptions::new(log), platform.clone()).await;
    let (kv, recovery) = opened.or_cli_error(failed)?;
    add_initial_records(&kv, marker, platform).await?;
    Ok((kv, recovery.log.epoch))
}

/// Adds the records that every store has, if they are missing: format, root directory, counters of each shard.
async fn add_initial_records(kv: &Kv, marker: &Marker, platform: &Platform) -> CliResult<()> {
    let failed = || "cannot read the new metadata store".to_string();
    let (now, entropy): (Timestamp, u64) = (platform.clock.now(), platform.random.u64());
    let shards = VirtualShards(marker.virtual_shards);
    let batch = initial_batch(marker.cluster(), marker.metadata(), shards, now, entropy);
    let mut missing = Vec::new();
    for (key, value) in batch {
        if kv.get(key.as_bytes()).or_cli_error(failed)?.is_none() {
            missing.push((super::records::bytes(&key), value));
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let seq = kv.stage(0, missing).or_cli_error(failed)?;
    kv.wait_committed(seq).await.or_cli_error(failed)
}

fn store_id(marker: &Marker) -> StoreId {
    StoreId {
        cluster: marker.cluster(),
        incarnation: marker.metadata(),
    }
}

impl Store {
    /// Closes the new store; unlike after a check, a failure is an error.
    async fn close_new(self) -> CliResult<()> {
        let closed = self.kv.stop(StopMode::WorkPending).await;
        for (ost, target) in self.targets {
            if let Ok(objects) = target
                && let Err(error) = objects.stop().await
            {
                tracing::error!(%ost, %error, "cannot close the target cleanly");
            }
        }
        closed.or_cli_error(|| "cannot close the new metadata store".into())
    }
}
