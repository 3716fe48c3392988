//! All targets in one service: sparse objects in memory, whose bytes are checked against the checksums sent with them.

use super::yield_at_random;
use gupfs_platform::fake::{FakeClock, FakeRandom};
use gupfs_proto::data::{
    BlockChecksums, DataOp, DataReply, DataReplyBody, DataRequest, ObjectExistence, ObjectStat,
    SeekWhence, SpaceReservation, TargetCapacity,
};
use gupfs_proto::error::ObjectDamage;
use gupfs_proto::limits::{CHECKSUM_BLOCK, PAYLOAD_MAX};
use gupfs_proto::{FsError, ObjectId, OstId, WriteVerifier, checksum};
use gupfs_rpc::Service;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

pub struct FakeOst {
    clock: FakeClock,
    dice: FakeRandom,
    pub state: Mutex<FakeOstState>,
}

#[derive(Default)]
pub struct FakeOstState {
    pub objects: BTreeMap<ObjectId, FakeObject>,
    /// Blocks that may still be allocated; None: any number.
    pub free_blocks: Option<u64>,
    /// How many of the next reads return a flipped bit.
    pub corrupt_reads: u32,
    /// The requests, such as "write 1.2.0 0+4096".
    pub journal: Vec<String>,
    /// Errors by operation and target, each returned once.
    pub errors: Vec<(&'static str, OstId, FsError)>,
    /// How long each sync takes.
    pub slow_sync: Duration,
    /// Number of the current instance (write verifier) of all targets.
    pub instance: u64,
    /// Loses power once, just before the next sync.
    pub loses_power_before_sync: bool,
    pub reservations: FakeReservations,
}

/// The space that the targets keep for their only client.
#[derive(Default)]
pub struct FakeReservations {
    /// The most that each target keeps; None: any number of bytes.
    pub most: Option<u64>,
    /// The targets are of a version without reservations.
    pub are_unknown: bool,
    /// The start of the targets.
    pub instance: u64,
    /// Writes into reserved space that took more than was reserved.
    pub overdrawn: u64,
    /// What was asked for and what is kept, by target.
    targets: BTreeMap<OstId, (u64, u64)>,
    replies: u64,
}

impl FakeReservations {
    /// The targets start again.
    pub fn restart(&mut self) {
        self.targets.clear();
        self.instance += 1;
    }

    fn reserve(&mut self, ost: OstId, bytes: u64) -> SpaceReservation {
        self.targets.insert(ost, (bytes, 0));
        self.refill(ost)
    }

    fn take(&mut self, ost: OstId, bytes: u64) {
        let (_, kept) = self.targets.entry(ost).or_default();
        self.overdrawn += u64::from(*kept < bytes);
        *kept = kept.saturating_sub(bytes);
    }

    fn refill(&mut self, ost: OstId) -> SpaceReservation {
        self.replies += 1;
        let (wanted, kept) = self.targets.entry(ost).or_default();
        *kept = (*wanted).min(self.most.unwrap_or(u64::MAX));
        SpaceReservation {
            instance: self.instance,
            number: self.replies,
            bytes: *kept,
        }
    }

    fn kept(&self) -> u64 {
        self.targets.values().map(|(_, kept)| kept).sum()
    }
}

#[derive(Default, Clone)]
pub struct FakeObject {
    pub size: u64,
    pub blocks: BTreeMap<u64, FakeBlock>,
    pub synced: bool,
    /// It was synced at least once since its creation.
    pub was_synced: bool,
    mtime: gupfs_proto::Timestamp,
}

#[derive(Clone)]
pub struct FakeBlock {
    bytes: Box<[u8; B]>,
    sum: Option<u32>,
}

const B: usize = CHECKSUM_BLOCK as usize;

impl FakeOst {
    pub fn new(clock: FakeClock, dice: FakeRandom) -> Arc<FakeOst> {
        Arc::new(FakeOst {
            clock,
            dice,
            state: Mutex::default(),
        })
    }

    /// A power loss: objects that were never synced are gone, the others stay.
    pub fn lose_power(&self) {
        let mut state = self.state.lock();
        state.instance += 1;
        state.objects.retain(|_, object| object.was_synced);
    }

    pub fn truncate(&self, id: ObjectId, to: u64) -> ObjectStat {
        let mut state = self.state.lock();
        let Some(object) = state.objects.get_mut(&id) else {
            return ObjectStat::default();
        };
        object.truncate(to);
        object.mtime = self.clock.now();
        object.stat()
    }

    fn apply(&self, ost: OstId, op: DataOp) -> DataReply {
        let mut state = self.state.lock();
        state.journal.push(describe(&op));
        if let Some(index) = state
            .errors
            .iter()
            .position(|(name, on, _)| *name == op.name() && *on == ost)
        {
            return Err(state.errors.remove(index).2);
        }
        let missing = |object: ObjectId| FsError::ObjectDamaged {
            ost,
            object,
            damage: ObjectDamage::Missing,
        };
        let (now, instance) = (self.clock.now(), WriteVerifier(state.instance));
        let is_reserved = matches!(op, DataOp::ReservedWrite { .. });
        match op {
            DataOp::Write {
                object,
                at,
                data,
                checksums: sums,
                existence: existing,
                ..
            }
            | DataOp::NumberedWrite {
                object,
                at,
                data,
                checksums: sums,
                existence: existing,
                ..
            }
            | DataOp::ReservedWrite {
                object,
                at,
                data,
                checksums: sums,
                existence: existing,
                ..
            } => {
                assert!(!data.is_empty() && data.len() as u64 <= PAYLOAD_MAX.0);
                if existing == ObjectExistence::MustExist && !state.objects.contains_key(&object) {
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
                match is_reserved {
                    true => state.take_reserved_blocks(ost, new)?,
                    false => state.take_blocks(new)?,
                }
                let it = state.objects.entry(object).or_default();
                it.write(at.0, &data, &sums);
                it.mtime = now;
                let stat = it.stat();
                Ok(match is_reserved {
                    true => {
                        let left = state.reservations.refill(ost);
                        DataReplyBody::WrittenReserved(stat, instance, left)
                    }
                    false => DataReplyBody::Written(stat, instance),
                })
            }
            DataOp::Reserve { .. } if state.reservations.are_unknown => Err(FsError::NotSupported),
            DataOp::Reserve { bytes } => Ok(DataReplyBody::Reserved(
                state.reservations.reserve(ost, bytes),
            )),
            DataOp::Read {
                object,
                at,
                len,
                existence: existing,
                checksum_check: _,
            } => {
                assert!(len <= PAYLOAD_MAX.0);
                let corrupt_reads = state.corrupt_reads > 0;
                state.corrupt_reads -= u32::from(corrupt_reads);
                let Some(it) = state.objects.get(&object) else {
                    return match existing {
                        ObjectExistence::MustExist => Err(missing(object)),
                        ObjectExistence::MayExist => Ok(DataReplyBody::Data {
                            data: Default::default(),
                            checksums: BlockChecksums::default(),
                        }),
                    };
                };
                let (mut data, sums) = it.read(at.0, len);
                if corrupt_reads {
                    data[0] ^= 1;
                }
                Ok(DataReplyBody::Data {
                    data: data.into(),
                    checksums: sums,
                })
            }
            DataOp::Sync { objects } => {
                for id in objects {
                    if let Some(it) = state.objects.get_mut(&id) {
                        it.synced = true;
                        it.was_synced = true;
                    }
                }
                Ok(DataReplyBody::DoneWithVerifier(instance))
            }
            DataOp::Confirm { .. } => Err(FsError::NotSupported),
            DataOp::Truncate { object, to } => {
                drop(state);
                Ok(DataReplyBody::Written(self.truncate(object, to), instance))
            }
            DataOp::Allocate {
                object,
                at,
                len,
                keep_size,
                existence: existing,
                ..
            } => {
                if existing == ObjectExistence::MustExist && !state.objects.contains_key(&object) {
                    return Err(missing(object));
                }
                let blocks = at.0 / CHECKSUM_BLOCK..(at.0 + len).div_ceil(CHECKSUM_BLOCK);
                state.take_blocks(blocks.end - blocks.start)?;
                let it = state.objects.entry(object).or_default();
                for block in blocks {
                    it.blocks.entry(block).or_default();
                }
                if !keep_size {
                    it.size = it.size.max(at.0 + len);
                }
                it.mtime = now;
                it.synced = false;
                Ok(DataReplyBody::Written(it.stat(), instance))
            }
            DataOp::Zero {
                object,
                at,
                len,
                punch,
            } => {
                let Some(it) = state.objects.get_mut(&object) else {
                    return Ok(DataReplyBody::Written(ObjectStat::default(), instance));
                };
                it.zero(at.0, (at.0 + len).min(it.size), punch);
                it.mtime = now;
                Ok(DataReplyBody::Written(it.stat(), instance))
            }
            DataOp::Seek {
                object,
                at,
                whence: what,
            } => {
                let found = state
                    .objects
                    .get(&object)
                    .and_then(|it| it.seek(at.0, what));
                Ok(DataReplyBody::Position(
                    found.map(gupfs_proto::ObjectOffset),
                ))
            }
            DataOp::Stat { object } => Ok(DataReplyBody::Stat(
                state.objects.get(&object).map(FakeObject::stat),
            )),
            DataOp::Remove { object } | DataOp::Quarantine { object } => {
                state.objects.remove(&object);
                Ok(DataReplyBody::DoneWithVerifier(instance))
            }
            DataOp::List { .. }
            | DataOp::Digest { .. }
            | DataOp::Repair { .. }
            | DataOp::Damaged { .. }
            | DataOp::MirroredWrite { .. }
            | DataOp::RelayedWrite { .. }
            | DataOp::AcceptRelays { .. } => Err(FsError::NotSupported),
            // `Space`: the first two targets share a disk.
            DataOp::Fence { .. } | DataOp::FenceObject { .. } => Ok(DataReplyBody::Done),
            DataOp::Space => Ok(DataReplyBody::Space(TargetCapacity {
                volume: u64::from(ost.0.max(1)),
                total: 1 << 40,
                free: 1 << 39,
                available: state
                    .free_blocks
                    .map_or(1 << 38, |blocks| blocks * CHECKSUM_BLOCK),
                objects: state.objects.len() as u64,
            })),
        }
    }
}

impl Service<DataRequest, DataReply> for FakeOst {
    async fn handle(self: Arc<Self>, request: DataRequest) -> DataReply {
        yield_at_random(&self.dice).await;
        if matches!(request.op, DataOp::Sync { .. }) {
            if std::mem::take(&mut self.state.lock().loses_power_before_sync) {
                self.lose_power();
            }
            let slow = self.state.lock().slow_sync;
            tokio::time::sleep(slow).await;
        }
        let reply = self.apply(request.ost, request.op);
        yield_at_random(&self.dice).await;
        reply
    }
}

impl FakeOstState {
    fn take_blocks(&mut self, blocks: u64) -> Result<(), FsError> {
        let kept_blocks = self.reservations.kept() / CHECKSUM_BLOCK;
        if let Some(free_blocks) = &mut self.free_blocks {
            if *free_blocks < blocks + kept_blocks {
                return Err(FsError::NoSpace);
            }
            *free_blocks -= blocks;
        }
        Ok(())
    }

    fn take_reserved_blocks(&mut self, ost: OstId, blocks: u64) -> Result<(), FsError> {
        self.reservations.take(ost, blocks * CHECKSUM_BLOCK);
        if let Some(free_blocks) = &mut self.free_blocks {
            *free_blocks = free_blocks.checked_sub(blocks).ok_or(FsError::NoSpace)?;
        }
        Ok(())
    }
}

impl Default for FakeBlock {
    fn default() -> FakeBlock {
        FakeBlock {
            bytes: Box::new([0; B]),
            sum: Some(checksum::block(&[])),
        }
    }
}

impl FakeObject {
    pub fn stat(&self) -> ObjectStat {
        ObjectStat {
            size: self.size,
            blocks: self.blocks.len() as u64 * (CHECKSUM_BLOCK / 512),
            mtime: self.mtime,
        }
    }

    fn write(&mut self, at: u64, data: &[u8], sums: &BlockChecksums) {
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
        let numbered = (sums.first_block..).zip(&sums.checksums);
        let given: Vec<(u64, u32)> = numbered
            .map(|(number, sum)| (number, sum.unwrap()))
            .collect();
        // The client may not know that the object ends in the last block.
        let all = given == expected
            || expected.split_last().is_some_and(|(_, but_one)| {
                given == but_one && !end.is_multiple_of(CHECKSUM_BLOCK)
            });
        assert!(
            all,
            "checksums of a write {at}+{} into {} bytes: {given:?}, expected {expected:?}",
            data.len(),
            self.size
        );
    }

    fn read(&self, at: u64, len: u64) -> (Vec<u8>, BlockChecksums) {
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
        (
            data,
            BlockChecksums {
                first_block,
                checksums: sums,
            },
        )
    }

    pub fn truncate(&mut self, to: u64) {
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

    fn seek(&self, at: u64, what: SeekWhence) -> Option<u64> {
        let first = at / CHECKSUM_BLOCK;
        let starts =
            (first..self.size.div_ceil(CHECKSUM_BLOCK)).map(|block| at.max(block * CHECKSUM_BLOCK));
        let mut starts = starts.filter(|at| *at < self.size);
        let found = starts.find(|at| {
            self.blocks.contains_key(&(at / CHECKSUM_BLOCK)) == (what == SeekWhence::Data)
        });
        found.or((what == SeekWhence::Hole && at < self.size).then_some(self.size))
    }
}

fn describe(op: &DataOp) -> String {
    let name = op.name();
    match op {
        DataOp::Write {
            object, at, data, ..
        }
        | DataOp::NumberedWrite {
            object, at, data, ..
        }
        | DataOp::ReservedWrite {
            object, at, data, ..
        }
        | DataOp::MirroredWrite {
            object, at, data, ..
        }
        | DataOp::RelayedWrite {
            object, at, data, ..
        } => format!("{name} {object} {at}+{}", data.len()),
        DataOp::Read {
            object, at, len, ..
        } => format!("{name} {object} {at}+{len}"),
        DataOp::Sync { objects } | DataOp::Confirm { objects } => format!("{name} {objects:?}"),
        DataOp::Truncate { object, to } => format!("{name} {object} {to}"),
        DataOp::Allocate {
            object, at, len, ..
        }
        | DataOp::Zero {
            object, at, len, ..
        } => format!("{name} {object} {at}+{len}"),
        DataOp::Seek { object, at, .. } => format!("{name} {object} {at}"),
        DataOp::Stat { object }
        | DataOp::Remove { object }
        | DataOp::Quarantine { object }
        | DataOp::FenceObject { object, .. }
        | DataOp::Digest { object, .. }
        | DataOp::Repair { object, .. } => {
            format!("{name} {object}")
        }
        DataOp::Damaged { .. } => name.into(),
        DataOp::Reserve { bytes } => format!("{name} {bytes}"),
        DataOp::List { .. }
        | DataOp::Space
        | DataOp::Fence { .. }
        | DataOp::AcceptRelays { .. } => name.to_string(),
    }
}
