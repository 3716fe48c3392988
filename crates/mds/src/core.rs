//! The state of one metadata server, shared by requests and background tasks.

use crate::background::{ConfirmProgress, PurgeQueue, RemovedFiles, SweepProgress, UnfinishedWork};
use crate::callback::CallbackTable;
use crate::grace::Grace;
use crate::lease_queue::LeaseQueues;
use crate::locks::LockService;
use crate::osts::Targets;
use crate::pending_truncates::PendingTruncates;
use crate::shard::Shard;
use crate::stats::MdsStats;
use crate::waits::{RequestOrigin, WaitList, WaitReason};
use gupfs_platform::{Disk, Platform};
use gupfs_proto::{Caller, FsError, OwnerEpoch, Seq, VirtualShard, VirtualShards};
use gupfs_store::kv::{Kv, KvError};
use parking_lot::Mutex;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock};
use tokio::sync::Notify;

pub struct Core {
    pub platform: Platform,
    pub kv: Arc<Kv>,
    /// The disk that holds the store: used only to ask for its free space.
    pub disk: Disk,
    pub shards: VirtualShards,
    pub owner_epoch: OwnerEpoch,
    /// Objects of owners before this one that no record names belong to a later, lost state of the store: the sweep quarantines
    /// them instead of removing them. 0: no loss was accepted.
    pub lost_before: OwnerEpoch,
    /// This start accepted the loss.
    pub loss_accepted: bool,
    /// New sessions get numbers above these.
    pub sessions_skipped: u64,
    pub shard: Mutex<Shard>,
    pub targets: Targets,
    pub pending_truncates: PendingTruncates,
    pub purge_queue: PurgeQueue,
    pub removed_files: RemovedFiles,
    pub callbacks: CallbackTable,
    pub locks: LockService,
    pub lease_queues: LeaseQueues,
    /// Sessions outlive the server.
    pub keeps_sessions: bool,
    pub grace: Grace,
    pub unfinished: UnfinishedWork,
    pub sweep: SweepProgress,
    pub confirm: ConfirmProgress,
    pub stats: MdsStats,
    pub waits: WaitList,
    /// False while only the reserve of the metadata disk is left.
    pub growth_allowed: AtomicBool,
    /// Boot time until which the index is read away from the reactor, because a read was slow.
    pub reads_slow_until: AtomicU64,
    /// Held while one block of inode numbers is reserved.
    pub reserving: tokio::sync::Mutex<()>,
    /// Requests in flight; `drained` wakes `stop` after the last of them.
    pub in_flight: AtomicU64,
    pub drained: Notify,
    /// Signals that a session released its write lease, or lost it.
    pub lease_ended: Notify,
    pub stopping: AtomicBool,
    /// Why the server serves nothing any more. Set once: the first failure is the cause.
    failure_reason: OnceLock<String>,
    /// Signals that `failure_reason` was set.
    failure_notify: Notify,
    /// The credentials of the background tasks.
    pub root: Caller,
}

pub struct CoreParts {
    pub platform: Platform,
    pub kv: Arc<Kv>,
    pub disk: Disk,
    pub shards: VirtualShards,
    pub owner_epoch: OwnerEpoch,
    pub lost_before: OwnerEpoch,
    pub loss_accepted: bool,
    pub sessions_skipped: u64,
    pub targets: Targets,
    pub keeps_sessions: bool,
}

impl Core {
    pub fn new(parts: CoreParts) -> Core {
        Core {
            shard: Mutex::new(Shard::new(&parts.platform)),
            waits: WaitList::new(parts.platform.clock.clone()),
            owner_epoch: parts.owner_epoch,
            lost_before: parts.lost_before,
            loss_accepted: parts.loss_accepted,
            sessions_skipped: parts.sessions_skipped,
            platform: parts.platform,
            kv: parts.kv,
            disk: parts.disk,
            shards: parts.shards,
            targets: parts.targets,
            pending_truncates: PendingTruncates::default(),
            purge_queue: PurgeQueue::default(),
            removed_files: RemovedFiles::default(),
            callbacks: CallbackTable::default(),
            locks: LockService::default(),
            lease_queues: LeaseQueues::default(),
            keeps_sessions: parts.keeps_sessions,
            grace: Grace::default(),
            unfinished: UnfinishedWork::default(),
            sweep: SweepProgress::default(),
            confirm: ConfirmProgress::default(),
            stats: MdsStats::default(),
            growth_allowed: AtomicBool::new(true),
            reads_slow_until: AtomicU64::new(0),
            reserving: tokio::sync::Mutex::new(()),
            in_flight: AtomicU64::new(0),
            drained: Notify::new(),
            lease_ended: Notify::new(),
            stopping: AtomicBool::new(false),
            failure_reason: OnceLock::new(),
            failure_notify: Notify::new(),
            root: Caller::root(),
        }
    }

    pub fn all_shards(&self) -> impl Iterator<Item = VirtualShard> + use<> {
        (0..self.shards.0).map(VirtualShard)
    }

    /// The store failed: the server promises nothing any more, since what is on disk is unknown until the store is opened again.
    pub fn fail(&self, error: &KvError) -> FsError {
        let why = self.failure_reason.get_or_init(|| {
            tracing::error!(%error, "the metadata store failed; the server stops serving; restart it");
            error_chain(error)
        });
        self.failure_notify.notify_waiters();
        FsError::StoreFailed(why.clone())
    }

    /// Ends all service for a reason that is not a failure of the store.
    pub fn fail_because(&self, why: String) -> FsError {
        let why = self.failure_reason.get_or_init(|| {
            tracing::error!(why, "the metadata server stops serving");
            why
        });
        self.failure_notify.notify_waiters();
        FsError::StoreFailed(why.clone())
    }

    /// Returns the reason as soon as the server serves nothing any more.
    pub async fn wait_for_failure(&self) -> String {
        loop {
            let mut fails = std::pin::pin!(self.failure_notify.notified());
            fails.as_mut().enable();
            if let Some(why) = self.failure_reason.get() {
                return why.clone();
            }
            fails.await;
        }
    }

    /// Why the server serves nothing any more. Finds a failure that no request has met yet, too: the log syncs by itself.
    pub fn failure(&self) -> Option<&str> {
        if self.failure_reason.get().is_none()
            && let Some(why) = self.kv.closed()
            && !self.stopping.load(SeqCst)
        {
            self.fail(&KvError::from(why));
        }
        self.failure_reason.get().map(String::as_str)
    }

    /// Returns when every batch up to `seq` survives this process.
    pub async fn committed(&self, origin: RequestOrigin, seq: Seq) -> Result<(), FsError> {
        if self.kv.committed_seq() >= seq {
            return Ok(());
        }
        let done = self
            .waits
            .wait(origin, WaitReason::Commit(seq), self.kv.wait_committed(seq));
        done.await?.map_err(|error| self.fail(&error))
    }

    /// Returns when every batch up to `seq` survives a power loss; syncs the log for it.
    pub async fn durable(&self, origin: RequestOrigin, seq: Seq) -> Result<(), FsError> {
        if self.kv.durable_seq() >= seq {
            return Ok(());
        }
        let done = self
            .waits
            .wait(origin, WaitReason::Durable(seq), self.kv.wait_durable(seq));
        done.await?.map_err(|error| self.fail(&error))
    }
}

/// An error with its causes, on one line.
pub fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
