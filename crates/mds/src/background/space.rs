//! Free space: that of the targets decides where new files go, that of the metadata disk whether anything may grow.

use crate::core::Core;
use crate::limits::SPACE_EVERY;
use crate::reserve;
use gupfs_store::log::Headroom;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

impl Core {
    pub(super) async fn run_space_watch(self: Arc<Self>) {
        loop {
            self.platform.clock.sleep(SPACE_EVERY).await;
            self.check_space().await;
        }
    }

    /// Asks the targets and the metadata disk once.
    pub async fn check_space(&self) {
        self.check_metadata_disk().await;
        self.targets.poll_space().await;
        self.update_placement();
    }

    /// New layouts choose among the targets as they are known now.
    pub fn update_placement(&self) {
        let mut shard = self.shard.lock();
        // Read under the lock: the state before a report never replaces the state after it.
        shard.targets = self.targets.placement();
    }

    async fn check_metadata_disk(&self) {
        let log_has_room = self.kv.headroom() == Headroom::Plenty;
        let disk_has_room = match self.disk.space().await {
            Ok(space) => reserve::allows_growth(&space),
            Err(error) => {
                // An unknown value is no reason to refuse: the log itself reports when it is full.
                tracing::warn!(%error, "cannot read the free space of the metadata disk");
                true
            }
        };
        let allowed = log_has_room && disk_has_room;
        if self.growth_allowed.swap(allowed, Relaxed) != allowed {
            if allowed {
                tracing::info!("the metadata disk has free space again; all changes are allowed");
            } else {
                tracing::warn!(
                    "the metadata disk has only its reserve left: only removal is allowed; free space on it"
                );
            }
        }
    }
}
