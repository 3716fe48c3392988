//! What one metadata server is made of, shared by requests and chores.

use crate::chores::{Confirms, Purges, Removals, Sweeps, Unfinished};
use crate::cuts::Cuts;
use crate::grace::Grace;
use crate::holders::Holders;
use crate::locks::Locks;
use crate::shard::Shard;
use crate::stats::Stats;
use crate::targets::Targets;
use crate::turns::Turns;
use crate::waits::{Awaited, Waits, Who};
use gupfs_platform::{Disk, Platform};
use gupfs_proto::{Caller, OwnerEpoch, Refusal, Seq, VirtualShard, VirtualShards};
use gupfs_store::kv::{Kv, KvError};
use parking_lot::Mutex;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock};
use tokio::sync::Notify;

pub struct Core {
    pub platform: Platform,
    pub kv: Arc<Kv>,
    /// Where the store lies: asked for its free space only.
    pub disk: Disk,
    pub shards: VirtualShards,
    pub owner_epoch: OwnerEpoch,
    /// Objects of owners before this one that no record names were lost with a later state of the store: they are set aside,
    /// not removed. 0: no loss was accepted.
    pub lost_before: OwnerEpoch,
    /// It was by this start.
    pub loss_accepted: bool,
    /// Sessions are numbered above these.
    pub sessions_skipped: u64,
    pub shard: Mutex<Shard>,
    pub targets: Targets,
    pub cuts: Cuts,
    pub purges: Purges,
    pub removals: Removals,
    pub holders: Holders,
    pub locks: Locks,
    pub turns: Turns,
    /// Sessions outlive the server.
    pub keeps_sessions: bool,
    pub grace: Grace,
    pub unfinished: Unfinished,
    pub sweeps: Sweeps,
    pub confirms: Confirms,
    pub stats: Stats,
    pub waits: Waits,
    /// False while only the reserve of the metadata disk is left.
    pub growth_allowed: AtomicBool,
    /// Boot time until which the index is asked away from the reactor, because it was slow.
    pub reads_slow_until: AtomicU64,
    /// One block of inode numbers is reserved at a time.
    pub reserving: tokio::sync::Mutex<()>,
    /// Requests that are not answered yet, and who waits for the last of them.
    pub under_way: AtomicU64,
    pub last_answered: Notify,
    /// Somebody holds a file for writing no more.
    pub holding_ended: Notify,
    pub stopping: AtomicBool,
    /// Why nothing is served any more. Set once: the first failure is the cause.
    failed: OnceLock<String>,
    /// It was set.
    fails: Notify,
    /// On whose behalf chores work.
    pub root: Caller,
}

pub struct Parts {
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
    pub fn new(parts: Parts) -> Core {
        Core {
            shard: Mutex::new(Shard::new(&parts.platform)),
            waits: Waits::new(parts.platform.clock.clone()),
            owner_epoch: parts.owner_epoch,
            lost_before: parts.lost_before,
            loss_accepted: parts.loss_accepted,
            sessions_skipped: parts.sessions_skipped,
            platform: parts.platform,
            kv: parts.kv,
            disk: parts.disk,
            shards: parts.shards,
            targets: parts.targets,
            cuts: Cuts::default(),
            purges: Purges::default(),
            removals: Removals::default(),
            holders: Holders::default(),
            locks: Locks::default(),
            turns: Turns::default(),
            keeps_sessions: parts.keeps_sessions,
            grace: Grace::default(),
            unfinished: Unfinished::default(),
            sweeps: Sweeps::default(),
            confirms: Confirms::default(),
            stats: Stats::default(),
            growth_allowed: AtomicBool::new(true),
            reads_slow_until: AtomicU64::new(0),
            reserving: tokio::sync::Mutex::new(()),
            under_way: AtomicU64::new(0),
            last_answered: Notify::new(),
            holding_ended: Notify::new(),
            stopping: AtomicBool::new(false),
            failed: OnceLock::new(),
            fails: Notify::new(),
            root: Caller::root(),
        }
    }

    pub fn all_shards(&self) -> impl Iterator<Item = VirtualShard> + use<> {
        (0..self.shards.0).map(VirtualShard)
    }

    /// The store failed: nothing is promised any more, since what is on disk is unknown until it is opened again.
    pub fn fail(&self, error: &KvError) -> Refusal {
        let why = self.failed.get_or_init(|| {
            tracing::error!(%error, "the metadata store failed; the server answers nothing any more");
            told(error)
        });
        self.fails.notify_waiters();
        Refusal::StoreFailed(why.clone())
    }

    /// Nothing is served any more, for a reason that is not the store's.
    pub fn end(&self, why: String) -> Refusal {
        let why = self.failed.get_or_init(|| {
            tracing::error!(why, "the metadata server ends");
            why
        });
        self.fails.notify_waiters();
        Refusal::StoreFailed(why.clone())
    }

    /// Returns when nothing is served any more, with the reason.
    pub async fn has_failed(&self) -> String {
        loop {
            let mut fails = std::pin::pin!(self.fails.notified());
            fails.as_mut().enable();
            if let Some(why) = self.failed.get() {
                return why.clone();
            }
            fails.await;
        }
    }

    /// Why nothing is served any more, also if nobody has met the failure yet: the log syncs by itself.
    pub fn failure(&self) -> Option<&str> {
        if self.failed.get().is_none()
            && let Some(why) = self.kv.closed()
            && !self.stopping.load(SeqCst)
        {
            self.fail(&KvError::from(why));
        }
        self.failed.get().map(String::as_str)
    }

    /// Returns when every batch up to `seq` survives this process.
    pub async fn committed(&self, who: Who, seq: Seq) -> Result<(), Refusal> {
        if self.kv.committed_seq() >= seq {
            return Ok(());
        }
        let done = self
            .waits
            .wait(who, Awaited::Commit(seq), self.kv.committed(seq));
        done.await?.map_err(|error| self.fail(&error))
    }

    /// Returns when every batch up to `seq` survives a power cut; syncs the log for it.
    pub async fn durable(&self, who: Who, seq: Seq) -> Result<(), Refusal> {
        if self.kv.durable_seq() >= seq {
            return Ok(());
        }
        let done = self
            .waits
            .wait(who, Awaited::Durable(seq), self.kv.durable(seq));
        done.await?.map_err(|error| self.fail(&error))
    }
}

/// An error with its causes, on one line.
pub fn told(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
