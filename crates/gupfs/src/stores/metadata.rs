//! Opening the metadata store of a store directory.

use super::DescriptorBudget;
use crate::exit::{CliError, CliResult};
use crate::store_dir::{LockedStore, Marker, StoreDir};
use gupfs_platform::{Disk, Platform};
use gupfs_store::index::Index;
use gupfs_store::kv::{Kv, KvOptions, KvRecovery};
use gupfs_store::log::{LogOptions, StoreId};

/// Opens log and index, and replays the part of the log that the index lacks.
///
/// # Errors
/// If a salvage is incomplete, or log or index cannot be read.
pub async fn open_metadata(
    store_dir: &StoreDir,
    marker: &Marker,
    budget: DescriptorBudget,
    platform: &Platform,
) -> CliResult<(Kv, KvRecovery)> {
    let failed = |error: &(dyn std::error::Error + 'static)| {
        CliError::new(format!(
            "cannot open the metadata in '{}'",
            store_dir.mds().display()
        ))
        .because(error)
        .todo(format!(
            "restore it from a backup; or rebuild the readable part of it with `gupfs check {} --salvage` (docs/operate.md, \"Salvage\")",
            store_dir.root().display()
        ))
    };
    store_dir.refuse_half_exchanged()?;
    let disk = Disk::real(store_dir.mds_log()).map_err(|error| failed(&error))?;
    let dir = store_dir.mds_index();
    // fjall does blocking I/O itself.
    let index = platform
        .tasks
        .blocking(move || Index::open_fjall(&dir, budget.metadata))
        .await
        .map_err(|error| failed(&error))?;
    let options = KvOptions::new(LogOptions::new(metadata_store_id(marker)));
    let (kv, recovery) = Kv::open(disk, index, options, platform.clone())
        .await
        .map_err(|error| failed(&error))?;
    tracing::info!(
        last = recovery.log.last.0,
        index = recovery.applied.0,
        replayed = recovery.replayed,
        torn = ?recovery.log.torn_tail,
        "metadata store opened"
    );
    Ok((kv, recovery))
}

/// The identity of the metadata store of a directory.
pub fn metadata_store_id(marker: &Marker) -> StoreId {
    StoreId {
        cluster: marker.cluster(),
        incarnation: marker.metadata(),
    }
}

/// Refuses a store that is not new and whose log is gone. Opening it would initialise an empty store, without any name.
///
/// # Errors
/// If the log's directory is empty or missing.
pub fn refuse_lost_metadata(store: &LockedStore) -> CliResult<()> {
    let dir = store.dir.mds_log();
    let empty = std::fs::read_dir(&dir).map_or(true, |mut entries| entries.next().is_none());
    if store.fresh || !empty {
        return Ok(());
    }
    Err(CliError::new(format!(
        "'{}' is empty: the metadata is missing",
        dir.display()
    ))
    .todo(
        "if the metadata is on a separate disk, mount it; else restore the directory from a backup",
    ))
}
