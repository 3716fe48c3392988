//! Keeps the resync to its rate, and ends the copy of an object when the resync is paused.

use crate::pending_work::ResyncProgress;
use gupfs_platform::Clock;
use gupfs_proto::FsError;
use std::time::Duration;

/// How often a copy that waits asks whether the resync goes on at this rate.
const ASK_EVERY: Duration = Duration::from_millis(500);

/// The pace of all objects that the resync copies at a time.
pub struct ResyncPace<'a> {
    pub progress: &'a ResyncProgress,
    pub clock: &'a Clock,
}

impl ResyncPace<'_> {
    /// # Errors
    /// `TimedOut` if the resync is paused.
    pub fn check(&self) -> Result<(), FsError> {
        match self.progress.is_paused() {
            true => Err(FsError::TimedOut("the resync, which is paused".into())),
            false => Ok(()),
        }
    }

    /// Returns when the next bytes may be copied, after so many were.
    ///
    /// # Errors
    /// `TimedOut` if the resync is paused.
    pub async fn spend(&self, bytes: u64) -> Result<(), FsError> {
        let mut rate = self.progress.rate();
        let mut due = self.progress.spend(self.clock.boot(), bytes);
        loop {
            self.check()?;
            let now = self.clock.boot();
            if self.progress.rate() != rate {
                // The bytes cost what they do at the new rate.
                rate = self.progress.rate();
                due = self.progress.spend(now, bytes);
            }
            if now >= due {
                return Ok(());
            }
            self.clock.sleep(due.since(now).min(ASK_EVERY)).await;
        }
    }
}
