//! read: returns bytes of an object and their known checksums.
//!
//! The client verifies whole blocks, at the other end of the network. Blocks at the edges, of which the client gets a
//! part, are read whole and verified here.

use super::Objects;
use super::limits::SEGMENT;
use super::object::{Object, ObjectState};
use super::paths::{segment_of, split_by_segment};
use super::region::{RegionState, blocks_of, regions_of, whole_blocks_of};
use super::target::Target;
use super::write::checked_range;
use bytes::{Bytes, BytesMut};
use gupfs_platform::OnCacheMiss;
use gupfs_proto::checksum;
use gupfs_proto::data::{BlockChecksums, ChecksumCheck, ObjectExistence};
use gupfs_proto::error::ObjectDamage;
use gupfs_proto::limits::{CHECKSUM_BLOCK, PAYLOAD_MAX, REGION};
use gupfs_proto::{FsError, ObjectId, ObjectOffset};
use std::ops::Range;
use std::sync::Arc;

/// The bytes, fewer than requested at the end of the object, and the checksums of the whole blocks among them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ObjectData {
    pub data: Bytes,
    pub sums: BlockChecksums,
}

/// The state of the object before the bytes are read.
struct ReadPlan {
    /// The last change that began before the read. The read may or may not see later ones.
    last_change: u64,
    /// The requested range, up to the object's end.
    range: Range<u64>,
    /// That range extended to whole blocks where they are verified here.
    around: Range<u64>,
    blocks: Range<u64>,
    /// The known checksums of `blocks`.
    sums: Vec<Option<u32>>,
    /// A record says that the object was longer.
    short: bool,
}

impl Objects {
    /// Reads at most `len` bytes from `at`. Returns the checksums with which the client verifies whole blocks; the
    /// other blocks, and with `ChecksumCheck::ByBoth` those too, are verified here. An object that may be absent and is
    /// absent is empty.
    pub async fn read(
        &self,
        id: ObjectId,
        at: ObjectOffset,
        len: u64,
        existing: ObjectExistence,
        checked: ChecksumCheck,
    ) -> Result<ObjectData, FsError> {
        let target = self.readable()?;
        let _operation = target.counters.enter(&target.counters.reads);
        if len > PAYLOAD_MAX.get() {
            return Err(FsError::Malformed(format!("a read of {len} bytes")));
        }
        let range = checked_range(at, len)?;
        let object = target.expect_object(id, existing).await?;
        let mut plan = target.plan_read(&object, range).await?;
        if plan.short {
            return Err(target.report_damage(id, ObjectDamage::Short));
        }
        object.read_ahead(&plan.range);
        let read = target
            .read_bytes_since(&object, plan.around.clone(), plan.last_change)
            .await?;
        object
            .state()
            .clear_changed_checksums(&mut plan.sums, &plan.blocks, plan.last_change);
        let read = read.freeze();
        if !plan.verify_here(&read, checked) {
            return Err(target.report_damage(id, ObjectDamage::Checksum));
        }
        let got = plan.into_data(read);
        target.counters.bytes_read.add(got.data.len() as u64);
        Ok(got)
    }
}

impl Target {
    async fn plan_read(
        &self,
        object: &Arc<Object>,
        range: Range<u64>,
    ) -> Result<ReadPlan, FsError> {
        loop {
            let regions_to_load = {
                let mut state = object.state();
                // Including regions after the end: a record there says that the object has become shorter.
                let regions_to_load = state.regions_to_load(regions_of(&range));
                if regions_to_load.is_empty() {
                    return Ok(state.plan_read(range));
                }
                regions_to_load
            };
            self.load_regions(object, &regions_to_load).await?;
        }
    }

    /// The bytes of a range, up to the object's end.
    pub async fn read_bytes(
        &self,
        object: &Object,
        range: Range<u64>,
    ) -> Result<BytesMut, FsError> {
        let (last_change, size) = {
            let state = object.state();
            (state.in_flight.last_begun(), state.size())
        };
        let end = range.end.min(size);
        self.read_bytes_since(object, range.start.min(end)..end, last_change)
            .await
    }

    /// The bytes of a range within the object. Fewer bytes than there were at change `last_change` are damage, unless a
    /// truncate began since.
    async fn read_bytes_since(
        &self,
        object: &Object,
        range: Range<u64>,
        last_change: u64,
    ) -> Result<BytesMut, FsError> {
        let len = range.end - range.start;
        let mut read = BytesMut::with_capacity(len as usize);
        for part in split_by_segment(range.start, len) {
            let part_len = part.range.end - part.range.start;
            let done = async {
                let Some(file) = self.open_segment(object, part.segment).await? else {
                    return Ok((read, 0));
                };
                let before = read.len() as u64;
                let read = file
                    .read_append(read, part_len as usize, part.at, OnCacheMiss::HandOff)
                    .await?;
                let got = read.len() as u64 - before;
                Ok((read, got))
            };
            let (more, got) = done
                .await
                .map_err(|error| self.fs_error(object.id, &error))?;
            read = more;
            if got < part_len {
                let at = range.start + part.range.start + got;
                if object.state().had_byte(at, last_change) {
                    return Err(self.report_damage(object.id, ObjectDamage::Short));
                }
            }
            // The bytes after a segment's end are a hole up to the next segment.
            read.resize(part.range.end as usize, 0);
        }
        Ok(read)
    }
}

impl Object {
    /// Starts reading ahead the bytes that a sequential reader needs next, within the same segment.
    fn read_ahead(&self, range: &Range<u64>) {
        let mut state = self.state();
        let Some(next) = state.read_ahead.next(range) else {
            return;
        };
        let end = next.end.min(state.size());
        if next.start >= end {
            return;
        }
        let first = split_by_segment(next.start, end - next.start).next();
        if let Some(part) = first
            && let Some(file) = state.open_file(part.segment)
        {
            drop(state);
            file.read_ahead(part.at, part.range.end - part.range.start);
        }
    }
}

impl ObjectState {
    fn plan_read(&mut self, range: Range<u64>) -> ReadPlan {
        let size = self.size();
        let mut short = false;
        for (number, region) in self.regions.range_mut(regions_of(&range)) {
            if let RegionState::Clean { len, used } = &mut region.state {
                *used = true;
                short |= number * REGION + *len > size;
            }
        }
        let end = range.end.min(size);
        let range = range.start.min(end)..end;
        let blocks = blocks_of(&range);
        let sums = self.stable_checksums(blocks.clone());
        let mut around = range.clone();
        let is_known = |sum: Option<&Option<u32>>| sum.is_some_and(Option::is_some);
        if is_known(sums.first()) {
            around.start = blocks.start * CHECKSUM_BLOCK;
        }
        if is_known(sums.last()) {
            around.end = size.min(blocks.end * CHECKSUM_BLOCK);
        }
        ReadPlan {
            last_change: self.in_flight.last_begun(),
            range,
            around,
            blocks,
            sums,
            short,
        }
    }

    /// Whether the file had this byte, and no change has begun since that could have cut it off.
    fn had_byte(&self, at: u64, last_change: u64) -> bool {
        let segment = self.segments.get(&segment_of(at));
        let reached = segment.is_some_and(|segment| segment.len > at % SEGMENT);
        let changed = self.in_flight.changed_since(last_change);
        reached && changed.is_some_and(|mut changed| !changed.any(|range| range.contains(&at)))
    }
}

impl ReadPlan {
    /// Whether the blocks that are verified here match their checksums, where those are known.
    fn verify_here(&self, read: &Bytes, checked: ChecksumCheck) -> bool {
        let left_to_reader = match checked {
            ChecksumCheck::ByRequester => whole_blocks_of(&self.range),
            ChecksumCheck::ByBoth => 0..0,
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

    fn into_data(self, read: Bytes) -> ObjectData {
        let from = (self.range.start - self.around.start) as usize;
        let len = (self.range.end - self.range.start) as usize;
        let whole = whole_blocks_of(&self.range);
        let skip = (whole.start - self.blocks.start.min(whole.start)) as usize;
        let count = (whole.end - whole.start) as usize;
        ObjectData {
            data: read.slice(from..from + len),
            sums: BlockChecksums {
                first_block: whole.start,
                checksums: self.sums.into_iter().skip(skip).take(count).collect(),
            },
        }
    }
}
