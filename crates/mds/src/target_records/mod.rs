//! # target_records: records what the server must not forget of targets, before it replies to them
//!
//! Owns   the recorded identity of each target, and its retired write verifiers.
//! Never  compares identities: `osts` does.
//! Enter  at `TargetRecords::admit_local_target`, `TargetRecords::report`, `TargetRecords::retire_verifiers`.

mod local;
mod reports;
mod verifiers;

use crate::origin::RequestOrigin;
use crate::osts::Targets;
use crate::placement::Placement;
use crate::restarted_targets::RestartedTargets;
use crate::serving::ServingState;
use crate::shard_driver::ShardDriver;
use crate::store::MetadataStore;
use gupfs_namespace::{KnownTarget, Record, RecordKey};
use gupfs_proto::cluster::OwnerMark;
use gupfs_proto::{FsError, OstId};
use std::sync::Arc;

pub struct TargetRecords {
    store: Arc<MetadataStore>,
    driver: Arc<ShardDriver>,
    targets: Arc<Targets>,
    placement: Arc<Placement>,
    serving: Arc<ServingState>,
    restarted: Arc<RestartedTargets>,
}

impl TargetRecords {
    pub fn new(
        store: Arc<MetadataStore>,
        driver: Arc<ShardDriver>,
        targets: Arc<Targets>,
        placement: Arc<Placement>,
        serving: Arc<ServingState>,
        restarted: Arc<RestartedTargets>,
    ) -> TargetRecords {
        TargetRecords {
            store,
            driver,
            targets,
            placement,
            serving,
            restarted,
        }
    }

    /// This start, and the newest durable change of its log.
    pub fn owner_mark(&self) -> OwnerMark {
        OwnerMark {
            durable: self.store.durable_seq(),
            ..*self.targets.owner()
        }
    }

    /// Returns when the target's identity is recorded; with `true` when the record survives a power loss.
    pub async fn record_target(
        &self,
        ost: OstId,
        record: Option<(KnownTarget, bool)>,
    ) -> Result<(), FsError> {
        let Some((known, durably)) = record else {
            return Ok(());
        };
        let origin = RequestOrigin::server("record a target");
        let key = RecordKey::known_target(ost);
        let seq = (self.driver).stage_server_records(vec![(key, Some(known.encode()))])?;
        if !durably {
            return self.store.committed(origin, seq).await;
        }
        self.store.durable(origin, seq).await?;
        self.targets.mark_durable(ost, &known);
        Ok(())
    }
}
