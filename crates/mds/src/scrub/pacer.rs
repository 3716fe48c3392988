//! Keeps a scrub from reading faster than it may.

use crate::pending_work::ScrubRate;
use gupfs_platform::Clock;
use std::time::Duration;

pub struct Pacer {
    pub rate: ScrubRate,
    pub clock: Clock,
}

impl Pacer {
    /// Pauses for as long as these bytes take at the rate.
    pub async fn spend(&self, bytes: u64) {
        if let Some(rate) = self.rate.0
            && bytes > 0
        {
            let pause = Duration::from_secs_f64(bytes as f64 / rate.max(1) as f64);
            self.clock.sleep(pause).await;
        }
    }
}
