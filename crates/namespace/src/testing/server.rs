//! A driver without a store: records in a map, numbers given at once, cuts and purges done by a pretended object server.

use crate::check::{Check, Report};
use crate::rights::Opens;
use crate::{
    Batch, ChoreOp, Context, Directory, Effects, File, Inode, Key, KeyRange, Kind, Known, Machine,
    Need, Op, Parsed, Purge, PurgeId, Record, Records, Step, Words, Work, format,
};
use bytes::Bytes;
use gupfs_proto::limits::BATCH_BYTES_MAX;
use gupfs_proto::meta::{self, Answer, Lane, TargetState};
use gupfs_proto::{
    Caller, ClusterId, Incarnation, InodeId, OstId, OwnerEpoch, Refusal, Seq, SessionId, Slot,
    Timestamp, VirtualShards,
};
use std::collections::{BTreeMap, BTreeSet};

pub struct Server {
    pub records: BTreeMap<Key, Bytes>,
    pub machine: Machine,
    pub now: Timestamp,
    pub session: SessionId,
    pub shards: VirtualShards,
    pub targets: Vec<TargetState>,
    pub growth_allowed: bool,
    /// No other session is registered.
    pub alone: bool,
    pub unseen: bool,
    pub queues: bool,
    /// What holders have told.
    pub words: Words,
    /// What requests prove that the session has open.
    pub opens: Opens,
    /// What an operation needed of holders last; it is refused as `Busy` then.
    pub wanted: Option<Need>,
    /// Every record must be asked for before it is known.
    pub forgetful: bool,
    /// Each change is asked twice, and must be answered the same.
    pub repeats: bool,
    /// Cuts given out and not done yet; done at once if `cuts_at_once`.
    pub cuts: Vec<PurgeId>,
    pub cuts_at_once: bool,
    /// Work of the last operation.
    pub work: Vec<Work>,
    /// The last operation's batch; its last if it took several.
    pub batch: Batch,
    pub batches: u32,
    /// How often the last operation was applied.
    pub attempts: u32,
    sequence: u64,
    entropy: u64,
}

/// What a driver has in memory for one operation.
struct Memory<'a> {
    records: &'a BTreeMap<Key, Bytes>,
    /// None: everything.
    fetched: Option<&'a BTreeSet<Key>>,
    scanned: &'a [(KeyRange, usize)],
}

impl Records for Memory<'_> {
    fn get(&self, key: &Key) -> Known {
        match self.fetched {
            Some(fetched) if !fetched.contains(key) => Known::Unknown,
            _ => Known::Value(self.records.get(key).cloned()),
        }
    }

    fn scan(&self, range: &KeyRange, limit: usize) -> Option<Vec<(Key, Bytes)>> {
        let known = self.fetched.is_none() || self.scanned.contains(&(range.clone(), limit));
        let records = self
            .records
            .range(range.from.clone()..range.to.clone())
            .take(limit);
        known.then(|| {
            records
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect()
        })
    }
}

impl Server {
    pub fn new(shards: u16) -> Server {
        let shards = VirtualShards(shards);
        let now = Timestamp::new(1_000, 0);
        let first = format(ClusterId(1), Incarnation(2), shards, now, 3);
        let target = |ost| TargetState {
            ost: OstId(ost),
            usable: true,
            why_not: None,
            total: 1 << 40,
            free: 1 << 39,
        };
        let mut server = Server {
            records: first
                .into_iter()
                .filter_map(|(key, value)| Some((key, value?)))
                .collect(),
            machine: Machine::new(),
            now,
            session: SessionId(7),
            shards,
            targets: (0..4).map(target).collect(),
            growth_allowed: true,
            alone: true,
            unseen: true,
            queues: false,
            words: Words::default(),
            opens: Opens::default(),
            wanted: None,
            forgetful: false,
            repeats: true,
            cuts: Vec::new(),
            cuts_at_once: true,
            work: Vec::new(),
            batch: Vec::new(),
            batches: 0,
            attempts: 0,
            sequence: 0,
            entropy: 0,
        };
        let opened = server.ask(
            &Caller::root(),
            &meta::Op::OpenSession {
                client: "test".into(),
            },
        );
        assert_eq!(
            opened,
            Ok(Answer::Session {
                session: SessionId(7),
                life: OwnerEpoch(1),
                pass: None,
            })
        );
        server
    }

    /// One request, as a driver handles it: the clock moves on by a second before.
    pub fn ask(&mut self, caller: &Caller, op: &meta::Op) -> Result<Answer, Refusal> {
        self.now.secs += 1;
        self.sequence += 1;
        let lane = op.changes().then_some(Lane {
            slot: Slot(0),
            sequence: self.sequence,
        });
        let effects = self.apply_all(caller, lane, Op::Client(op));
        self.do_cuts(&effects.work);
        // A cut's end changes the file after the answer was made.
        let is_last = !matches!(op, meta::Op::CloseSession)
            && !self
                .work
                .iter()
                .any(|work| matches!(work, Work::Cut { .. }));
        if self.repeats
            && is_last
            && lane.is_some()
            && effects.answer.is_ok()
            && !self.batch.is_empty()
        {
            let again = self.apply(caller, lane, Op::Client(op));
            assert_eq!(again.answer, effects.answer, "{op:?}, repeated");
            assert_eq!(
                (again.batch, again.work),
                (vec![], vec![]),
                "{op:?}, repeated"
            );
        }
        effects.answer
    }

    /// Runs a chore and commits it.
    pub fn chore(&mut self, chore: &ChoreOp) -> Result<Answer, Refusal> {
        self.apply_all(&Caller::root(), None, Op::Chore(chore))
            .answer
    }

    /// Applies an operation until it is finished, and commits its batches.
    fn apply_all(&mut self, caller: &Caller, lane: Option<Lane>, op: Op) -> Effects {
        self.batches = 0;
        loop {
            let effects = self.apply(caller, lane, op);
            self.batches += 1;
            self.work = effects.work.clone();
            self.batch = effects.batch.clone();
            self.commit(effects.batch.clone());
            if !effects.unfinished {
                return effects;
            }
        }
    }

    pub fn apply(&mut self, caller: &Caller, lane: Option<Lane>, op: Op) -> Effects {
        let (mut fetched, mut scanned) = (BTreeSet::new(), Vec::new());
        self.entropy += 1;
        for attempt in 1.. {
            assert!(attempt < 10_000, "{op:?} never has enough");
            let mut machine = std::mem::take(&mut self.machine);
            let memory = Memory {
                records: &self.records,
                fetched: self.forgetful.then_some(&fetched),
                scanned: &scanned,
            };
            let ctx = self.context(caller, lane);
            let step = machine.apply(&memory, &ctx, op);
            self.machine = machine;
            match step {
                Step::Done(effects) => {
                    self.attempts = attempt;
                    well_formed(&effects);
                    return effects;
                }
                Step::Need(Need::Keys(keys)) => {
                    assert!(!keys.is_empty());
                    for key in keys {
                        assert!(fetched.insert(key.clone()), "{key:?} asked for twice");
                    }
                }
                Step::Need(Need::Scan { range, limit }) => scanned.push((range, limit)),
                Step::Need(Need::Numbers(shard)) => {
                    let caller = Caller::root();
                    let effects =
                        self.apply(&caller, None, Op::Chore(&ChoreOp::ReserveNumbers { shard }));
                    self.commit(effects.batch);
                    for work in effects.work {
                        let Work::Numbers { shard, counters } = work else {
                            panic!("{work:?}")
                        };
                        self.machine.give_numbers(shard, counters);
                    }
                }
                Step::Need(Need::Cut(id)) => self.finish_cut(id),
                Step::Need(need @ (Need::Word { .. } | Need::Turn(_))) => {
                    self.wanted = Some(need);
                    return Effects {
                        batch: Batch::new(),
                        repeats: None,
                        answer: Err(Refusal::Busy),
                        work: Vec::new(),
                        unfinished: false,
                    };
                }
            }
        }
        unreachable!()
    }

    pub fn context<'a>(&'a self, caller: &'a Caller, lane: Option<Lane>) -> Context<'a> {
        Context {
            now: self.now,
            session: self.session,
            lane,
            caller,
            opens: &self.opens,
            entropy: self.entropy,
            shards: self.shards,
            owner_epoch: OwnerEpoch(1),
            targets: &self.targets,
            growth_allowed: self.growth_allowed,
            alone: self.alone,
            unseen: self.unseen,
            queues: self.queues,
            words: &self.words,
            seq: Seq(0),
            again: None,
        }
    }

    pub fn finish_cut(&mut self, id: PurgeId) {
        let place = self
            .cuts
            .iter()
            .position(|cut| *cut == id)
            .expect("a cut that was given out");
        self.cuts.remove(place);
        let caller = Caller::root();
        let effects = self.apply(
            &caller,
            None,
            Op::Chore(&ChoreOp::CutDone { id, blocks: 8 }),
        );
        self.commit(effects.batch);
    }

    fn do_cuts(&mut self, work: &[Work]) {
        for work in work {
            if let Work::Cut { id, .. } = work {
                self.cuts.push(*id);
                if self.cuts_at_once {
                    self.finish_cut(*id);
                }
            }
        }
    }

    pub fn commit(&mut self, batch: Batch) {
        for (key, value) in batch {
            match value {
                Some(value) => self.records.insert(key, value),
                None => self.records.remove(&key),
            };
        }
    }

    pub fn check(&self) -> Report {
        let mut check = Check::new();
        for range in Check::ranges(self.shards) {
            for (key, value) in self.records.range(range.from..range.to) {
                check.add(key, value);
            }
        }
        check.finish()
    }

    /// Changes a record behind the machine's back.
    pub fn edit<T>(&mut self, ino: InodeId, how: impl FnOnce(&mut Inode) -> T) -> T {
        let mut inode = self.inode(ino);
        let result = how(&mut inode);
        self.records.insert(Key::inode(ino), inode.encode());
        result
    }

    pub fn inode(&self, ino: InodeId) -> Inode {
        let mut inode = Inode::decode(&self.records[&Key::inode(ino)]).unwrap();
        inode.ino = ino;
        inode
    }

    pub fn file(&self, ino: InodeId) -> File {
        self.inode(ino).file().unwrap().clone()
    }

    pub fn directory(&self, ino: InodeId) -> Directory {
        self.inode(ino).directory().unwrap().clone()
    }

    pub fn purges(&self) -> Vec<(PurgeId, Purge)> {
        let purge = |(key, value): (&Key, &Bytes)| match key.parse() {
            Some(Parsed::Purge(id)) => Some((id, Purge::decode(value).unwrap())),
            _ => None,
        };
        self.records.iter().filter_map(purge).collect()
    }

    pub fn orphans(&self) -> Vec<InodeId> {
        let orphan = |key: &Key| match key.parse() {
            Some(Parsed::Orphan { ino, .. }) => Some(ino),
            _ => None,
        };
        self.records.keys().filter_map(orphan).collect()
    }

    /// How many records of this kind there are.
    pub fn count(&self, kind: Kind) -> usize {
        self.records
            .keys()
            .filter(|key| key.as_bytes()[2] == kind as u8)
            .count()
    }

    pub fn statfs(&mut self) -> meta::StatFs {
        match self.ask(&Caller::root(), &meta::Op::StatFs) {
            Ok(Answer::StatFs(statfs)) => statfs,
            other => panic!("{other:?}"),
        }
    }

    pub fn assert_clean(&self) {
        assert_eq!(self.check().problems, vec![]);
    }
}

fn well_formed(effects: &Effects) {
    assert!(
        effects.batch.windows(2).all(|pair| pair[0].0 < pair[1].0),
        "keys ascend"
    );
    assert!(effects.batch.iter().all(|(key, _)| key.parse().is_some()));
    let bytes = batch_bytes(&effects.batch) as u64;
    assert!(bytes <= BATCH_BYTES_MAX.get(), "a batch of {bytes} bytes");
    if effects.answer.is_err() {
        assert!(
            effects.batch.is_empty() && effects.work.is_empty(),
            "a refusal changes nothing"
        );
    }
}

/// What a batch takes in the log, about.
pub fn batch_bytes(batch: &Batch) -> usize {
    let bytes = batch.iter().map(|(key, value)| {
        let value = value.as_ref().map_or(0, |value| value.len());
        8 + key.as_bytes().len() + value
    });
    bytes.sum()
}
