//! Free space: that of the targets decides where new files go, that of the metadata disk whether anything may grow.

use crate::limits::SPACE_EVERY;
use crate::osts::Targets;
use crate::placement::Placement;
use crate::reserve::{MetadataReserve, allows_growth};
use crate::store::MetadataStore;
use crate::successor::Successor;
use gupfs_platform::{Clock, Disk};
use gupfs_store::log::Headroom;
use std::sync::Arc;

pub struct SpaceWatch {
    pub store: Arc<MetadataStore>,
    /// The disk that holds the store: used only to ask for its free space.
    pub disk: Disk,
    pub targets: Arc<Targets>,
    pub placement: Arc<Placement>,
    pub reserve: Arc<MetadataReserve>,
    pub successor: Option<Arc<dyn Successor>>,
    pub clock: Clock,
}

impl SpaceWatch {
    pub async fn run(self: Arc<Self>) {
        loop {
            self.clock.sleep(SPACE_EVERY).await;
            self.check_space().await;
        }
    }

    /// Asks the targets and the metadata disk once.
    pub async fn check_space(&self) {
        self.check_metadata_disk().await;
        self.targets.poll_space().await;
        self.placement.update();
    }

    async fn check_metadata_disk(&self) {
        let log_has_room = self.store.headroom() == Headroom::Plenty;
        let disk_has_room = match self.disk.space().await {
            Ok(space) => allows_growth(&space),
            Err(error) => {
                // An unknown value is no reason to refuse: the log itself reports when it is full.
                tracing::warn!(%error, "cannot read the free space of the metadata disk");
                true
            }
        };
        let allowed = log_has_room && disk_has_room;
        // Until the other one owns the metadata this server lets them grow: programs see no error.
        if !allowed && self.is_replaced().await {
            return;
        }
        if self.reserve.set_growth_allowed(allowed) != allowed {
            if allowed {
                tracing::info!("the metadata disk has free space again; all changes are allowed");
            } else {
                tracing::warn!(
                    "the metadata disk has only its reserve left: only removal is allowed; free space on it"
                );
            }
        }
    }

    /// Whether another server is about to own the metadata.
    async fn is_replaced(&self) -> bool {
        let Some(successor) = &self.successor else {
            return false;
        };
        successor.replace_full_owner().await
    }
}
