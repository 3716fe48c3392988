//! What `gupfs status` shows of a metadata server.

use crate::Mds;
use crate::background::{ConfirmStatus, PurgeStatus, SweepStatus, UnfinishedStatus};
use crate::core::Core;
use crate::drive::Requester;
use crate::osts::MdsTargetStatus;
use crate::recover::RecoveryReport;
use crate::shard::SessionInfo;
use crate::stats::OpSnapshot;
use crate::waits::{RequestOrigin, WaitStatus};
use gupfs_namespace::Operation;
use gupfs_proto::meta::{self, MetaReplyBody, StatFs};
use gupfs_proto::{OwnerEpoch, Seq, SessionId};
use gupfs_store::kv::Kv;
use gupfs_store::log::Headroom;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

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
    pub store: StoreStatus,
    /// None if the records could not be read.
    pub inodes: Option<u64>,
    /// Removed files whose space is not free yet.
    pub purging: Option<u64>,
    pub purge: PurgeStatus,
    pub unfinished: UnfinishedStatus,
    pub sweep: SweepStatus,
    pub confirm: ConfirmStatus,
    pub targets: Vec<MdsTargetStatus>,
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
    fn of(kv: &Kv) -> StoreStatus {
        let stats = kv.stats();
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
            log_room: match kv.headroom() {
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
        let core = &self.core;
        let counts = self.counts().await;
        let state = match core.failure() {
            Some(why) => MdsState::Failed(why.to_owned()),
            None if core.stopping.load(SeqCst) => MdsState::Stopping,
            None => MdsState::Serving,
        };
        MdsStatus {
            state,
            owner_epoch: core.owner_epoch,
            staged: core.kv.last_seq(),
            committed: core.kv.committed_seq(),
            durable: core.kv.durable_seq(),
            growth_allowed: core.growth_allowed.load(Relaxed),
            under_way: core.in_flight.load(Relaxed),
            waits: core.all_waits(),
            locks: core.locks.count(),
            store: StoreStatus::of(&core.kv),
            inodes: counts.map(|counts| counts.inodes),
            purging: counts.map(|counts| counts.purging),
            purge: core.purge_queue.status(),
            unfinished: core.unfinished_status(),
            sweep: core.sweep.status(),
            confirm: core.confirm.status(),
            targets: core.targets.status(),
            sessions: core.shard.lock().sessions.clone(),
            missing: core.grace.missing(),
            made_again: core.stats.replayed_changes.load(Relaxed),
            recovery: self.recovery.clone(),
            ops: core.stats.snapshot(),
            fetch_rounds: core.stats.fetch_rounds.load(Relaxed),
            number_blocks: core.stats.number_blocks.load(Relaxed),
        }
    }

    /// Counts of inodes and purges, from one record per shard. None from a store that has failed.
    async fn counts(&self) -> Option<StatFs> {
        let requester = Requester {
            origin: RequestOrigin::server("status"),
            ..self.core.server_requester()
        };
        let applied = self
            .core
            .drive(requester, Operation::Client(&meta::MetaOp::StatFs))
            .await;
        match applied.ok()?.result {
            Ok(MetaReplyBody::StatFs(counts)) => Some(counts),
            _ => None,
        }
    }
}

impl Core {
    /// Longest first.
    fn all_waits(&self) -> Vec<WaitStatus> {
        let mut waits = self.waits.status();
        waits.extend(self.locks.waits(self.platform.clock.boot()));
        waits.sort_by_key(|wait| std::cmp::Reverse(wait.millis));
        waits
    }
}
