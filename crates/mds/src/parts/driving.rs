//! The driver of the state machine, and the parts that provide what operations need besides records.

use super::MdsPartsInput;
use super::lower::LowerParts;
use crate::drive::OperationDriver;
use crate::glimpse::LeaseCallbacks;
use crate::inode_numbers::InodeNumbers;
use crate::mirrors::MirrorKeeper;
use crate::pending_work::{
    ConfirmProgress, ConversionQueue, PendingTruncates, PurgeQueue, RebalanceProgress,
    RemovedFiles, ReplacementProgress, ResyncProgress, ScrubProgress, UnfinishedWork,
};
use crate::restarted_targets::RestartedTargets;
use crate::shard_driver::{ShardDriver, ShardDriverParts};
use crate::truncates::TruncateRunner;
use crate::write_leases::WriteLeases;
use crate::writer_recovery::WriterRecovery;
use gupfs_proto::Caller;
use std::sync::Arc;

/// What staged batches leave to do.
#[derive(Default)]
pub struct PendingParts {
    pub truncates: Arc<PendingTruncates>,
    pub purge_queue: Arc<PurgeQueue>,
    pub removed_files: Arc<RemovedFiles>,
    pub confirm: Arc<ConfirmProgress>,
    pub resync: Arc<ResyncProgress>,
    pub replacement: Arc<ReplacementProgress>,
    pub rebalance: Arc<RebalanceProgress>,
    pub scrub: Arc<ScrubProgress>,
    pub conversions: Arc<ConversionQueue>,
    pub unfinished: Arc<UnfinishedWork>,
}

pub struct DriverParts {
    pub driver: Arc<ShardDriver>,
    pub numbers: Arc<InodeNumbers>,
    pub truncates: Arc<TruncateRunner>,
    pub writer_recovery: Arc<WriterRecovery>,
    pub operations: Arc<OperationDriver>,
    pub restarted_targets: Arc<RestartedTargets>,
    pub lease_callbacks: Arc<LeaseCallbacks>,
}

impl DriverParts {
    pub fn new(input: &MdsPartsInput, lower: &LowerParts, pending: &PendingParts) -> DriverParts {
        let leases = Arc::new(WriteLeases::default());
        let driver = Arc::new(shard_driver(input, lower, pending, leases.clone()));
        let numbers = Arc::new(InodeNumbers::new(
            lower.store.clone(),
            driver.clone(),
            lower.waits.clone(),
            lower.stats.clone(),
        ));
        let mirrors = Arc::new(MirrorKeeper::new(
            lower.store.clone(),
            driver.clone(),
            input.targets.clone(),
            lower.callbacks.clone(),
        ));
        let truncates = Arc::new(TruncateRunner::new(
            lower.store.clone(),
            driver.clone(),
            input.targets.clone(),
            mirrors.clone(),
            lower.waits.clone(),
            pending.truncates.clone(),
            input.keeps_sessions,
        ));
        let writer_recovery = Arc::new(WriterRecovery::new(
            lower.store.clone(),
            driver.clone(),
            input.targets.clone(),
            truncates.clone(),
        ));
        let lease_callbacks = Arc::new(LeaseCallbacks::new(
            lower.store.clone(),
            leases,
            lower.callbacks.clone(),
            writer_recovery.clone(),
            lower.waits.clone(),
            input.platform.clock.clone(),
        ));
        let restarted_targets = Arc::new(RestartedTargets::new(
            lower.store.clone(),
            mirrors.clone(),
            &input.platform,
        ));
        let operations = Arc::new(OperationDriver::new(
            lower.store.clone(),
            driver.clone(),
            numbers.clone(),
            truncates.clone(),
            lease_callbacks.clone(),
        ));
        DriverParts {
            driver,
            numbers,
            truncates,
            writer_recovery,
            operations,
            restarted_targets,
            lease_callbacks,
        }
    }
}

fn shard_driver(
    input: &MdsPartsInput,
    lower: &LowerParts,
    pending: &PendingParts,
    leases: Arc<WriteLeases>,
) -> ShardDriver {
    ShardDriver::new(ShardDriverParts {
        kv: input.kv.clone(),
        store: lower.store.clone(),
        shard: lower.shard.clone(),
        registry: lower.registry.clone(),
        leases,
        pending_truncates: pending.truncates.clone(),
        purge_queue: pending.purge_queue.clone(),
        removed_files: pending.removed_files.clone(),
        confirm: pending.confirm.clone(),
        resync: pending.resync.clone(),
        reserve: lower.reserve.clone(),
        lease_service: lower.leases.clone(),
        shards: input.shards,
        owner_epoch: input.owner_epoch,
        sessions_skipped: input.sessions_skipped,
        keeps_sessions: input.keeps_sessions,
        root: Caller::root(),
    })
}
