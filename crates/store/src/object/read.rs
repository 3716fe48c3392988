//! read: bytes of an object and what is known of their checksums.
//!
//! Whole blocks are checked by the reader, at the other end of the wire; blocks at the edges, of which it gets a part,
//! are read whole and checked here.

use super::Objects;
use super::limits::SEGMENT;
use super::object::{Object, State};
use super::place::{parts, segment_of};
use super::region::{Standing, blocks_of, regions_of, whole_blocks_of};
use super::target::Target;
use super::write::range_of;
use bytes::{Bytes, BytesMut};
use gupfs_platform::ReadHow;
use gupfs_proto::checksum;
use gupfs_proto::data::{BlockSums, Checked, Existing};
use gupfs_proto::limits::{CHECKSUM_BLOCK, PAYLOAD_MAX, REGION};
use gupfs_proto::refusal::ObjectDamage;
use gupfs_proto::{ObjectId, ObjectOffset, Refusal};
use std::ops::Range;
use std::sync::Arc;

/// Bytes, fewer than asked where the object ends, and the sums of the whole blocks among them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Got {
    pub data: Bytes,
    pub sums: BlockSums,
}

/// What is known before the bytes are read.
struct Plan {
    /// Changes that begin after this one may be seen or not.
    then: u64,
    /// What was asked, as far as the object reaches.
    range: Range<u64>,
    /// With the rest of blocks that are to be checked here.
    around: Range<u64>,
    blocks: Range<u64>,
    /// Of `blocks`.
    sums: Vec<Option<u32>>,
    /// A record says that the object was longer.
    short: bool,
}

impl Objects {
    /// At most `len` bytes from `at`, and the sums that the reader compares whole blocks with; the others, and those
    /// too if `checked` says so, are compared here. An object that may not exist and does not is empty.
    pub async fn read(
        &self,
        id: ObjectId,
        at: ObjectOffset,
        len: u64,
        existing: Existing,
        checked: Checked,
    ) -> Result<Got, Refusal> {
        let target = self.looking()?;
        let _under_way = target.counters.enter(&target.counters.reads);
        if len > PAYLOAD_MAX.get() {
            return Err(Refusal::Malformed(format!("a read of {len} bytes")));
        }
        let range = range_of(at, len)?;
        let object = target.expect(id, existing).await?;
        let mut plan = target.plan_read(&object, range).await?;
        if plan.short {
            return Err(target.damaged(id, ObjectDamage::Short));
        }
        object.read_ahead(&plan.range);
        let read = target
            .bytes_since(&object, plan.around.clone(), plan.then)
            .await?;
        object
            .state()
            .forget_moved(&mut plan.sums, &plan.blocks, plan.then);
        let read = read.freeze();
        if !plan.matches(&read, checked) {
            return Err(target.damaged(id, ObjectDamage::Checksum));
        }
        let got = plan.take(read);
        target.counters.bytes_read.add(got.data.len() as u64);
        Ok(got)
    }
}

impl Target {
    async fn plan_read(&self, object: &Arc<Object>, range: Range<u64>) -> Result<Plan, Refusal> {
        loop {
            let unasked = {
                let mut state = object.state();
                // Behind the end as well: a record there says that the object has become shorter.
                let unasked = state.unasked(regions_of(&range));
                if unasked.is_empty() {
                    return Ok(state.plan_read(range));
                }
                unasked
            };
            self.ask(object, &unasked).await?;
        }
    }

    /// The bytes of a range, as far as the object reaches.
    pub async fn bytes(&self, object: &Object, range: Range<u64>) -> Result<BytesMut, Refusal> {
        let (then, size) = {
            let state = object.state();
            (state.flight.now(), state.size())
        };
        let end = range.end.min(size);
        self.bytes_since(object, range.start.min(end)..end, then)
            .await
    }

    /// The bytes of a range within the object. Fewer than there were at `then` are damage, unless it was cut since.
    async fn bytes_since(
        &self,
        object: &Object,
        range: Range<u64>,
        then: u64,
    ) -> Result<BytesMut, Refusal> {
        let len = range.end - range.start;
        let mut read = BytesMut::with_capacity(len as usize);
        for part in parts(range.start, len) {
            let part_len = part.of.end - part.of.start;
            let done = async {
                let Some(file) = self.file(object, part.segment).await? else {
                    return Ok((read, 0));
                };
                let before = read.len() as u64;
                let read = file
                    .read_append(read, part_len as usize, part.at, ReadHow::MayWait)
                    .await?;
                let got = read.len() as u64 - before;
                Ok((read, got))
            };
            let (more, got) = done
                .await
                .map_err(|error| self.refused(object.id, &error))?;
            read = more;
            if got < part_len {
                let at = range.start + part.of.start + got;
                if object.state().had_byte(at, then) {
                    return Err(self.damaged(object.id, ObjectDamage::Short));
                }
            }
            // What lies behind a segment's last byte is a hole up to the next.
            read.resize(part.of.end as usize, 0);
        }
        Ok(read)
    }
}

impl Object {
    /// Beside the read of these bytes: whatever may be wanted next, of the same segment.
    fn read_ahead(&self, range: &Range<u64>) {
        let mut state = self.state();
        let Some(next) = state.ahead.next(range) else {
            return;
        };
        let end = next.end.min(state.size());
        if next.start >= end {
            return;
        }
        let first = parts(next.start, end - next.start).next();
        if let Some(part) = first
            && let Some(file) = state.file(part.segment)
        {
            drop(state);
            file.read_ahead(part.at, part.of.end - part.of.start);
        }
    }
}

impl State {
    fn plan_read(&mut self, range: Range<u64>) -> Plan {
        let size = self.size();
        let mut short = false;
        for (number, region) in self.regions.range_mut(regions_of(&range)) {
            if let Standing::Clean { len, used } = &mut region.standing {
                *used = true;
                short |= number * REGION + *len > size;
            }
        }
        let end = range.end.min(size);
        let range = range.start.min(end)..end;
        let blocks = blocks_of(&range);
        let sums = self.sums_still(blocks.clone());
        let mut around = range.clone();
        let is_known = |sum: Option<&Option<u32>>| sum.is_some_and(Option::is_some);
        if is_known(sums.first()) {
            around.start = blocks.start * CHECKSUM_BLOCK;
        }
        if is_known(sums.last()) {
            around.end = size.min(blocks.end * CHECKSUM_BLOCK);
        }
        Plan {
            then: self.flight.now(),
            range,
            around,
            blocks,
            sums,
            short,
        }
    }

    /// Whether a file reached beyond a place, and nothing has begun since that could have cut it.
    fn had_byte(&self, at: u64, then: u64) -> bool {
        let segment = self.segments.get(&segment_of(at));
        let reached = segment.is_some_and(|segment| segment.len > at % SEGMENT);
        let moved = self.flight.moved_since(then);
        reached && moved.is_some_and(|mut moved| !moved.any(|range| range.contains(&at)))
    }
}

impl Plan {
    /// Whether the blocks that are compared here are what their sums say, where those are known.
    fn matches(&self, read: &Bytes, checked: Checked) -> bool {
        let left_to_reader = match checked {
            Checked::ByAsker => whole_blocks_of(&self.range),
            Checked::ByBoth => 0..0,
        };
        let mut compared = self
            .blocks
            .clone()
            .filter(|block| !left_to_reader.contains(block));
        compared.all(|block| {
            let Some(sum) = self.sums[(block - self.blocks.start) as usize] else {
                return true;
            };
            let start = block * CHECKSUM_BLOCK - self.around.start;
            let end = (start + CHECKSUM_BLOCK).min(read.len() as u64);
            checksum::block(&read[start as usize..end as usize]) == sum
        })
    }

    fn take(self, read: Bytes) -> Got {
        let from = (self.range.start - self.around.start) as usize;
        let len = (self.range.end - self.range.start) as usize;
        let whole = whole_blocks_of(&self.range);
        let skip = (whole.start - self.blocks.start.min(whole.start)) as usize;
        let count = (whole.end - whole.start) as usize;
        Got {
            data: read.slice(from..from + len),
            sums: BlockSums {
                first_block: whole.start,
                sums: self.sums.into_iter().skip(skip).take(count).collect(),
            },
        }
    }
}
