//! A driver of the shard's state machine: it applies operations, stages batches, reserves inode numbers, and recovers after a
//! crash.

use super::store::Store;
use gupfs_namespace::check::NamespaceCheck;
use gupfs_namespace::rights::OpenRights;
use gupfs_namespace::{
    ApplyResult, BackgroundOp, CallbackResults, Effects, FollowUp, OpContext, Operation, ParsedKey,
    Prerequisite, RecordKey, ShardMachine,
};
use gupfs_platform::fake::FakeRandom;
use gupfs_proto::meta::{self, SlotSeq};
use gupfs_proto::{
    Caller, ClusterId, Incarnation, OwnerEpoch, Seq, SessionId, Timestamp, VirtualShard,
    VirtualShards,
};
use std::ops::Range;

pub struct Server {
    pub store: Store,
    machine: ShardMachine,
    shards: VirtualShards,
    random: FakeRandom,
    root: Caller,
    pub now: Timestamp,
    epoch: OwnerEpoch,
    /// Number blocks whose batch is not durable yet: the state machine does not get them before.
    reserved: Vec<(u64, VirtualShard, Range<u64>)>,
    /// Number blocks added to the state machine since the last restart.
    pub blocks_added: u64,
}

pub enum Applied {
    Done(Box<Effects>),
    /// The shard has no inode numbers. The batch that reserves some is staged; the request must be applied again once it is
    /// durable.
    NeedsNumbers,
}

impl Server {
    pub fn new(shards: u16, random: FakeRandom) -> Server {
        let (shards, now) = (VirtualShards(shards), Timestamp::new(1_000, 0));
        let first =
            gupfs_namespace::initial_batch(ClusterId(1), Incarnation(2), shards, now, random.u64());
        Server {
            store: Store::new(first),
            machine: ShardMachine::new(),
            shards,
            random,
            root: Caller::root(),
            now,
            epoch: OwnerEpoch(1),
            reserved: Vec::new(),
            blocks_added: 0,
        }
    }

    /// Applies an operation. The caller stages the batch of the effects; only reservations of numbers are staged here.
    pub fn apply(
        &mut self,
        session: SessionId,
        slot_seq: Option<SlotSeq>,
        op: &meta::MetaOp,
    ) -> Applied {
        match self.step(session, slot_seq, Operation::Client(op)) {
            ApplyResult::Done(effects) => Applied::Done(Box::new(effects)),
            ApplyResult::Needs(Prerequisite::InodeNumbers(shard)) => {
                self.reserve(shard);
                Applied::NeedsNumbers
            }
            ApplyResult::Needs(need) => unreachable!("every record is in memory: {need:?}"),
        }
    }

    fn step(
        &mut self,
        session: SessionId,
        slot_seq: Option<SlotSeq>,
        op: Operation,
    ) -> ApplyResult {
        let ctx = OpContext {
            now: self.now,
            session,
            slot_seq,
            caller: &self.root,
            open_rights: OpenRights::NONE,
            entropy: self.random.u64(),
            shards: self.shards,
            owner_epoch: self.epoch,
            targets: &[],
            growth_allowed: true,
            is_only_session: true,
            is_private_file: true,
            must_queue: false,
            callbacks: &CallbackResults::default(),
            seq: Seq(0),
            replay: None,
        };
        self.machine.apply(&self.store, &ctx, op)
    }

    fn run_background(&mut self, operation: &BackgroundOp) -> Vec<FollowUp> {
        match self.step(SessionId(0), None, Operation::Background(operation)) {
            ApplyResult::Done(effects) => {
                assert!(effects.reply.is_ok(), "{operation:?}: {:?}", effects.reply);
                assert!(
                    !effects.unfinished,
                    "the files are too small for an unfinished operation"
                );
                self.store.stage(effects.batch);
                effects.follow_ups
            }
            ApplyResult::Needs(need) => {
                unreachable!("a background operation needs nothing: {need:?}")
            }
        }
    }

    fn reserve(&mut self, shard: VirtualShard) {
        if self.reserved.iter().any(|(_, other, _)| *other == shard) {
            return;
        }
        for work in self.run_background(&BackgroundOp::ReserveInodeNumbers { shard }) {
            if let FollowUp::InodeNumbers { shard, counters } = work {
                self.reserved.push((self.store.last, shard, counters));
            }
        }
    }

    /// A sync has ended that began when the batches up to `up_to` were committed.
    pub fn finish_sync(&mut self, up_to: u64) {
        self.store.sync(up_to);
        let (ready, rest) = std::mem::take(&mut self.reserved)
            .into_iter()
            .partition(|(seq, ..)| *seq <= up_to);
        self.reserved = rest;
        for (_, shard, counters) in ready {
            self.blocks_added += 1;
            self.machine.add_reserved_numbers(shard, counters);
        }
    }

    /// Opens a session and makes it durable, before clients send requests in it.
    pub fn open_session(&mut self, session: SessionId) {
        let client = "test".to_string();
        let op = meta::MetaOp::OpenSession { client };
        match self.step(session, None, Operation::Client(&op)) {
            ApplyResult::Done(effects) => drop(self.store.stage(effects.batch)),
            ApplyResult::Needs(need) => unreachable!("a session needs nothing: {need:?}"),
        }
        self.sync_all();
    }

    /// Starts a new server instance on the batches that a crash left.
    pub fn restart(&mut self, kept_seq: u64) {
        self.store.crash(kept_seq);
        (self.machine, self.blocks_added) = (ShardMachine::new(), 0);
        self.reserved.clear();
        self.epoch.0 += 1;
    }

    /// Does what every start does when all sessions have ended: removes orphans and sessions. Returns the number of orphans.
    pub fn recover(&mut self) -> u64 {
        let (mut orphans, mut sessions) = (Vec::new(), Vec::new());
        for key in self.store.records.keys() {
            match key.parse() {
                Some(ParsedKey::Orphan { ino, session }) => orphans.push((ino, session)),
                Some(ParsedKey::Session(session)) => sessions.push(session),
                _ => {}
            }
        }
        for (ino, session) in &orphans {
            let (ino, session) = (*ino, *session);
            self.run_background(&BackgroundOp::ForgetOrphan { ino, session });
        }
        for session in sessions {
            for shard in (0..self.shards.0).rev().map(VirtualShard) {
                self.run_background(&BackgroundOp::DropSession { session, shard });
            }
        }
        self.sync_all();
        orphans.len() as u64
    }

    fn sync_all(&mut self) {
        self.store.committed = self.store.last;
        self.finish_sync(self.store.last);
    }

    /// # Panics
    /// When the records are inconsistent.
    pub fn check(&self) {
        let mut check = NamespaceCheck::new();
        for range in NamespaceCheck::ranges(self.shards) {
            let (from, to): (RecordKey, RecordKey) = (range.from, range.to);
            for (key, value) in self.store.records.range(from..to) {
                check.add(key, value);
            }
        }
        assert_eq!(check.finish().problems, [], "inconsistent records");
    }
}
