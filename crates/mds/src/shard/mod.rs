//! # shard: the state behind the shard's lock
//!
//! Owns   the state machine, and the inputs of every operation besides the records: the registered sessions and their leases on
//!        metadata, the targets among which placement chooses, random numbers, the time.
//! Never  reads or stages a record.
//! Enter  at `ShardDriver` (shard_driver) for operations; at `SessionTable` to read which sessions are registered.
//!
//! Reading, deciding and staging happen under this one lock, so operations have one order, which is the order of the log.

mod change_times;
mod entropy;
mod interests;
mod metadata_leases;
mod new_files;
mod recent_keys;
mod session_table;

pub use interests::RecordedInterests;
pub use metadata_leases::MetadataLeases;
pub use new_files::NewFiles;
pub use recent_keys::RecentKeys;
pub use session_table::SessionTable;

#[cfg(test)]
pub use recent_keys::RECENT_KEYS_MAX;

use change_times::ChangeTimes;
use entropy::Entropy;
use gupfs_namespace::ShardMachine;
use gupfs_platform::{BootTime, Clock, Platform};
use gupfs_proto::meta::PlacementTarget;
use gupfs_proto::{SessionId, Timestamp, VirtualShard};
use serde::Serialize;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

pub struct Shard {
    pub machine: ShardMachine,
    pub entropy: Entropy,
    /// The targets among which placement chooses, as of the last poll.
    pub targets: Arc<[PlacementTarget]>,
    /// Registered sessions; the server refuses requests of others.
    pub sessions: BTreeMap<SessionId, SessionInfo>,
    /// When each session was renewed last.
    pub last_heard: BTreeMap<SessionId, BootTime>,
    /// The sessions' leases on metadata: granted, and tested by changes, under this lock.
    pub leases: MetadataLeases,
    /// Where another server may go on at any moment: what is recorded of leases and locks.
    pub interests: Option<RecordedInterests>,
    /// Keys staged while a scan is open.
    pub recent: RecentKeys,
    /// Files that were created a short while ago, and opened by no session but the one that created them.
    pub new_files: NewFiles,
    pub change_times: ChangeTimes,
    /// How many blocks of numbers each virtual shard was given: a task that waited for a block sees from it whether one came.
    blocks_given: BTreeMap<VirtualShard, u64>,
    clock: Clock,
    last_now: Timestamp,
}

/// A session as `status` shows it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct SessionInfo {
    pub client: String,
    pub since: Timestamp,
}

impl Shard {
    pub fn new(platform: &Platform) -> Shard {
        Shard {
            machine: ShardMachine::new(),
            entropy: Entropy::new(platform.random.clone()),
            targets: Arc::from([]),
            sessions: BTreeMap::new(),
            last_heard: BTreeMap::new(),
            leases: MetadataLeases::default(),
            interests: None,
            recent: RecentKeys::default(),
            new_files: NewFiles::default(),
            change_times: ChangeTimes::default(),
            blocks_given: BTreeMap::new(),
            clock: platform.clock.clone(),
            last_now: Timestamp::default(),
        }
    }

    /// The wall clock's time, which never runs back while the server runs: if an operator sets the clock back, time stands still.
    pub fn now(&mut self) -> Timestamp {
        self.last_now = self.last_now.max(self.clock.now());
        self.last_now
    }

    /// The time of leases.
    pub fn boot(&self) -> BootTime {
        self.clock.boot()
    }

    /// The time of a replayed change: its original time, which programs may have seen. The server may have made changes of its
    /// own since its start, with later times. A time ahead of the clock would set the clock of later changes ahead, so a
    /// client's host cannot choose one.
    pub fn now_for_replay(&mut self, at: Timestamp) -> Timestamp {
        let at = at.min(self.clock.now().max(self.last_now));
        self.last_now = self.last_now.max(at);
        at
    }

    pub fn register(&mut self, session: SessionId, info: SessionInfo, last_heard: BootTime) {
        self.sessions.insert(session, info);
        self.last_heard.insert(session, last_heard);
    }

    pub fn blocks_given(&self, shard: VirtualShard) -> u64 {
        self.blocks_given.get(&shard).copied().unwrap_or(0)
    }

    pub fn give_block(&mut self, shard: VirtualShard, counters: Range<u64>) {
        *self.blocks_given.entry(shard).or_default() += 1;
        self.machine.add_reserved_numbers(shard, counters);
    }
}
