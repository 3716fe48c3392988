//! Space: what targets have left decides where new files go, what the metadata disk has left whether anything may grow.

use crate::core::Core;
use crate::limits::SPACE_EVERY;
use crate::reserve;
use gupfs_store::log::Headroom;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

impl Core {
    pub(super) async fn watch_space_for_ever(self: Arc<Self>) {
        loop {
            self.platform.clock.sleep(SPACE_EVERY).await;
            self.look_at_space().await;
        }
    }

    /// Asks the targets and the metadata disk once.
    pub async fn look_at_space(&self) {
        self.look_at_own_disk().await;
        self.targets.poll_space().await;
        self.tell_placement();
    }

    /// New layouts choose among the targets as they are known now.
    pub fn tell_placement(&self) {
        let mut shard = self.shard.lock();
        // Looked at under the lock: a view from before a report never replaces one from after it.
        shard.targets = self.targets.placement();
    }

    async fn look_at_own_disk(&self) {
        let log_has_room = self.kv.headroom() == Headroom::Plenty;
        let disk_has_room = match self.disk.space().await {
            Ok(space) => reserve::allows_growth(&space),
            Err(error) => {
                // Not knowing is no reason to refuse: the log says itself when it is full.
                tracing::warn!(%error, "cannot ask the metadata disk for its space");
                true
            }
        };
        let allowed = log_has_room && disk_has_room;
        if self.growth_allowed.swap(allowed, Relaxed) != allowed {
            if allowed {
                tracing::info!("the metadata disk has room again");
            } else {
                tracing::warn!("the metadata disk has only its reserve left: only removal goes on");
            }
        }
    }
}
