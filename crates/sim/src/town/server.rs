//! A driver of the shard machine: applies, stages, reserves numbers, and after a crash clears up or goes on.

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
    dice: FakeRandom,
    root: Caller,
    pub now: Timestamp,
    epoch: OwnerEpoch,
    /// Reserved in a batch that is not durable yet: not to be used.
    reserved: Vec<(u64, VirtualShard, Range<u64>)>,
    /// Blocks given to the machine in this life.
    pub blocks: u64,
}

pub enum Applied {
    Done(Box<Effects>),
    /// Numbers are reserved; ask again when the batch is durable.
    Wait,
}

impl Server {
    pub fn new(shards: u16, dice: FakeRandom) -> Server {
        let (shards, now) = (VirtualShards(shards), Timestamp::new(1_000, 0));
        let first =
            gupfs_namespace::initial_batch(ClusterId(1), Incarnation(2), shards, now, dice.u64());
        Server {
            store: Store::new(first),
            machine: ShardMachine::new(),
            shards,
            dice,
            root: Caller::root(),
            now,
            epoch: OwnerEpoch(1),
            reserved: Vec::new(),
            blocks: 0,
        }
    }

    /// Applies and stages nothing yet, but for blocks of numbers.
    pub fn apply(
        &mut self,
        session: SessionId,
        lane: Option<SlotSeq>,
        op: &meta::MetaOp,
    ) -> Applied {
        match self.step(session, lane, Operation::Client(op)) {
            ApplyResult::Done(effects) => Applied::Done(Box::new(effects)),
            ApplyResult::Needs(Prerequisite::InodeNumbers(shard)) => {
                self.reserve(shard);
                Applied::Wait
            }
            ApplyResult::Needs(need) => unreachable!("every record is in memory: {need:?}"),
        }
    }

    fn step(&mut self, session: SessionId, lane: Option<SlotSeq>, op: Operation) -> ApplyResult {
        let ctx = OpContext {
            now: self.now,
            session,
            slot_seq: lane,
            caller: &self.root,
            open_rights: OpenRights::NONE,
            entropy: self.dice.u64(),
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

    fn chore(&mut self, chore: &BackgroundOp) -> Vec<FollowUp> {
        match self.step(SessionId(0), None, Operation::Background(chore)) {
            ApplyResult::Done(effects) => {
                assert!(effects.reply.is_ok(), "{chore:?}: {:?}", effects.reply);
                assert!(!effects.unfinished, "no file of a town has so much");
                self.store.stage(effects.batch);
                effects.follow_ups
            }
            ApplyResult::Needs(need) => unreachable!("a chore needs nothing: {need:?}"),
        }
    }

    fn reserve(&mut self, shard: VirtualShard) {
        if self.reserved.iter().any(|(_, other, _)| *other == shard) {
            return;
        }
        for work in self.chore(&BackgroundOp::ReserveInodeNumbers { shard }) {
            if let FollowUp::InodeNumbers { shard, counters } = work {
                self.reserved.push((self.store.last, shard, counters));
            }
        }
    }

    /// What was committed when the sync began is durable now.
    pub fn synced(&mut self, upto: u64) {
        self.store.sync(upto);
        let (ready, rest) = std::mem::take(&mut self.reserved)
            .into_iter()
            .partition(|(seq, ..)| *seq <= upto);
        self.reserved = rest;
        for (_, shard, counters) in ready {
            self.blocks += 1;
            self.machine.add_reserved_numbers(shard, counters);
        }
    }

    /// A session; made before anybody asks.
    pub fn open_session(&mut self, session: SessionId) {
        let client = "town".to_string();
        let op = meta::MetaOp::OpenSession { client };
        match self.step(session, None, Operation::Client(&op)) {
            ApplyResult::Done(effects) => drop(self.store.stage(effects.batch)),
            ApplyResult::Needs(need) => unreachable!("a session needs nothing: {need:?}"),
        }
        self.settle();
    }

    /// A new owner on what a crash left.
    pub fn restart(&mut self, kept: u64) {
        self.store.crash(kept);
        (self.machine, self.blocks) = (ShardMachine::new(), 0);
        self.reserved.clear();
        self.epoch.0 += 1;
    }

    /// What every start does when all sessions are dead; returns how many orphans went.
    pub fn clear_up(&mut self) -> u64 {
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
            self.chore(&BackgroundOp::ForgetOrphan { ino, session });
        }
        for session in sessions {
            for shard in (0..self.shards.0).rev().map(VirtualShard) {
                self.chore(&BackgroundOp::DropSession { session, shard });
            }
        }
        self.settle();
        orphans.len() as u64
    }

    fn settle(&mut self) {
        self.store.committed = self.store.last;
        self.synced(self.store.last);
    }

    /// # Panics
    /// When records do not fit together.
    pub fn check(&self) {
        let mut check = NamespaceCheck::new();
        for range in NamespaceCheck::ranges(self.shards) {
            let (from, to): (RecordKey, RecordKey) = (range.from, range.to);
            for (key, value) in self.store.records.range(from..to) {
                check.add(key, value);
            }
        }
        assert_eq!(
            check.finish().problems,
            [],
            "records that do not fit together"
        );
    }
}
