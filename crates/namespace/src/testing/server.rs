//! A driver without a store: records in a map, inode numbers reserved at once, truncates of objects completed without an OST.

use super::cached_records::CachedRecords;
use crate::check::{NamespaceCheck, NamespaceReport};
use crate::rights::OpenRights;
use crate::{
    ApplyResult, BackgroundOp, CallbackResults, DirectoryBody, Effects, FileBody, FollowUp, Inode,
    OpContext, Operation, OriginalResult, ParsedKey, Prerequisite, Purge, PurgeId, Record,
    RecordBatch, RecordKey, RecordKind, ShardMachine, initial_batch,
};
use bytes::Bytes;
use gupfs_proto::lease::LeaseKey;
use gupfs_proto::limits::BATCH_BYTES_MAX;
use gupfs_proto::meta::{self, MetaReplyBody, PlacementTarget, SlotSeq};
use gupfs_proto::operations::Execution;
use gupfs_proto::{
    Caller, ClusterId, FsError, Incarnation, InodeId, OstId, OwnerEpoch, Presence, Seq, SessionId,
    Slot, Timestamp, VirtualShard, VirtualShards,
};
use std::collections::{BTreeMap, BTreeSet};

pub struct TestServer {
    pub records: BTreeMap<RecordKey, Bytes>,
    pub machine: ShardMachine,
    pub now: Timestamp,
    pub session: SessionId,
    pub shards: VirtualShards,
    pub targets: Vec<PlacementTarget>,
    pub growth_allowed: bool,
    /// No other session is registered.
    pub is_only_session: bool,
    pub is_private_file: bool,
    pub must_queue: bool,
    /// The reports of lease holders.
    pub callbacks: CallbackResults,
    /// The inodes that the session has open, as its requests prove.
    pub open_rights: OpenRights,
    /// The callback or queue that the last operation needed; the test server then returns `Busy`.
    pub prerequisite: Option<Prerequisite>,
    /// Every operation must fetch each record that it reads.
    pub cold_cache: bool,
    /// Each change is sent twice, and both replies must be the same.
    pub replays: bool,
    /// Requests are replays of operations with these results.
    pub original: Option<OriginalResult>,
    /// Truncates of objects that are not finished; they finish at once if `truncates_at_once`.
    pub pending_truncates: Vec<PurgeId>,
    pub truncates_at_once: bool,
    /// Follow-ups of the last operation.
    pub follow_ups: Vec<FollowUp>,
    /// The last batch of the last operation.
    pub batch: RecordBatch,
    /// The leases that all batches have broken, since a test took them.
    pub changed_leases: BTreeSet<LeaseKey>,
    pub batches: u32,
    /// The number of times that the last operation was applied.
    pub attempts: u32,
    sequence: u64,
    entropy: u64,
}

impl TestServer {
    pub fn new(shards: u16) -> TestServer {
        let shards = VirtualShards(shards);
        let now = Timestamp::new(1_000, 0);
        let first = initial_batch(ClusterId(1), Incarnation(2), shards, now, 3);
        let target = |ost| PlacementTarget {
            ost: OstId(ost),
            domain: u32::from(ost),
            is_up: true,
            usable: true,
            is_draining: false,
            why_not: None,
            total: 1 << 40,
            free: 1 << 39,
        };
        let mut server = TestServer {
            records: first
                .into_iter()
                .filter_map(|(key, value)| Some((key, value?)))
                .collect(),
            machine: ShardMachine::new(),
            now,
            session: SessionId(7),
            shards,
            targets: (0..4).map(target).collect(),
            growth_allowed: true,
            is_only_session: true,
            is_private_file: true,
            must_queue: false,
            callbacks: CallbackResults::default(),
            open_rights: OpenRights::default(),
            prerequisite: None,
            cold_cache: false,
            replays: true,
            original: None,
            pending_truncates: Vec::new(),
            truncates_at_once: true,
            follow_ups: Vec::new(),
            batch: Vec::new(),
            changed_leases: BTreeSet::new(),
            batches: 0,
            attempts: 0,
            sequence: 0,
            entropy: 0,
        };
        let opened = server.request(
            &Caller::root(),
            &meta::MetaOp::OpenSession {
                client: "test".into(),
            },
        );
        assert_eq!(
            opened,
            Ok(MetaReplyBody::Session {
                session: SessionId(7),
                instance: OwnerEpoch(1),
                session_capability: None,
            })
        );
        server
    }

    /// Executes a request as a driver does; the clock advances by a second before.
    pub fn request(
        &mut self,
        caller: &Caller,
        op: &meta::MetaOp,
    ) -> Result<MetaReplyBody, FsError> {
        self.now.secs += 1;
        self.sequence += 1;
        let slot_seq = op.changes().then_some(SlotSeq {
            slot: Slot(0),
            sequence: self.sequence,
        });
        let effects = self.apply_all(caller, slot_seq, Operation::Client(op));
        if let Ok(body) = &effects.reply {
            // The driver makes the replies to the operations that it executes.
            let expected = op.operation();
            let by_driver = expected.execution == Execution::Driver;
            assert!(by_driver || expected.reply.is(body), "{op:?}: {body:?}");
        }
        if op.operation().execution == Execution::Read {
            assert!(effects.batch.is_empty(), "{op:?} changes records");
        }
        self.start_truncates(&effects.follow_ups);
        // The end of a truncate changes the file after the reply was made, so such requests are not repeated.
        let is_last = !matches!(op, meta::MetaOp::CloseSession)
            && !self
                .follow_ups
                .iter()
                .any(|work| matches!(work, FollowUp::Truncate { .. }));
        if self.replays
            && is_last
            && slot_seq.is_some()
            && effects.reply.is_ok()
            && !self.batch.is_empty()
        {
            let replayed = self.apply(caller, slot_seq, Operation::Client(op));
            assert_eq!(replayed.reply, effects.reply, "{op:?}, retransmitted");
            assert_eq!(
                (replayed.batch, replayed.follow_ups),
                (vec![], vec![]),
                "{op:?}, retransmitted"
            );
        }
        effects.reply
    }

    /// Runs a background operation and commits it.
    pub fn run_background(&mut self, op: &BackgroundOp) -> Result<MetaReplyBody, FsError> {
        self.apply_all(&Caller::root(), None, Operation::Background(op))
            .reply
    }

    /// Applies an operation until it is finished, and commits its batches.
    fn apply_all(&mut self, caller: &Caller, slot_seq: Option<SlotSeq>, op: Operation) -> Effects {
        self.batches = 0;
        loop {
            let effects = self.apply(caller, slot_seq, op);
            self.batches += 1;
            self.follow_ups = effects.follow_ups.clone();
            self.batch = effects.batch.clone();
            self.commit(effects.batch.clone());
            if !effects.unfinished {
                return effects;
            }
        }
    }

    pub fn apply(&mut self, caller: &Caller, slot_seq: Option<SlotSeq>, op: Operation) -> Effects {
        let (mut fetched, mut scanned) = (BTreeSet::new(), Vec::new());
        self.entropy += 1;
        for attempt in 1.. {
            assert!(attempt < 10_000, "{op:?} does not complete");
            let mut machine = std::mem::take(&mut self.machine);
            let memory = CachedRecords {
                records: &self.records,
                fetched: self.cold_cache.then_some(&fetched),
                scanned: &scanned,
            };
            let ctx = self.context(caller, slot_seq);
            let result = machine.apply(&memory, &ctx, op);
            self.machine = machine;
            match result {
                ApplyResult::Done(effects) => {
                    self.attempts = attempt;
                    assert_well_formed(&effects);
                    return effects;
                }
                ApplyResult::Needs(Prerequisite::Keys(keys)) => {
                    assert!(!keys.is_empty());
                    for key in keys {
                        assert!(fetched.insert(key.clone()), "{key:?} required twice");
                    }
                }
                ApplyResult::Needs(Prerequisite::Scan { range, limit }) => {
                    scanned.push((range, limit))
                }
                ApplyResult::Needs(Prerequisite::InodeNumbers(shard)) => {
                    self.reserve_inode_numbers(shard)
                }
                ApplyResult::Needs(Prerequisite::Truncate(id)) => self.finish_truncate(id),
                ApplyResult::Needs(
                    need @ (Prerequisite::Callback { .. } | Prerequisite::LeaseQueue(_)),
                ) => {
                    self.prerequisite = Some(need);
                    return Effects {
                        batch: RecordBatch::new(),
                        original_seq: None,
                        reply: Err(FsError::Busy),
                        follow_ups: Vec::new(),
                        unfinished: false,
                    };
                }
            }
        }
        unreachable!()
    }

    fn reserve_inode_numbers(&mut self, shard: VirtualShard) {
        let caller = Caller::root();
        let effects = self.apply(
            &caller,
            None,
            Operation::Background(&BackgroundOp::ReserveInodeNumbers { shard }),
        );
        self.commit(effects.batch);
        for work in effects.follow_ups {
            let FollowUp::InodeNumbers { shard, counters } = work else {
                panic!("{work:?}")
            };
            self.machine.add_reserved_numbers(shard, counters);
        }
    }

    pub fn context<'a>(&'a self, caller: &'a Caller, slot_seq: Option<SlotSeq>) -> OpContext<'a> {
        OpContext {
            now: self.now,
            session: self.session,
            slot_seq,
            caller,
            open_rights: &self.open_rights,
            entropy: self.entropy,
            shards: self.shards,
            owner_epoch: OwnerEpoch(1),
            targets: &self.targets,
            growth_allowed: self.growth_allowed,
            is_only_session: self.is_only_session,
            is_private_file: self.is_private_file,
            must_queue: self.must_queue,
            callbacks: &self.callbacks,
            seq: Seq(0),
            replay: self.original.as_ref(),
        }
    }

    pub fn finish_truncate(&mut self, id: PurgeId) {
        let index = self
            .pending_truncates
            .iter()
            .position(|pending| *pending == id)
            .expect("a truncate that was started");
        self.pending_truncates.remove(index);
        let caller = Caller::root();
        let effects = self.apply(
            &caller,
            None,
            Operation::Background(&BackgroundOp::TruncateDone { id, blocks: 8 }),
        );
        self.commit(effects.batch);
    }

    fn start_truncates(&mut self, work: &[FollowUp]) {
        for work in work {
            if let FollowUp::Truncate { id, .. } = work {
                self.pending_truncates.push(*id);
                if self.truncates_at_once {
                    self.finish_truncate(*id);
                }
            }
        }
    }

    pub fn commit(&mut self, batch: RecordBatch) {
        self.changed_leases.extend(self.changes_of(&batch));
        for (key, value) in batch {
            match value {
                Some(value) => self.records.insert(key, value),
                None => self.records.remove(&key),
            };
        }
    }

    pub fn check(&self) -> NamespaceReport {
        let mut check = NamespaceCheck::new();
        for range in NamespaceCheck::ranges(self.shards) {
            for (key, value) in self.records.range(range.from..range.to) {
                check.add(key, value);
            }
        }
        check.finish()
    }

    /// Changes a record without an operation.
    pub fn edit<T>(&mut self, ino: InodeId, update: impl FnOnce(&mut Inode) -> T) -> T {
        let mut inode = self.inode(ino);
        let result = update(&mut inode);
        self.records.insert(RecordKey::inode(ino), inode.encode());
        result
    }

    pub fn inode(&self, ino: InodeId) -> Inode {
        let mut inode = Inode::decode(&self.records[&RecordKey::inode(ino)]).unwrap();
        inode.ino = ino;
        inode
    }

    pub fn file(&self, ino: InodeId) -> FileBody {
        self.inode(ino).file().unwrap().clone()
    }

    pub fn directory(&self, ino: InodeId) -> DirectoryBody {
        self.inode(ino).directory().unwrap().clone()
    }

    /// The presence of each object of the file.
    pub fn presence(&self, ino: InodeId) -> Vec<Presence> {
        let layout = self.file(ino).layout;
        layout.objects(ino).map(|(.., presence)| presence).collect()
    }

    pub fn purges(&self) -> Vec<(PurgeId, Purge)> {
        let purge = |(key, value): (&RecordKey, &Bytes)| match key.parse() {
            Some(ParsedKey::Purge(id)) => Some((id, Purge::decode(value).unwrap())),
            _ => None,
        };
        self.records.iter().filter_map(purge).collect()
    }

    pub fn orphans(&self) -> Vec<InodeId> {
        let orphan = |key: &RecordKey| match key.parse() {
            Some(ParsedKey::Orphan { ino, .. }) => Some(ino),
            _ => None,
        };
        self.records.keys().filter_map(orphan).collect()
    }

    /// Number of records of this kind.
    pub fn count(&self, kind: RecordKind) -> usize {
        self.records
            .keys()
            .filter(|key| key.as_bytes()[2] == kind as u8)
            .count()
    }

    pub fn statfs(&mut self) -> meta::StatFs {
        match self.request(&Caller::root(), &meta::MetaOp::StatFs) {
            Ok(MetaReplyBody::StatFs(statfs)) => statfs,
            other => panic!("{other:?}"),
        }
    }

    pub fn assert_clean(&self) {
        assert_eq!(self.check().problems, vec![]);
    }
}

fn assert_well_formed(effects: &Effects) {
    assert!(
        effects.batch.windows(2).all(|pair| pair[0].0 < pair[1].0),
        "keys ascend"
    );
    assert!(effects.batch.iter().all(|(key, _)| key.parse().is_some()));
    let bytes = batch_bytes(&effects.batch) as u64;
    assert!(bytes <= BATCH_BYTES_MAX.get(), "a batch of {bytes} bytes");
    if effects.reply.is_err() {
        assert!(
            effects.batch.is_empty() && effects.follow_ups.is_empty(),
            "a refused operation changes nothing"
        );
    }
}

/// Approximate size of a batch in the log.
pub fn batch_bytes(batch: &RecordBatch) -> usize {
    let bytes = batch.iter().map(|(key, value)| {
        let value = value.as_ref().map_or(0, |value| value.len());
        8 + key.as_bytes().len() + value
    });
    bytes.sum()
}
