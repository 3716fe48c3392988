//! Keeps the copies of a rebalance to its rate, and ends them when it is paused, or when something else goes first.

use crate::limits::COPY_ASKS_EVERY;
use crate::pending_work::{RebalanceProgress, ReplacementProgress};
use gupfs_platform::Clock;
use gupfs_proto::FsError;
use std::time::Duration;

pub struct CopyPace<'a> {
    pub rebalance: &'a RebalanceProgress,
    pub replacement: &'a ReplacementProgress,
    pub clock: &'a Clock,
}

impl CopyPace<'_> {
    /// Returns when the next bytes may be copied, after so many were.
    ///
    /// # Errors
    /// `TimedOut` if the rebalance was paused or cancelled meanwhile, or has to wait.
    pub async fn spend(&self, bytes: u64) -> Result<(), FsError> {
        self.rebalance.copied(bytes);
        let begun = self.clock.boot();
        loop {
            let Some(settings) = self.rebalance.active() else {
                return Err(FsError::TimedOut("a rebalance that was paused".into()));
            };
            if self.replacement.goes_first() {
                return Err(FsError::TimedOut("a rebalance beside a drain".into()));
            }
            // The rate may have changed meanwhile.
            let Some(rate) = settings.rate else {
                return Ok(());
            };
            let due = Duration::from_secs_f64(bytes as f64 / rate.max(1) as f64);
            let waited = self.clock.boot().since(begun);
            let Some(left) = due.checked_sub(waited).filter(|left| !left.is_zero()) else {
                return Ok(());
            };
            self.clock.sleep(left.min(COPY_ASKS_EVERY)).await;
        }
    }
}
