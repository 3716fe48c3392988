//! # salvage: a metadata store made again from what can be read of a damaged one
//!
//! Owns   the order (read, make anew beside it, mend, look, exchange), and the report of what was lost.
//! Never  changes a file of the damaged store: its log and its index are moved aside as they are.
//! Enter  at `run`, for `gupfs check --salvage`; at `before_start`, for a start with `--accept-loss`.
//!
//! Interrupted at any moment, it can be begun again: until the exchange the damaged store is where it was, and the next
//! start or check of the store completes an exchange that was interrupted.

mod dirs;
mod editor;
mod mend;
mod names;
mod rebuild;
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

/// One thing that was lost, or kept in another way than it was.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct SalvageLoss {
    /// For scripts.
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

/// What a salvage did.
#[derive(Default, Serialize)]
pub struct Salvaged {
    pub lost: Vec<SalvageLoss>,
    /// What has its name in /lost+found now, and files that were made again from their objects.
    pub found: Vec<SalvageLoss>,
    /// Counts, links and records that were set right.
    pub mended: u64,
    /// When the newest change was made that is kept, in seconds since 1970.
    pub newest_kept: Option<i64>,
    /// Where the damaged log and index are now; none: nothing was wrong, and the store is as it was.
    pub aside: Option<PathBuf>,
    /// What is there now.
    pub seen: CheckFindings,
}

impl Salvaged {
    pub fn exit(&self) -> Exit {
        match (&self.aside, self.seen.faults.is_empty()) {
            (_, false) => Exit::Failed,
            (None, true) => Exit::Fine,
            (Some(_), true) => Exit::Repaired,
        }
    }
}

/// Salvages a store that nothing serves.
pub async fn run(
    store_dir: &StoreDir,
    wish: &CheckOptions,
    platform: &Platform,
) -> CliResult<Salvaged> {
    let unusable = |error: CliError| error.exit(Exit::Unusable);
    let marker = store_dir.read_marker().map_err(unusable)?;
    let _lock = Lock::take(store_dir).map_err(unusable)?;
    let places = targets::find(store_dir, &marker, &wish.osts)
        .await
        .map_err(unusable)?;
    salvage(store_dir, &marker, places, platform).await
}

/// For a start with `--accept-loss`, in the process that will serve the store: salvages the metadata if it does not open. Objects are
/// not looked at: those that no inode names any more are the object servers' to keep.
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
    let share = DescriptorBudget::of_this_process(0)?;
    match open_metadata(store_dir, marker, share, platform).await {
        Ok((kv, _)) => {
            let closed = kv.stop(StopMode::WorkPending).await;
            closed.or_cli_error(|| "the metadata store could not be closed cleanly".into())?;
            Ok(None)
        }
        Err(error) => {
            tracing::error!(%error, "the metadata store does not open: what can be read of it is kept");
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
    places: Vec<(OstId, PathBuf)>,
    platform: &Platform,
) -> CliResult<Salvaged> {
    refuse_nothing(store_dir)?;
    let place = SalvageDirs::prepare(store_dir)?;
    let share = DescriptorBudget::of_this_process(places.len())?;
    let mut progress = Progress::new(&platform.clock);
    let mut done = Salvaged::default();
    let read = sources::read(
        store_dir,
        marker,
        &place,
        share,
        platform,
        &mut progress,
        &mut done,
    )
    .await?;
    done.newest_kept = read.newest.map(|time| time.secs);
    let damaged = !done.lost.is_empty();
    let kv = open_new(marker, &place, read, platform).await?;
    let mut store = Store {
        platform: platform.clone(),
        // Objects without inodes are looked at, too.
        crashed: false,
        owner_epoch: kv.1,
        kv: kv.0,
        targets: targets::open(marker.cluster(), places, share, platform).await,
    };
    let mended = mend::mend(&store, marker, damaged, &mut done).await;
    progress.finish();
    // Whatever the last owner left, the next one has to do what is done after a crash.
    store.crashed = true;
    let seen = match mended {
        Ok(()) => store.look(false).await,
        Err(error) => Err(error),
    };
    let closed = store.close_new().await;
    done.seen = seen?;
    closed?;
    if done.lost.is_empty() && done.found.is_empty() && done.mended == 0 {
        place.discard()?;
        return Ok(done);
    }
    done.aside = Some(place.exchange(platform.clock.now())?);
    Ok(done)
}

/// Metadata that is not there at all is more likely on a disk that is not mounted than lost.
fn refuse_nothing(store_dir: &StoreDir) -> CliResult<()> {
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
        .todo("if it lies on a disk of its own, mount that; else restore the directory from a backup")
        .todo(format!(
            "if it is lost for good: `mkdir -p {0}/log {0}/index && touch {1}`, and salvage again; files come back from their objects, without names",
            store_dir.mds().display(),
            lost.display()
        )))
}

/// The new store, with a log that begins behind everything the damaged one may have said.
async fn open_new(
    marker: &Marker,
    place: &SalvageDirs,
    read: sources::SalvagedIndex,
    platform: &Platform,
) -> CliResult<(Kv, OwnerEpoch)> {
    let failed = || "cannot make the new metadata store".to_string();
    let mut log = LogOptions::new(store_id(marker));
    log.start_after_index = true;
    log.epoch = Some(read.next_epoch);
    let disk = Disk::real(place.log()).or_cli_error(failed)?;
    let opened = Kv::open(disk, read.index, KvOptions::new(log), platform.clone()).await;
    let (kv, recovery) = opened.or_cli_error(failed)?;
    put_what_must_be_there(&kv, marker, platform).await?;
    Ok((kv, recovery.log.epoch))
}

/// Records without which a store holds no names: the format, the root, the counters of each shard.
async fn put_what_must_be_there(kv: &Kv, marker: &Marker, platform: &Platform) -> CliResult<()> {
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
    /// Closes what is going to be the store: unlike a look's, a failure counts.
    async fn close_new(self) -> CliResult<()> {
        let closed = self.kv.stop(StopMode::WorkPending).await;
        for (ost, target) in self.targets {
            if let Ok(objects) = target
                && let Err(error) = objects.stop().await
            {
                tracing::error!(%ost, %error, "the target could not be closed cleanly");
            }
        }
        closed.or_cli_error(|| "the new metadata store could not be closed".into())
    }
}
