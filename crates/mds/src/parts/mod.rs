//! Composes the parts of one metadata server: each gets the parts that it uses, and no others.

mod driving;
mod lower;
mod requests;

use crate::background::{
    BackgroundTasks, ConfirmTask, OpenQueryTask, PurgeTask, SpaceWatch, SweepTask, UnfinishedTask,
};
use crate::callback::CallbackTable;
use crate::capabilities::CapabilityIssuer;
use crate::conversion::{ConversionTask, FileConverter};
use crate::drain_room::DrainRoom;
use crate::glimpse::LeaseCallbacks;
use crate::grace::Grace;
use crate::in_flight::InFlightRequests;
use crate::inode_numbers::InodeNumbers;
use crate::interest_records::InterestRecords;
use crate::locks::LockService;
use crate::lost_files::LostFileLister;
use crate::metadata_leases::LeaseService;
use crate::mirrors::{ReplacementTask, ResyncTask};
use crate::osts::Targets;
use crate::pending_work::{
    ConfirmProgress, ConversionQueue, PendingTruncates, PurgeQueue, RemovedFiles,
    ReplacementProgress, ResyncProgress, ScrubProgress, SweepProgress, UnfinishedWork,
};
use crate::placement::Placement;
use crate::rebalance::{RebalanceControl, RebalanceTask};
use crate::recover::StartRecovery;
use crate::replay::Replay;
use crate::request::RequestHandler;
use crate::reserve::MetadataReserve;
use crate::scrub::{DamageTask, FileScrubber, ScrubTask};
use crate::serving::ServingState;
use crate::session_end::SessionEnd;
use crate::session_registry::SessionRegistry;
use crate::shard::SessionTable;
use crate::shard_driver::ShardDriver;
use crate::stats::MdsStats;
use crate::stopping_targets::StoppingTargets;
use crate::store::MetadataStore;
use crate::successor::Successor;
use crate::target_records::{TargetRecords, TargetRecordsParts};
use crate::truncates::TruncateRunner;
use crate::waits::WaitList;
use crate::writer_recovery::WriterRecovery;
use driving::{DriverParts, PendingParts};
use gupfs_platform::{Clock, Disk, Platform};
use gupfs_proto::{OwnerEpoch, VirtualShards};
use gupfs_store::kv::Kv;
use lower::LowerParts;
use requests::RequestParts;
use std::sync::Arc;
use std::time::Duration;

/// What the parts are made from.
pub struct MdsPartsInput {
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
    /// Another server may go on at any moment, and must know what sessions may have leases and locks on.
    pub records_interests: bool,
    pub successor: Option<Arc<dyn Successor>>,
    pub rebuild_after: Option<Duration>,
    /// Bytes that the resync may copy a second.
    pub resync_rate: Option<u64>,
    pub scrub_period: Option<Duration>,
}

/// The parts of one server. Only `Mds` has them all.
pub struct MdsParts {
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
    pub leases: Arc<LeaseService>,
    pub grace: Arc<Grace>,
    pub registry: Arc<SessionRegistry>,
    pub pending_truncates: Arc<PendingTruncates>,
    pub purge_queue: Arc<PurgeQueue>,
    pub removed_files: Arc<RemovedFiles>,
    pub confirm: Arc<ConfirmProgress>,
    pub resync: Arc<ResyncProgress>,
    pub replacement: Arc<ReplacementProgress>,
    pub rebalance: Arc<RebalanceControl>,
    pub scrub: Arc<ScrubProgress>,
    pub conversions: Arc<ConversionQueue>,
    pub unfinished: Arc<UnfinishedWork>,
    pub driver: Arc<ShardDriver>,
    pub numbers: Arc<InodeNumbers>,
    pub interests: InterestRecords,
    pub truncates: Arc<TruncateRunner>,
    pub writer_recovery: Arc<WriterRecovery>,
    pub lease_callbacks: Arc<LeaseCallbacks>,
    pub session_end: Arc<SessionEnd>,
    pub replay: Arc<Replay>,
    pub target_records: TargetRecords,
    pub stopping_targets: StoppingTargets,
    pub lost_files: LostFileLister,
    pub drain_room: DrainRoom,
    pub in_flight: Arc<InFlightRequests>,
    pub requests: RequestHandler,
    pub confirm_task: Arc<ConfirmTask>,
    pub space: Arc<SpaceWatch>,
    pub sweep: Arc<SweepProgress>,
    lost_before: OwnerEpoch,
    loss_accepted: bool,
    keeps_sessions: bool,
    rebuild_after: Option<Duration>,
    scrub_period: Option<Duration>,
}

impl MdsParts {
    pub fn new(input: MdsPartsInput) -> MdsParts {
        let lower = LowerParts::new(&input);
        let pending = PendingParts {
            resync: Arc::new(ResyncProgress::new(input.resync_rate)),
            ..PendingParts::default()
        };
        let driving = DriverParts::new(&input, &lower, &pending);
        let handling = RequestParts::new(&input, &lower, &pending, &driving);
        let interests = InterestRecords {
            store: lower.store.clone(),
            driver: driving.driver.clone(),
            shard: lower.shard.clone(),
            records: input.records_interests,
        };
        let clock = input.platform.clock;
        let sweep = Arc::<SweepProgress>::default();
        MdsParts {
            target_records: TargetRecords::new(TargetRecordsParts {
                store: lower.store.clone(),
                driver: driving.driver.clone(),
                targets: input.targets.clone(),
                placement: lower.placement.clone(),
                serving: lower.serving.clone(),
                restarted: driving.restarted_targets.clone(),
                replacement: pending.replacement.clone(),
                sweep: sweep.clone(),
                clock: clock.clone(),
            }),
            stopping_targets: StoppingTargets {
                targets: input.targets.clone(),
                placement: lower.placement.clone(),
                callbacks: lower.callbacks.clone(),
                clock: clock.clone(),
            },
            drain_room: DrainRoom {
                store: lower.store.clone(),
                targets: input.targets.clone(),
            },
            rebalance: Arc::new(RebalanceControl {
                store: lower.store.clone(),
                driver: driving.driver.clone(),
                targets: input.targets.clone(),
                progress: pending.rebalance,
                clock: clock.clone(),
            }),
            lost_files: LostFileLister {
                store: lower.store.clone(),
                targets: input.targets.clone(),
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
                successor: input.successor,
                clock: clock.clone(),
            }),
            sweep,
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
            leases: lower.leases,
            grace: lower.grace,
            registry: lower.registry,
            pending_truncates: pending.truncates,
            purge_queue: pending.purge_queue,
            removed_files: pending.removed_files,
            confirm: pending.confirm,
            resync: pending.resync,
            replacement: pending.replacement,
            scrub: pending.scrub,
            conversions: pending.conversions,
            unfinished: pending.unfinished,
            driver: driving.driver,
            numbers: driving.numbers,
            interests,
            truncates: driving.truncates,
            writer_recovery: driving.writer_recovery,
            lease_callbacks: driving.lease_callbacks,
            session_end: handling.session_end,
            replay: handling.replay,
            in_flight: handling.in_flight,
            requests: handling.requests,
            lost_before: input.lost_before,
            loss_accepted: input.loss_accepted,
            keeps_sessions: input.keeps_sessions,
            rebuild_after: input.rebuild_after,
            scrub_period: input.scrub_period,
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
            interests: &self.interests,
            numbers: &self.numbers,
            clock: &self.clock,
        }
    }

    fn file_scrubber(&self) -> FileScrubber {
        FileScrubber {
            store: self.store.clone(),
            driver: self.driver.clone(),
            targets: self.targets.clone(),
            progress: self.scrub.clone(),
        }
    }

    fn file_converter(&self) -> FileConverter {
        FileConverter {
            store: self.store.clone(),
            driver: self.driver.clone(),
            targets: self.targets.clone(),
            owner_epoch: self.owner_epoch,
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
            resync: ResyncTask {
                store: self.store.clone(),
                driver: self.driver.clone(),
                targets: self.targets.clone(),
                progress: self.resync.clone(),
                rebuild_after: self.rebuild_after,
                writers: self.lease_callbacks.clone(),
                clock: self.clock.clone(),
            },
            replacement: ReplacementTask {
                store: self.store.clone(),
                driver: self.driver.clone(),
                targets: self.targets.clone(),
                progress: self.replacement.clone(),
                resync: self.resync.clone(),
                writers: self.lease_callbacks.clone(),
                clock: self.clock.clone(),
            },
            scrub: ScrubTask {
                scrubber: self.file_scrubber(),
                progress: self.scrub.clone(),
                shards: self.store.shards(),
                period: self.scrub_period,
                clock: self.clock.clone(),
            },
            conversion: ConversionTask {
                converter: self.file_converter(),
                queue: self.conversions.clone(),
                clock: self.clock.clone(),
            },
            rebalance: RebalanceTask {
                control: self.rebalance.clone(),
                converter: self.file_converter(),
                replacement: self.replacement.clone(),
            },
            damage: DamageTask {
                scrubber: self.file_scrubber(),
                clock: self.clock.clone(),
            },
            space: self.space.clone(),
            locks: self.locks.clone(),
            leases: self.leases.clone(),
            expiry: self.keeps_sessions.then(|| self.session_end.clone()),
            sweeps_at_start: with_sweep,
            sweep: SweepTask {
                store: self.store.clone(),
                targets: self.targets.clone(),
                recovery: self.writer_recovery.clone(),
                progress: self.sweep.clone(),
                lost_before: self.lost_before,
                loss_accepted: self.loss_accepted,
                clock: self.clock.clone(),
            },
        }
    }
}
