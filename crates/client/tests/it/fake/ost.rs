//! All targets in one: sparse objects in memory, whose bytes are checked against the sums that came with them.

use super::dawdle;
use gupfs_platform::fake::{FakeClock, FakeDice};
use gupfs_proto::data::{Answer, BlockSums, Existing, ObjectStat, Op, Reply, Request, Seek, Space};
use gupfs_proto::limits::{CHECKSUM_BLOCK, PAYLOAD_MAX};
use gupfs_proto::refusal::ObjectDamage;
use gupfs_proto::{ObjectId, OstId, OstLife, Refusal, checksum};
use gupfs_rpc::Service;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

pub struct FakeOst {
    clock: FakeClock,
    dice: FakeDice,
    pub state: Mutex<State>,
}

#[derive(Default)]
pub struct State {
    pub objects: BTreeMap<ObjectId, Object>,
    /// Blocks that may still be taken; None: any number.
    pub room: Option<u64>,
    /// Reads that give a turned bit, from now on.
    pub turned: u32,
    /// What was asked, as "write 1.2.0 0+4096".
    pub journal: Vec<String>,
    /// Refused once each, by operation and target.
    pub refused: Vec<(&'static str, OstId, Refusal)>,
    /// How long each sync takes.
    pub slow_sync: Duration,
    /// Of all targets.
    pub life: u64,
    /// Once, just before the next sync.
    pub loses_power_before_sync: bool,
}

#[derive(Default, Clone)]
pub struct Object {
    pub size: u64,
    pub blocks: BTreeMap<u64, Block>,
    pub synced: bool,
    /// Since it was made.
    pub was_synced: bool,
    mtime: gupfs_proto::Timestamp,
}

#[derive(Clone)]
pub struct Block {
    bytes: Box<[u8; B]>,
    sum: Option<u32>,
}

const B: usize = CHECKSUM_BLOCK as usize;

impl FakeOst {
    pub fn new(clock: FakeClock, dice: FakeDice) -> Arc<FakeOst> {
        Arc::new(FakeOst {
            clock,
            dice,
            state: Mutex::default(),
        })
    }

    /// The power goes and comes back: objects are as they were made, if they were ever synced, or gone.
    pub fn lose_power(&self) {
        let mut state = self.state.lock();
        state.life += 1;
        state.objects.retain(|_, object| object.was_synced);
    }

    pub fn cut(&self, id: ObjectId, to: u64) -> ObjectStat {
        let mut state = self.state.lock();
        let Some(object) = state.objects.get_mut(&id) else {
            return ObjectStat::default();
        };
        object.cut(to);
        object.mtime = self.clock.now();
        object.stat()
    }

    fn do_it(&self, ost: OstId, op: Op) -> Reply {
        let mut state = self.state.lock();
        state.journal.push(describe(&op));
        if let Some(index) = state
            .refused
            .iter()
            .position(|(name, on, _)| *name == op.name() && *on == ost)
        {
            return Err(state.refused.remove(index).2);
        }
        let missing = |object: ObjectId| Refusal::ObjectDamaged {
            ost,
            object,
            what: ObjectDamage::Missing,
        };
        let (now, life) = (self.clock.now(), OstLife(state.life));
        match op {
            Op::Write {
                object,
                at,
                data,
                sums,
                existing,
                ..
            } => {
                assert!(!data.is_empty() && data.len() as u64 <= PAYLOAD_MAX.0);
                if existing == Existing::Certain && !state.objects.contains_key(&object) {
                    return Err(missing(object));
                }
                let end = at.0 + data.len() as u64;
                let new = (at.0 / CHECKSUM_BLOCK..end.div_ceil(CHECKSUM_BLOCK))
                    .filter(|block| {
                        state
                            .objects
                            .get(&object)
                            .is_none_or(|o| !o.blocks.contains_key(block))
                    })
                    .count() as u64;
                state.take(new)?;
                let it = state.objects.entry(object).or_default();
                it.write(at.0, &data, &sums);
                it.mtime = now;
                Ok(Answer::Written(it.stat(), life))
            }
            Op::Read {
                object,
                at,
                len,
                existing,
                checked: _,
            } => {
                assert!(len <= PAYLOAD_MAX.0);
                let turned = state.turned > 0;
                state.turned -= u32::from(turned);
                let Some(it) = state.objects.get(&object) else {
                    return match existing {
                        Existing::Certain => Err(missing(object)),
                        Existing::Perhaps => Ok(Answer::Data {
                            data: Default::default(),
                            sums: BlockSums::default(),
                        }),
                    };
                };
                let (mut data, sums) = it.read(at.0, len);
                if turned {
                    data[0] ^= 1;
                }
                Ok(Answer::Data {
                    data: data.into(),
                    sums,
                })
            }
            Op::Sync { objects } => {
                for id in objects {
                    if let Some(it) = state.objects.get_mut(&id) {
                        it.synced = true;
                        it.was_synced = true;
                    }
                }
                Ok(Answer::DoneIn(life))
            }
            Op::Confirm { .. } => Err(Refusal::NotSupported),
            Op::Cut { object, to } => {
                drop(state);
                Ok(Answer::Written(self.cut(object, to), life))
            }
            Op::Allocate {
                object,
                at,
                len,
                keep_size,
                existing,
                ..
            } => {
                if existing == Existing::Certain && !state.objects.contains_key(&object) {
                    return Err(missing(object));
                }
                let blocks = at.0 / CHECKSUM_BLOCK..(at.0 + len).div_ceil(CHECKSUM_BLOCK);
                state.take(blocks.end - blocks.start)?;
                let it = state.objects.entry(object).or_default();
                for block in blocks {
                    it.blocks.entry(block).or_default();
                }
                if !keep_size {
                    it.size = it.size.max(at.0 + len);
                }
                it.mtime = now;
                it.synced = false;
                Ok(Answer::Written(it.stat(), life))
            }
            Op::Zero {
                object,
                at,
                len,
                punch,
            } => {
                let Some(it) = state.objects.get_mut(&object) else {
                    return Ok(Answer::Written(ObjectStat::default(), life));
                };
                it.zero(at.0, (at.0 + len).min(it.size), punch);
                it.mtime = now;
                Ok(Answer::Written(it.stat(), life))
            }
            Op::Seek { object, at, what } => {
                let found = state
                    .objects
                    .get(&object)
                    .and_then(|it| it.seek(at.0, what));
                Ok(Answer::Found(found.map(gupfs_proto::ObjectOffset)))
            }
            Op::Stat { object } => Ok(Answer::Stat(state.objects.get(&object).map(Object::stat))),
            Op::Remove { object } | Op::SetAside { object } => {
                state.objects.remove(&object);
                Ok(Answer::DoneIn(life))
            }
            Op::List { .. } => Err(Refusal::NotSupported),
            // The first two share a disk.
            Op::Fence { .. } => Ok(Answer::Done),
            Op::Space => Ok(Answer::Space(Space {
                volume: u64::from(ost.0.max(1)),
                total: 1 << 40,
                free: 1 << 39,
                available: 1 << 38,
                objects: state.objects.len() as u64,
            })),
        }
    }
}

impl Service<Request, Reply> for FakeOst {
    async fn answer(self: Arc<Self>, request: Request) -> Reply {
        dawdle(&self.dice).await;
        if matches!(request.op, Op::Sync { .. }) {
            if std::mem::take(&mut self.state.lock().loses_power_before_sync) {
                self.lose_power();
            }
            let slow = self.state.lock().slow_sync;
            tokio::time::sleep(slow).await;
        }
        let reply = self.do_it(request.ost, request.op);
        dawdle(&self.dice).await;
        reply
    }
}

impl State {
    fn take(&mut self, blocks: u64) -> Result<(), Refusal> {
        if let Some(room) = &mut self.room {
            *room = room.checked_sub(blocks).ok_or(Refusal::NoSpace)?;
        }
        Ok(())
    }
}

impl Default for Block {
    fn default() -> Block {
        Block {
            bytes: Box::new([0; B]),
            sum: Some(checksum::block(&[])),
        }
    }
}

impl Object {
    pub fn stat(&self) -> ObjectStat {
        ObjectStat {
            size: self.size,
            blocks: self.blocks.len() as u64 * (CHECKSUM_BLOCK / 512),
            mtime: self.mtime,
        }
    }

    fn write(&mut self, at: u64, data: &[u8], sums: &BlockSums) {
        let end = at + data.len() as u64;
        let last_may_be_short = end >= self.size;
        let mut expected = Vec::new();
        for number in at / CHECKSUM_BLOCK..end.div_ceil(CHECKSUM_BLOCK) {
            let start = number * CHECKSUM_BLOCK;
            let (from, to) = (at.max(start), end.min(start + CHECKSUM_BLOCK));
            let part = &data[(from - at) as usize..(to - at) as usize];
            let block = self.blocks.entry(number).or_default();
            block.bytes[(from - start) as usize..(to - start) as usize].copy_from_slice(part);
            let whole = from == start && (to == start + CHECKSUM_BLOCK || last_may_be_short);
            block.sum = None;
            if whole {
                expected.push((number, checksum::block(part)));
                block.sum = Some(checksum::block(part));
            }
        }
        self.size = self.size.max(end);
        self.synced = false;
        let numbered = (sums.first_block..).zip(&sums.sums);
        let given: Vec<(u64, u32)> = numbered
            .map(|(number, sum)| (number, sum.unwrap()))
            .collect();
        // The client need not know that the object ends in the last block.
        let all = given == expected
            || expected.split_last().is_some_and(|(_, but_one)| {
                given == but_one && !end.is_multiple_of(CHECKSUM_BLOCK)
            });
        assert!(
            all,
            "sums of a write {at}+{} into {} bytes: {given:?} and not {expected:?}",
            data.len(),
            self.size
        );
    }

    fn read(&self, at: u64, len: u64) -> (Vec<u8>, BlockSums) {
        let end = (at + len).min(self.size).max(at);
        let mut data = vec![0; (end - at) as usize];
        let first_block = at.div_ceil(CHECKSUM_BLOCK);
        let mut sums = Vec::new();
        for number in at / CHECKSUM_BLOCK..end.div_ceil(CHECKSUM_BLOCK) {
            let start = number * CHECKSUM_BLOCK;
            let (from, to) = (at.max(start), end.min(start + CHECKSUM_BLOCK));
            let block = self.blocks.get(&number);
            if let Some(block) = block {
                let part = &block.bytes[(from - start) as usize..(to - start) as usize];
                data[(from - at) as usize..(to - at) as usize].copy_from_slice(part);
            }
            let whole = from == start && (to == start + CHECKSUM_BLOCK || to == self.size);
            if whole {
                sums.push(block.and_then(|block| block.sum));
            }
        }
        (data, BlockSums { first_block, sums })
    }

    pub fn cut(&mut self, to: u64) {
        if to < self.size {
            self.zero(to, self.size, true);
            self.blocks.retain(|number, _| number * CHECKSUM_BLOCK < to);
            self.size = to;
        }
        self.synced = false;
    }

    fn zero(&mut self, from: u64, to: u64, punch: bool) {
        self.synced = false;
        for number in from / CHECKSUM_BLOCK..to.div_ceil(CHECKSUM_BLOCK) {
            let start = number * CHECKSUM_BLOCK;
            if punch && from <= start && start + CHECKSUM_BLOCK <= to {
                self.blocks.remove(&number);
            } else if let Some(block) = self.blocks.get_mut(&number) {
                let (low, high) = (
                    from.max(start) - start,
                    to.min(start + CHECKSUM_BLOCK) - start,
                );
                if low < high {
                    block.bytes[low as usize..high as usize].fill(0);
                    block.sum = None;
                }
            } else if !punch {
                self.blocks.entry(number).or_default();
            }
        }
    }

    fn seek(&self, at: u64, what: Seek) -> Option<u64> {
        let first = at / CHECKSUM_BLOCK;
        let starts =
            (first..self.size.div_ceil(CHECKSUM_BLOCK)).map(|block| at.max(block * CHECKSUM_BLOCK));
        let mut starts = starts.filter(|at| *at < self.size);
        let found = starts
            .find(|at| self.blocks.contains_key(&(at / CHECKSUM_BLOCK)) == (what == Seek::Data));
        found.or((what == Seek::Hole && at < self.size).then_some(self.size))
    }
}

fn describe(op: &Op) -> String {
    let name = op.name();
    match op {
        Op::Write {
            object, at, data, ..
        } => format!("{name} {object} {at}+{}", data.len()),
        Op::Read {
            object, at, len, ..
        } => format!("{name} {object} {at}+{len}"),
        Op::Sync { objects } | Op::Confirm { objects } => format!("{name} {objects:?}"),
        Op::Cut { object, to } => format!("{name} {object} {to}"),
        Op::Allocate {
            object, at, len, ..
        }
        | Op::Zero {
            object, at, len, ..
        } => format!("{name} {object} {at}+{len}"),
        Op::Seek { object, at, .. } => format!("{name} {object} {at}"),
        Op::Stat { object } | Op::Remove { object } | Op::SetAside { object } => {
            format!("{name} {object}")
        }
        Op::List { .. } | Op::Space | Op::Fence { .. } => name.to_string(),
    }
}
