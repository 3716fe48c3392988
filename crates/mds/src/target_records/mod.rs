//! # target_records: records what the server must not forget of targets, before it replies to them
//!
//! Owns   the recorded identity of each target, whether it is drained, was declared lost, or an older copy of it is accepted, and its retired write verifiers.
//! Never  compares identities: `osts` does.
//! Enter  at `TargetRecords::admit_local_target`, `TargetRecords::report`, `TargetRecords::accept_copy`, `TargetRecords::declare_lost`, `TargetRecords::drain`,
//!        `TargetRecords::remove`, `TargetRecords::retire_verifiers`.

mod accept_loss;
mod drain;
mod local;
mod lost;
mod reports;
mod verifiers;

use crate::origin::RequestOrigin;
use crate::osts::Targets;
use crate::pending_work::{ReplacementProgress, SweepProgress};
use crate::placement::Placement;
use crate::restarted_targets::RestartedTargets;
use crate::serving::ServingState;
use crate::shard_driver::ShardDriver;
use crate::store::MetadataStore;
use gupfs_namespace::{KnownTarget, Record, RecordKey};
use gupfs_platform::Clock;
use gupfs_proto::cluster::OwnerMark;
use gupfs_proto::{FsError, OstId, Seq};
use parking_lot::Mutex;
use std::sync::Arc;

pub struct TargetRecords {
    store: Arc<MetadataStore>,
    driver: Arc<ShardDriver>,
    targets: Arc<Targets>,
    placement: Arc<Placement>,
    serving: Arc<ServingState>,
    restarted: Arc<RestartedTargets>,
    replacement: Arc<ReplacementProgress>,
    sweep: Arc<SweepProgress>,
    clock: Clock,
    /// Locked while the record of a target is read and staged.
    staging: Mutex<()>,
}

/// What `TargetRecords` uses of the server.
pub struct TargetRecordsParts {
    pub store: Arc<MetadataStore>,
    pub driver: Arc<ShardDriver>,
    pub targets: Arc<Targets>,
    pub placement: Arc<Placement>,
    pub serving: Arc<ServingState>,
    pub restarted: Arc<RestartedTargets>,
    pub replacement: Arc<ReplacementProgress>,
    pub sweep: Arc<SweepProgress>,
    pub clock: Clock,
}

impl TargetRecords {
    pub fn new(parts: TargetRecordsParts) -> TargetRecords {
        TargetRecords {
            store: parts.store,
            driver: parts.driver,
            targets: parts.targets,
            placement: parts.placement,
            serving: parts.serving,
            restarted: parts.restarted,
            replacement: parts.replacement,
            sweep: parts.sweep,
            clock: parts.clock,
            staging: Mutex::new(()),
        }
    }

    /// This start, and the newest durable change of its log.
    pub fn owner_mark(&self) -> OwnerMark {
        OwnerMark {
            durable: self.store.durable_seq(),
            ..*self.targets.owner()
        }
    }

    /// Stages the target's newest record: one that a report has made must not undo that the target was declared lost meanwhile.
    fn stage_record(&self, ost: OstId, known: KnownTarget) -> Result<(KnownTarget, Seq), FsError> {
        let _in_order = self.staging.lock();
        let known = self.targets.recorded(ost).unwrap_or(known);
        let key = RecordKey::known_target(ost);
        let seq = (self.driver).stage_server_records(vec![(key, Some(known.encode()))])?;
        Ok((known, seq))
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
        let (known, seq) = self.stage_record(ost, known)?;
        if !durably {
            return self.store.committed(origin, seq).await;
        }
        self.store.durable(origin, seq).await?;
        self.targets.mark_durable(ost, &known);
        Ok(())
    }
}
