//! Keeps a drain to its rate, and ends the move of an object when the drain is paused.

use crate::osts::Targets;
use gupfs_platform::Clock;
use gupfs_proto::{FsError, OstId};
use std::time::Duration;
use tokio::sync::Mutex;

/// How often a move that waits asks whether its drain goes on at this rate.
const ASK_EVERY: Duration = Duration::from_millis(500);

/// The pace of the objects that leave one OST.
pub struct DrainPace<'a> {
    targets: &'a Targets,
    clock: &'a Clock,
    ost: OstId,
    /// Held by the region that waits; others that were copied at the same time wait after it.
    turn: Mutex<()>,
}

impl<'a> DrainPace<'a> {
    pub fn new(targets: &'a Targets, clock: &'a Clock, ost: OstId) -> DrainPace<'a> {
        DrainPace {
            targets,
            clock,
            ost,
            turn: Mutex::new(()),
        }
    }

    /// Returns when the next bytes may be copied, after so many were.
    ///
    /// # Errors
    /// `TargetDown` if the drain was paused or cancelled meanwhile.
    pub async fn spend(&self, bytes: u64) -> Result<(), FsError> {
        let _turn = self.turn.lock().await;
        let begun = self.clock.boot();
        loop {
            if !self.targets.moving().contains_key(&self.ost) {
                let reason = "its drain was paused or cancelled".to_owned();
                return Err(FsError::TargetDown {
                    ost: self.ost,
                    reason,
                });
            }
            // The rate may have changed meanwhile.
            let Some(rate) = self.targets.drain_settings(self.ost).rate else {
                return Ok(());
            };
            let due = Duration::from_secs_f64(bytes as f64 / rate.max(1) as f64);
            let waited = self.clock.boot().since(begun);
            let Some(left) = due.checked_sub(waited).filter(|left| !left.is_zero()) else {
                return Ok(());
            };
            self.clock.sleep(left.min(ASK_EVERY)).await;
        }
    }
}
