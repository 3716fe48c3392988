//! What stands behind the shard's lock: the machine, and what every operation is told besides the records.
//!
//! Reading, deciding and staging happen under this one lock, so operations have one order and that is the log's.

use crate::entropy::Entropy;
use crate::newborn::Newborn;
use crate::records::Recent;
use gupfs_namespace::Machine;
use gupfs_platform::{BootTime, Clock, Platform};
use gupfs_proto::meta::TargetState;
use gupfs_proto::{SessionId, Timestamp, VirtualShard};
use serde::Serialize;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

pub struct Shard {
    pub machine: Machine,
    pub entropy: Entropy,
    /// What placement chooses among, as last polled.
    pub targets: Arc<[TargetState]>,
    /// Registered sessions; requests of others are refused.
    pub sessions: BTreeMap<SessionId, SessionInfo>,
    /// When each was heard of last.
    pub heard: BTreeMap<SessionId, BootTime>,
    /// What is staged while somebody scans.
    pub recent: Recent,
    /// Files that were made a short while ago, and opened by nobody but who made them.
    pub newborn: Newborn,
    /// How many blocks of numbers each virtual shard was given: tells who waited for one whether it came.
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
            machine: Machine::new(),
            entropy: Entropy::new(platform.dice.clone()),
            targets: Arc::from([]),
            sessions: BTreeMap::new(),
            heard: BTreeMap::new(),
            recent: Recent::default(),
            newborn: Newborn::default(),
            blocks_given: BTreeMap::new(),
            clock: platform.clock.clone(),
            last_now: Timestamp::default(),
        }
    }

    /// The wall's time, that never runs back while we run: an operator who sets the clock back sees time stand still.
    pub fn now(&mut self) -> Timestamp {
        self.last_now = self.last_now.max(self.clock.now());
        self.last_now
    }

    /// The time of what is done again: as it was then, if that does not run back or ahead.
    pub fn now_again(&mut self, at: Timestamp) -> Timestamp {
        self.last_now = self.last_now.max(at.min(self.clock.now()));
        self.last_now
    }

    pub fn register(&mut self, session: SessionId, info: SessionInfo, heard: BootTime) {
        self.sessions.insert(session, info);
        self.heard.insert(session, heard);
    }

    pub fn blocks_given(&self, shard: VirtualShard) -> u64 {
        self.blocks_given.get(&shard).copied().unwrap_or(0)
    }

    pub fn give_numbers(&mut self, shard: VirtualShard, counters: Range<u64>) {
        *self.blocks_given.entry(shard).or_default() += 1;
        self.machine.give_numbers(shard, counters);
    }
}
