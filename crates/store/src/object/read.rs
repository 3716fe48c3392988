//! read: returns bytes of an object and their known checksums.
//!
//! The client verifies whole blocks, at the other end of the network. Blocks at the edges, of which the client gets a
//! part, are read whole and verified here.

use super::Objects;
use super::object::{Object, ObjectState};
use super::region::{RegionState, blocks_of, regions_of, whole_blocks_of};
use super::region_loader::RegionLoader;
use super::write::checked_range;
use bytes::Bytes;
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
    ///
    /// # Errors
    /// `ObjectDamaged` if bytes or the object are lost or do not match their checksums, `Malformed` above
    /// `PAYLOAD_MAX`, `TooLarge` above the largest object; `TargetDown` if the target is closed.
    pub async fn read(
        &self,
        id: ObjectId,
        at: ObjectOffset,
        len: u64,
        existing: ObjectExistence,
        checked: ChecksumCheck,
    ) -> Result<ObjectData, FsError> {
        tracing::trace!(target: "walk", file = file!(), "read");
        let access = self.readable()?;
        let _operation = access.counters.enter(&access.counters.reads);
        if len > PAYLOAD_MAX.get() {
            return Err(FsError::Malformed(format!("a read of {len} bytes")));
        }
        let range = checked_range(at, len)?;
        let object = access.objects.expect_object(id, existing).await?;
        let mut plan = plan_read(&access.regions, &object, range).await?;
        if plan.short {
            return Err(access.damage.report(id, ObjectDamage::Short));
        }
        object.read_ahead(&plan.range);
        let read = access
            .reader
            .read_bytes_since(&object, plan.around.clone(), plan.last_change)
            .await?;
        object
            .state()
            .clear_changed_checksums(&mut plan.sums, &plan.blocks, plan.last_change);
        let read = read.freeze();
        if !plan.verify_here(&read, checked) {
            return Err(access.damage.report(id, ObjectDamage::Checksum));
        }
        let got = plan.into_data(read);
        access.counters.bytes_read.add(got.data.len() as u64);
        Ok(got)
    }
}

async fn plan_read(
    regions: &RegionLoader,
    object: &Arc<Object>,
    range: Range<u64>,
) -> Result<ReadPlan, FsError> {
    loop {
        let regions_to_load = {
            let mut state = object.state();
            // Including regions after the end: a record there says that the object has become shorter.
            let regions_to_load = state.regions.to_load(regions_of(&range));
            if regions_to_load.is_empty() {
                return Ok(ReadPlan::new(&mut state, range));
            }
            regions_to_load
        };
        regions.load(object, &regions_to_load).await?;
    }
}

impl ReadPlan {
    fn new(state: &mut ObjectState, range: Range<u64>) -> ReadPlan {
        let size = state.size();
        let mut short = false;
        for (number, region) in state.regions.in_memory.range_mut(regions_of(&range)) {
            if let RegionState::Clean { len, used } = &mut region.state {
                *used = true;
                short |= number * REGION + *len > size;
            }
        }
        let end = range.end.min(size);
        let range = range.start.min(end)..end;
        let blocks = blocks_of(&range);
        let sums = state.stable_checksums(blocks.clone());
        let mut around = range.clone();
        let is_known = |sum: Option<&Option<u32>>| sum.is_some_and(Option::is_some);
        if is_known(sums.first()) {
            around.start = blocks.start * CHECKSUM_BLOCK;
        }
        if is_known(sums.last()) {
            around.end = size.min(blocks.end * CHECKSUM_BLOCK);
        }
        ReadPlan {
            last_change: state.in_flight.last_begun(),
            range,
            around,
            blocks,
            sums,
            short,
        }
    }

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
