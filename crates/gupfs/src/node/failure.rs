//! A process that has nothing left to serve ends, so that its service manager can start it again.

use crate::exit::CliError;
use gupfs_mds::Mds;
use gupfs_oss::Oss;
use gupfs_platform::Clock;
use std::time::Duration;

/// A look costs a few locks, and clients wait meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// How long an end waits until it is written down that lives are over; a disk that does not answer would keep it for ever.
const NOTES_WAIT: Duration = Duration::from_secs(5);

/// Returns when the metadata store failed, or all OSTs that served: what is on their disks is unknown until they are opened
/// again.
pub async fn nothing_left_to_serve(
    mds: Option<&Mds>,
    oss: Option<&Oss>,
    clock: &Clock,
) -> CliError {
    loop {
        if let Some(why) = mds.and_then(Mds::failure) {
            return ended("the metadata can be served no more", &why);
        }
        if let Some(oss) = oss
            && let Some(why) = oss.failure()
        {
            tokio::select! {
                () = oss.wait_verifiers_retired() => {}
                () = clock.sleep(NOTES_WAIT) => {}
            }
            return ended("every OST that served has failed", &why);
        }
        clock.sleep(LOOK_EVERY).await;
    }
}

fn ended(what: &str, why: &str) -> CliError {
    CliError::new(format!("{what}: {why}; this process ends"))
        .todo("look after the disk, then start it again: what fsync acknowledged is kept, and clients wait for a while")
}
