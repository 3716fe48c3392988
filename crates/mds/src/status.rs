//! What `gupfs status` shows of a metadata server.

use crate::Mds;
use crate::metadata_leases::LeaseStatus;
use crate::origin::RequestOrigin;
use crate::osts::MdsTargetStatus;
use crate::pending_work::{
    ConfirmStatus, ConversionStatus, PurgeStatus, ReplacementStatus, ScrubStatus, SweepStatus,
    UnfinishedStatus,
};
use crate::recover::RecoveryReport;
use crate::shard::SessionInfo;
use crate::shard_driver::Requester;
use crate::stats::OpSnapshot;
use crate::store::MetadataStore;
use crate::waits::WaitStatus;
use gupfs_namespace::Operation;
use gupfs_proto::cluster::FailureDomain;
use gupfs_proto::meta::{self, MetaReplyBody, StatFs};
use gupfs_proto::rebalance::RebalanceState;
use gupfs_proto::resync::ResyncState;
use gupfs_proto::{OwnerEpoch, Seq, SessionId};
use gupfs_store::log::Headroom;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct MdsStatus {
    pub state: MdsState,
    pub owner_epoch: OwnerEpoch,
    /// The newest change staged, committed and durable.
    pub staged: Seq,
    pub committed: Seq,
    pub durable: Seq,
    /// False while only the reserve of the metadata disk is left: new files and longer ones are refused.
    pub growth_allowed: bool,
    /// Requests in flight, and what they wait for.
    pub under_way: u64,
    pub waits: Vec<WaitStatus>,
    /// Locks that programs of all mounts hold.
    pub locks: u64,
    /// Leases on metadata.
    pub leases: LeaseStatus,
    pub store: StoreStatus,
    /// None if the records could not be read.
    pub inodes: Option<u64>,
    /// Removed files whose space is not free yet.
    pub purging: Option<u64>,
    pub purge: PurgeStatus,
    pub unfinished: UnfinishedStatus,
    pub sweep: SweepStatus,
    pub confirm: ConfirmStatus,
    /// Mirrored files with stale members.
    pub resync: ResyncState,
    /// Mirrored files with members on lost OSTs.
    pub replacement: ReplacementStatus,
    pub scrub: ScrubStatus,
    pub conversions: ConversionStatus,
    pub rebalance: RebalanceState,
    pub targets: Vec<MdsTargetStatus>,
    /// The failure domains, if a server has named one.
    pub domains: Vec<FailureDomain>,
    pub sessions: BTreeMap<SessionId, SessionInfo>,
    /// Sessions from before the start that have not reconnected: the server serves no other request until they have, or have
    /// ended.
    pub missing: Vec<SessionId>,
    /// Changes that a power loss undid and clients replayed.
    pub made_again: u64,
    pub recovery: RecoveryReport,
    /// Since the start, in alphabetical order; only operations that occurred.
    pub ops: Vec<OpSnapshot>,
    /// Rounds in which operations fetched records that were not in memory, and blocks of inode numbers reserved.
    pub fetch_rounds: u64,
    pub number_blocks: u64,
}

/// The state of the log and the index.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct StoreStatus {
    /// The newest change that the index has, and number and size of the changes that it has not.
    pub applied: Seq,
    pub waiting: u64,
    pub waiting_bytes: u64,
    pub cache_bytes: u64,
    /// Since the start: changes written to the log, their bytes, and in how many writes and syncs.
    pub log_changes: u64,
    pub log_bytes: u64,
    pub log_writes: u64,
    pub log_syncs: u64,
    /// Segments in use, and segments allocated ahead.
    pub log_segments: u64,
    pub log_spares: u64,
    /// Whether the disk has space for the log to go on.
    pub log_room: LogRoom,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub enum LogRoom {
    Plenty,
    /// Bytes left, for operations that free space.
    Low(u64),
    Nothing,
}

impl StoreStatus {
    fn of(store: &MetadataStore) -> StoreStatus {
        let stats = store.kv_stats();
        StoreStatus {
            applied: stats.applied,
            waiting: stats.waiting,
            waiting_bytes: stats.overlay_bytes,
            cache_bytes: stats.cache_bytes,
            log_changes: stats.log.batches,
            log_bytes: stats.log.bytes,
            log_writes: stats.log.writes,
            log_syncs: stats.log.syncs,
            log_segments: stats.log.live,
            log_spares: stats.log.spares,
            log_room: match store.headroom() {
                Headroom::Plenty => LogRoom::Plenty,
                Headroom::Low(bytes) => LogRoom::Low(bytes),
                Headroom::None => LogRoom::Nothing,
            },
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub enum MdsState {
    Serving,
    /// The server finishes requests in flight and refuses new ones.
    Stopping,
    /// The store failed, and why; the server answers nothing until it is started again.
    Failed(String),
}

impl Mds {
    pub async fn status(&self) -> MdsStatus {
        let parts = &self.parts;
        let counts = self.counts().await;
        let state = match parts.store.failure() {
            Some(why) => MdsState::Failed(why.to_owned()),
            None if parts.serving.is_stopping() => MdsState::Stopping,
            None => MdsState::Serving,
        };
        MdsStatus {
            state,
            owner_epoch: parts.owner_epoch,
            staged: parts.store.last_seq(),
            committed: parts.store.committed_seq(),
            durable: parts.store.durable_seq(),
            growth_allowed: parts.reserve.is_growth_allowed(),
            under_way: parts.in_flight.count(),
            waits: self.all_waits(),
            locks: parts.locks.count(),
            leases: parts.leases.status(),
            store: StoreStatus::of(&parts.store),
            inodes: counts.map(|counts| counts.inodes),
            purging: counts.map(|counts| counts.purging),
            purge: parts.purge_queue.status(),
            unfinished: parts.unfinished.status(&parts.pending_truncates),
            sweep: parts.sweep.status(),
            confirm: parts.confirm.status(),
            resync: parts.resync.state(parts.clock.boot()),
            replacement: parts.replacement.status(),
            scrub: parts.scrub.status(),
            conversions: parts.conversions.status(),
            rebalance: parts.rebalance.state(),
            targets: parts.targets.status(),
            domains: Some(parts.targets.failure_domains())
                .and_then(|(domains, is_named)| is_named.then_some(domains))
                .unwrap_or_default(),
            sessions: parts.sessions.infos(),
            missing: [parts.grace.missing(), parts.leases.awaited()].concat(),
            made_again: parts.stats.replayed_changes.load(Relaxed),
            recovery: self.recovery.clone(),
            ops: parts.stats.snapshot(),
            fetch_rounds: parts.stats.fetch_rounds.load(Relaxed),
            number_blocks: parts.stats.number_blocks.load(Relaxed),
        }
    }

    /// Counts of inodes and purges, from one record per shard. None from a store that has failed.
    async fn counts(&self) -> Option<StatFs> {
        let requester = Requester {
            origin: RequestOrigin::server("status"),
            ..self.parts.driver.server_requester()
        };
        let applied = self
            .parts
            .driver
            .apply(requester, Operation::Client(&meta::MetaOp::StatFs))
            .await;
        match applied.ok()?.result {
            Ok(MetaReplyBody::StatFs(counts)) => Some(counts),
            _ => None,
        }
    }

    /// Longest first.
    fn all_waits(&self) -> Vec<WaitStatus> {
        let mut waits = self.parts.waits.status();
        waits.extend(self.parts.locks.waits(self.parts.clock.boot()));
        waits.sort_by_key(|wait| std::cmp::Reverse(wait.millis));
        waits
    }
}
