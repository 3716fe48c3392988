//! Ends a process whose stores have failed, so that its service manager can start it again.

use crate::exit::CliError;
use gupfs_mds::Mds;
use gupfs_oss::Oss;
use gupfs_platform::Clock;
use std::time::Duration;

/// How often the stores are checked. A check takes a few locks, and clients wait until the process has started again.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// How long the end waits until the OSTs have recorded that their write verifiers are retired. A disk that hangs must not delay it
/// longer.
const RETIRE_TIMEOUT: Duration = Duration::from_secs(5);

/// Returns an error when the metadata store or all serving OSTs have failed. Only a new start can find out what their disks contain.
pub async fn wait_for_store_failure(
    mds: Option<&Mds>,
    oss: Option<&Oss>,
    clock: &Clock,
) -> CliError {
    loop {
        if let Some(why) = mds.and_then(Mds::failure) {
            return failure("the metadata store has failed", &why);
        }
        if let Some(oss) = oss
            && let Some(why) = oss.failure()
        {
            tokio::select! {
                () = oss.wait_verifiers_retired() => {}
                () = clock.sleep(RETIRE_TIMEOUT) => {}
            }
            return failure("all OSTs of this process have failed", &why);
        }
        clock.sleep(CHECK_INTERVAL).await;
    }
}

fn failure(what: &str, why: &str) -> CliError {
    CliError::new(format!("{what}: {why}; this process stops"))
        .todo("check the disk, then start the process again: all data that fsync acknowledged is kept, and clients wait for their servers for a while")
}
