//! A copy of the metadata that has failed, because its disk was full or failed a write: its process starts again.

use crate::amount::show_size;
use crate::events::print_event;
use crate::exit::{CliResult, OrCliError};
use crate::node::StopEvents;
use crate::store_dir::StoreDir;
use gupfs_platform::{Disk, Platform};
use std::time::Duration;

/// Free space with which a copy starts again: two segments of its log, and as much for its index. With less it would soon fail again.
const SPACE_TO_GO_ON: u64 = 256 << 20;

/// The first look, and the time between two: as long as systemd waits before it starts a process again.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Returns None when the copy may be opened again, and Some with the description of an event that stops the process before.
///
/// # Errors
/// If the free space of the disk cannot be found out.
pub async fn wait_for_space(
    store_dir: &StoreDir,
    stop_events: &mut StopEvents,
    (platform, json): (&Platform, bool),
) -> CliResult<Option<String>> {
    let path = store_dir.mds();
    let mut is_told = false;
    loop {
        tokio::select! {
            biased;
            why = stop_events.wait() => return Ok(Some(why)),
            () = platform.clock.sleep(LOOK_EVERY) => {}
        }
        let space = async { Disk::real(&path)?.space().await }.await;
        let available = space
            .or_cli_error(|| format!("cannot read the free space of '{}'", path.display()))?
            .available;
        if available >= SPACE_TO_GO_ON {
            return Ok(None);
        }
        if !std::mem::replace(&mut is_told, true) {
            let text = format!(
                "'{}' has {} free: this copy of the metadata goes on when there are {}; free some space there",
                path.display(),
                show_size(available),
                show_size(SPACE_TO_GO_ON)
            );
            print_event(json, "full", &text);
            tracing::warn!("{text}");
        }
    }
}
