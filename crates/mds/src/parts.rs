//! Composes the parts of one metadata server: each gets the parts that it uses, and no others.

use crate::access_check::AccessCheck;
use crate::background::{
    BackgroundTasks, ConfirmTask, OpenQueryTask, PurgeTask, SpaceWatch, SweepProgress, SweepTask,
    UnfinishedTask,
};
use crate::callback::CallbackTable;
use crate::capabilities::CapabilityIssuer;
use crate::capability_replies::CapabilityReplies;
use crate::drive::OperationDriver;
use crate::glimpse::LeaseCallbacks;
use crate::grace::Grace;
use crate::in_flight::InFlightRequests;
use crate::inode_numbers::InodeNumbers;
use crate::locks::{LockService, LockServiceParts};
use crate::osts::Targets;
use crate::pending_work::{
    ConfirmProgress, PendingTruncates, PurgeQueue, RemovedFiles, UnfinishedWork,
};
use crate::placement::Placement;
use crate::recover::StartRecovery;
use crate::replay::Replay;
use crate::request::RequestHandler;
use crate::reserve::MetadataReserve;
use crate::serving::ServingState;
use crate::session_end::SessionEnd;
use crate::session_registry::SessionRegistry;
use crate::shard::{SessionTable, Shard};
use crate::shard_driver::ShardDriver;
use crate::stats::MdsStats;
use crate::store::MetadataStore;
use crate::target_records::TargetRecords;
use crate::truncates::TruncateRunner;
use crate::waits::WaitList;
use crate::write_leases::WriteLeases;
use crate::writer_recovery::WriterRecovery;
use gupfs_platform::{Clock, Disk, Platform};
use gupfs_proto::{Caller, OwnerEpoch, VirtualShards};
use gupfs_store::kv::Kv;
use parking_lot::Mutex;
use std::sync::Arc;

/// What the parts are made from.
pub struct PartsInput {
    pub platform: Platform,
    pub kv: Arc<Kv>,
    /// The disk that holds the store: used only to ask for its free space.
    pub disk: Disk,
    pub shards: VirtualShards,
    pub owner_epoch: OwnerEpoch,
    /// New sessions get numbers above these.
    pub sessions_skipped: u64,
    /// The first owner after a loss was accepted; 0: none was.
    pub lost_before: OwnerEpoch,
    /// This start accepted the loss.
    pub loss_accepted: bool,
    pub targets: Arc<Targets>,
    pub issuer: Option<Arc<CapabilityIssuer>>,
    /// Sessions outlive the server.
    pub keeps_sessions: bool,
}

/// The parts of one server. Only `Mds` has them all.
pub struct Parts {
    pub clock: Clock,
    pub owner_epoch: OwnerEpoch,
    pub targets: Arc<Targets>,
    pub issuer: Option<Arc<CapabilityIssuer>>,
    pub serving: Arc<ServingState>,
    pub waits: Arc<WaitList>,
    pub stats: Arc<MdsStats>,
    pub store: Arc<MetadataStore>,
    pub reserve: Arc<MetadataReserve>,
    pub placement: Arc<Placement>,
    pub sessions: SessionTable,
    pub callbacks: Arc<CallbackTable>,
    pub locks: Arc<LockService>,
    pub grace: Arc<Grace>,
    pub registry: Arc<SessionRegistry>,
    pub pending_truncates: Arc<PendingTruncates>,
    pub purge_queue: Arc<PurgeQueue>,
    pub removed_files: Arc<RemovedFiles>,
    pub confirm: Arc<ConfirmProgress>,
    pub unfinished: Arc<UnfinishedWork>,
    pub driver: Arc<ShardDriver>,
    pub numbers: Arc<InodeNumbers>,
    pub truncates: Arc<TruncateRunner>,
    pub writer_recovery: Arc<WriterRecovery>,
    pub session_end: Arc<SessionEnd>,
    pub replay: Arc<Replay>,
    pub target_records: TargetRecords,
    pub in_flight: Arc<InFlightRequests>,
    pub requests: RequestHandler,
    pub confirm_task: Arc<ConfirmTask>,
    pub space: Arc<SpaceWatch>,
    pub sweep: Arc<SweepProgress>,
    lost_before: OwnerEpoch,
    loss_accepted: bool,
    keeps_sessions: bool,
}

/// The parts below the driver of the state machine.
struct LowerParts {
    serving: Arc<ServingState>,
    waits: Arc<WaitList>,
    stats: Arc<MdsStats>,
    store: Arc<MetadataStore>,
    shard: Arc<Mutex<Shard>>,
    sessions: SessionTable,
    callbacks: Arc<CallbackTable>,
    locks: Arc<LockService>,
    grace: Arc<Grace>,
    registry: Arc<SessionRegistry>,
    placement: Arc<Placement>,
    reserve: Arc<MetadataReserve>,
}

impl LowerParts {
    fn new(input: &PartsInput) -> LowerParts {
        let clock = &input.platform.clock;
        let serving = Arc::new(ServingState::default());
        let waits = Arc::new(WaitList::new(clock.clone()));
        let stats = Arc::new(MdsStats::default());
        let store = Arc::new(MetadataStore::new(
            input.kv.clone(),
            &input.platform,
            input.shards,
            serving.clone(),
            waits.clone(),
            stats.clone(),
        ));
        let shard = Arc::new(Mutex::new(Shard::new(&input.platform)));
        let sessions = SessionTable::new(shard.clone());
        let callbacks = Arc::new(CallbackTable::new(sessions.clone(), clock.clone()));
        let locks = Arc::new(LockService::new(LockServiceParts {
            sessions: sessions.clone(),
            callbacks: callbacks.clone(),
            waits: waits.clone(),
            store: store.clone(),
            serving: serving.clone(),
            platform: input.platform.clone(),
            owner_epoch: input.owner_epoch,
        }));
        let grace = Arc::new(Grace::new(waits.clone()));
        let registry = Arc::new(SessionRegistry {
            shard: shard.clone(),
            store: store.clone(),
            callbacks: callbacks.clone(),
            locks: locks.clone(),
            grace: grace.clone(),
            issuer: input.issuer.clone(),
            clock: clock.clone(),
        });
        LowerParts {
            placement: Arc::new(Placement::new(shard.clone(), input.targets.clone())),
            reserve: Arc::new(MetadataReserve::default()),
            serving,
            waits,
            stats,
            store,
            shard,
            sessions,
            callbacks,
            locks,
            grace,
            registry,
        }
    }
}

/// What staged batches leave to do.
struct PendingParts {
    truncates: Arc<PendingTruncates>,
    purge_queue: Arc<PurgeQueue>,
    removed_files: Arc<RemovedFiles>,
    confirm: Arc<ConfirmProgress>,
    unfinished: Arc<UnfinishedWork>,
}

impl PendingParts {
    fn new() -> PendingParts {
        PendingParts {
            truncates: Arc::default(),
            purge_queue: Arc::default(),
            removed_files: Arc::default(),
            confirm: Arc::default(),
            unfinished: Arc::default(),
        }
    }
}

/// The driver of the state machine, and the parts that provide what operations need besides records.
struct DriverParts {
    driver: Arc<ShardDriver>,
    numbers: Arc<InodeNumbers>,
    truncates: Arc<TruncateRunner>,
    writer_recovery: Arc<WriterRecovery>,
    operations: Arc<OperationDriver>,
}

impl DriverParts {
    fn new(input: &PartsInput, lower: &LowerParts, pending: &PendingParts) -> DriverParts {
        let leases = Arc::new(WriteLeases::default());
        let driver = Arc::new(ShardDriver {
            kv: input.kv.clone(),
            store: lower.store.clone(),
            shard: lower.shard.clone(),
            registry: lower.registry.clone(),
            leases: leases.clone(),
            pending_truncates: pending.truncates.clone(),
            purge_queue: pending.purge_queue.clone(),
            removed_files: pending.removed_files.clone(),
            confirm: pending.confirm.clone(),
            reserve: lower.reserve.clone(),
            shards: input.shards,
            owner_epoch: input.owner_epoch,
            sessions_skipped: input.sessions_skipped,
            keeps_sessions: input.keeps_sessions,
            root: Caller::root(),
        });
        let numbers = Arc::new(InodeNumbers::new(
            lower.store.clone(),
            driver.clone(),
            lower.waits.clone(),
            lower.stats.clone(),
        ));
        let truncates = Arc::new(TruncateRunner {
            store: lower.store.clone(),
            driver: driver.clone(),
            targets: input.targets.clone(),
            waits: lower.waits.clone(),
            pending: pending.truncates.clone(),
            keeps_sessions: input.keeps_sessions,
        });
        let writer_recovery = Arc::new(WriterRecovery {
            store: lower.store.clone(),
            driver: driver.clone(),
            targets: input.targets.clone(),
            truncates: truncates.clone(),
        });
        let lease_callbacks = LeaseCallbacks {
            store: lower.store.clone(),
            leases,
            callbacks: lower.callbacks.clone(),
            recovery: writer_recovery.clone(),
            waits: lower.waits.clone(),
            clock: input.platform.clock.clone(),
        };
        let operations = Arc::new(OperationDriver {
            store: lower.store.clone(),
            driver: driver.clone(),
            numbers: numbers.clone(),
            truncates: truncates.clone(),
            lease_callbacks,
        });
        DriverParts {
            driver,
            numbers,
            truncates,
            writer_recovery,
            operations,
        }
    }
}

/// The parts that handle requests.
struct RequestParts {
    session_end: Arc<SessionEnd>,
    replay: Arc<Replay>,
    in_flight: Arc<InFlightRequests>,
    requests: RequestHandler,
}

impl RequestParts {
    fn new(
        input: &PartsInput,
        lower: &LowerParts,
        pending: &PendingParts,
        driving: &DriverParts,
    ) -> RequestParts {
        let clock = &input.platform.clock;
        let session_end = Arc::new(SessionEnd {
            store: lower.store.clone(),
            registry: lower.registry.clone(),
            driver: driving.driver.clone(),
            targets: input.targets.clone(),
            recovery: driving.writer_recovery.clone(),
            callbacks: lower.callbacks.clone(),
            locks: lower.locks.clone(),
            grace: lower.grace.clone(),
            unfinished: pending.unfinished.clone(),
            clock: clock.clone(),
        });
        let access = Arc::new(AccessCheck {
            store: lower.store.clone(),
            issuer: input.issuer.clone(),
        });
        let replay = Arc::new(Replay {
            store: lower.store.clone(),
            grace: lower.grace.clone(),
            callbacks: lower.callbacks.clone(),
            registry: lower.registry.clone(),
            access: access.clone(),
            operations: driving.operations.clone(),
            truncates: driving.truncates.clone(),
            session_end: session_end.clone(),
            stats: lower.stats.clone(),
        });
        let in_flight = Arc::new(InFlightRequests::new(lower.serving.clone()));
        let requests = RequestHandler {
            store: lower.store.clone(),
            serving: lower.serving.clone(),
            in_flight: in_flight.clone(),
            waits: lower.waits.clone(),
            stats: lower.stats.clone(),
            targets: input.targets.clone(),
            placement: lower.placement.clone(),
            registry: lower.registry.clone(),
            grace: lower.grace.clone(),
            replay: replay.clone(),
            locks: lower.locks.clone(),
            operations: driving.operations.clone(),
            truncates: driving.truncates.clone(),
            pending_truncates: pending.truncates.clone(),
            capability_replies: CapabilityReplies {
                store: lower.store.clone(),
                registry: lower.registry.clone(),
                access: access.clone(),
                issuer: input.issuer.clone(),
            },
            access,
            session_end: session_end.clone(),
            unfinished: pending.unfinished.clone(),
            owner_epoch: input.owner_epoch,
            clock: clock.clone(),
        };
        RequestParts {
            session_end,
            replay,
            in_flight,
            requests,
        }
    }
}

impl Parts {
    pub fn new(input: PartsInput) -> Parts {
        let lower = LowerParts::new(&input);
        let pending = PendingParts::new();
        let driving = DriverParts::new(&input, &lower, &pending);
        let serving_parts = RequestParts::new(&input, &lower, &pending, &driving);
        let clock = input.platform.clock;
        Parts {
            target_records: TargetRecords {
                store: lower.store.clone(),
                driver: driving.driver.clone(),
                targets: input.targets.clone(),
                placement: lower.placement.clone(),
                serving: lower.serving.clone(),
            },
            confirm_task: Arc::new(ConfirmTask {
                store: lower.store.clone(),
                driver: driving.driver.clone(),
                targets: input.targets.clone(),
                progress: pending.confirm.clone(),
                clock: clock.clone(),
            }),
            space: Arc::new(SpaceWatch {
                store: lower.store.clone(),
                disk: input.disk,
                targets: input.targets.clone(),
                placement: lower.placement.clone(),
                reserve: lower.reserve.clone(),
                clock: clock.clone(),
            }),
            sweep: Arc::default(),
            clock,
            owner_epoch: input.owner_epoch,
            targets: input.targets,
            issuer: input.issuer,
            serving: lower.serving,
            waits: lower.waits,
            stats: lower.stats,
            store: lower.store,
            reserve: lower.reserve,
            placement: lower.placement,
            sessions: lower.sessions,
            callbacks: lower.callbacks,
            locks: lower.locks,
            grace: lower.grace,
            registry: lower.registry,
            pending_truncates: pending.truncates,
            purge_queue: pending.purge_queue,
            removed_files: pending.removed_files,
            confirm: pending.confirm,
            unfinished: pending.unfinished,
            driver: driving.driver,
            numbers: driving.numbers,
            truncates: driving.truncates,
            writer_recovery: driving.writer_recovery,
            session_end: serving_parts.session_end,
            replay: serving_parts.replay,
            in_flight: serving_parts.in_flight,
            requests: serving_parts.requests,
            lost_before: input.lost_before,
            loss_accepted: input.loss_accepted,
            keeps_sessions: input.keeps_sessions,
        }
    }

    /// What the recovery of the start uses.
    pub fn start_recovery(&self) -> StartRecovery<'_> {
        StartRecovery {
            store: &self.store,
            truncates: &self.truncates,
            registry: &self.registry,
            removed_files: &self.removed_files,
            locks: &self.locks,
            grace: &self.grace,
            session_end: &self.session_end,
            numbers: &self.numbers,
            clock: &self.clock,
        }
    }

    /// `with_sweep`: the last owner did not stop in order.
    pub fn background_tasks(&self, with_sweep: bool) -> BackgroundTasks {
        BackgroundTasks {
            grace: self.grace.clone(),
            replay: self.replay.clone(),
            purge: PurgeTask {
                store: self.store.clone(),
                driver: self.driver.clone(),
                targets: self.targets.clone(),
                queue: self.purge_queue.clone(),
                stats: self.stats.clone(),
                clock: self.clock.clone(),
            },
            open_queries: OpenQueryTask {
                store: self.store.clone(),
                driver: self.driver.clone(),
                sessions: self.sessions.clone(),
                callbacks: self.callbacks.clone(),
                waits: self.waits.clone(),
                removed_files: self.removed_files.clone(),
                clock: self.clock.clone(),
            },
            unfinished: UnfinishedTask {
                store: self.store.clone(),
                truncates: self.truncates.clone(),
                pending_truncates: self.pending_truncates.clone(),
                session_end: self.session_end.clone(),
                unfinished: self.unfinished.clone(),
                clock: self.clock.clone(),
            },
            confirm: self.confirm_task.clone(),
            space: self.space.clone(),
            locks: self.locks.clone(),
            expiry: self.keeps_sessions.then(|| self.session_end.clone()),
            sweep: with_sweep.then(|| SweepTask {
                store: self.store.clone(),
                targets: self.targets.clone(),
                recovery: self.writer_recovery.clone(),
                progress: self.sweep.clone(),
                lost_before: self.lost_before,
                loss_accepted: self.loss_accepted,
                clock: self.clock.clone(),
            }),
        }
    }
}
