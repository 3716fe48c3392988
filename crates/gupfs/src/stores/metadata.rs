//! The metadata store of a directory, opened.

use super::DescriptorBudget;
use crate::exit::{CliError, CliResult};
use crate::store_dir::{LockedStore, Marker, StoreDir};
use gupfs_platform::{Disk, Platform};
use gupfs_store::index::Index;
use gupfs_store::kv::{Kv, KvOptions, KvRecovery};
use gupfs_store::log::{LogOptions, StoreId};

/// Opens log and index; the log gives the index what it lacks.
pub async fn open_metadata(
    store_dir: &StoreDir,
    marker: &Marker,
    share: DescriptorBudget,
    platform: &Platform,
) -> CliResult<(Kv, KvRecovery)> {
    let failed = |error: &(dyn std::error::Error + 'static)| {
        CliError::new(format!(
            "cannot open the metadata in '{}'",
            store_dir.mds().display()
        ))
        .because(error)
        .todo(format!(
            "restore it from a backup; or keep what can be read of it with `gupfs check {} --salvage` (docs/operate.md, \"Salvage\")",
            store_dir.root().display()
        ))
    };
    store_dir.refuse_half_exchanged()?;
    let disk = Disk::real(store_dir.mds_log()).map_err(|error| failed(&error))?;
    let dir = store_dir.mds_index();
    // fjall does its own I/O.
    let index = platform
        .tasks
        .blocking(move || Index::open_fjall(&dir, share.metadata))
        .await
        .map_err(|error| failed(&error))?;
    let store = StoreId {
        cluster: marker.cluster(),
        incarnation: marker.metadata(),
    };
    let options = KvOptions::new(LogOptions::new(store));
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

/// An empty store is formatted by whoever opens it: right for a new one, the end of all names for another.
pub fn refuse_lost_metadata(store: &LockedStore) -> CliResult<()> {
    let dir = store.dir.mds_log();
    let empty = std::fs::read_dir(&dir).map_or(true, |mut entries| entries.next().is_none());
    if store.fresh || !empty {
        return Ok(());
    }
    Err(CliError::new(format!(
        "'{}' is empty: the metadata is not there",
        dir.display()
    ))
    .todo("if it lies on a disk of its own, mount that; else restore the directory from a backup"))
}
