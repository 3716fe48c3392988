//! write: bytes into an object, one pwrite for each segment they fall into.

use super::Objects;
use super::edges::{Bytes, Edge};
use super::object::Object;
use super::place::parts;
use super::region::whole_blocks_of;
use super::target::Target;
use gupfs_platform::DiskError;
use gupfs_proto::data::{BlockSums, Existing, ObjectStat, Owner};
use gupfs_proto::limits::{CHECKSUM_BLOCK, FILE_SIZE_MAX, PAYLOAD_MAX};
use gupfs_proto::{ObjectId, ObjectOffset, Refusal};
use std::ops::Range;

/// What is written, and what is known of the object.
#[derive(Clone, Copy, Debug)]
pub struct Write<'a> {
    pub object: ObjectId,
    pub at: ObjectOffset,
    pub data: &'a [u8],
    pub sums: &'a BlockSums,
    pub existing: Existing,
    pub owner: Owner,
}

/// The range of `len` bytes at `at`, if an object can reach that far.
pub(super) fn range_of(at: ObjectOffset, len: u64) -> Result<Range<u64>, Refusal> {
    match at.get().checked_add(len) {
        Some(end) if end <= FILE_SIZE_MAX => Ok(at.get()..end),
        _ => Err(Refusal::TooLarge),
    }
}

impl Objects {
    /// Writes all of the data, or fails: then any of its blocks may be there, and nothing else has changed.
    pub async fn write(&self, write: Write<'_>) -> Result<ObjectStat, Refusal> {
        let target = self.serving()?;
        let _under_way = target.counters.enter(&target.counters.writes);
        let len = write.data.len() as u64;
        let range = range_of(write.at, len)?;
        write.check(&range)?;
        let object = target.expect(write.object, write.existing).await?;
        if range.is_empty() {
            return Ok(object.state().stat());
        }
        if !object.state().has_space_for(&range) {
            target.room.take(len).await?;
        }
        target.settle_if_crowded().await?;

        let mut change = target.change(&object, range.clone()).await?;
        target.ready(&object, &change, &range).await?;
        let edges = object.state().edges(&range);
        let new = Bytes::Given(write.data);
        let edge_sums = target
            .sum_edges(&object, &edges, new, &range, &change)
            .await?;
        change.touch();
        let written = target.write(&object, &range, write.data).await;
        written.map_err(|error| target.refused(write.object, &error))?;

        object.write_behind(&range);

        target.counters.bytes_written.add(len);
        let now = target.platform.clock.now();
        Ok(change.end(|state, span| {
            state.set_sums(whole_blocks_of(&range), |block| write.sum(block));
            state.set_edges(span, edge_sums, |edge| write.sum_of_tail(edge, &edges));
            state.owner = write.owner;
            state.mtime = now;
            state.stat()
        }))
    }
}

impl Write<'_> {
    /// Refuses what no correct client sends.
    fn check(&self, range: &Range<u64>) -> Result<(), Refusal> {
        let len = self.data.len();
        if len as u64 > PAYLOAD_MAX.get() {
            return Err(Refusal::Malformed(format!("a write of {len} bytes")));
        }
        let whole = whole_blocks_of(range);
        let tail = range.end.div_ceil(CHECKSUM_BLOCK).max(whole.start);
        let fits = self.sums.first_block == whole.start
            && self.sums.sums.len() as u64 <= tail - whole.start;
        match fits || self.sums.sums.is_empty() {
            true => Ok(()),
            false => Err(Refusal::Malformed(
                "checksums of other blocks than those written".into(),
            )),
        }
    }

    /// What the writer says of a block that it covers whole.
    fn sum(&self, block: u64) -> Option<u32> {
        let index = block.checked_sub(self.sums.first_block)?;
        *self.sums.sums.get(usize::try_from(index).ok()?)?
    }

    /// What the writer says of the block in which its data ends: true if nothing of the object lies behind it.
    fn sum_of_tail(&self, block: u64, edges: &[Edge]) -> Option<u32> {
        let edge = edges.iter().find(|edge| edge.block == block)?;
        edge.is_all_there_is().then(|| self.sum(block))?
    }
}

impl Object {
    /// Begins to write to the device what has become much; at the border of two segments the kernel is left to it.
    fn write_behind(&self, range: &Range<u64>) {
        let mut state = self.state();
        let Some(stretch) = state.behind.wrote(range) else {
            return;
        };
        let mut all = parts(stretch.start, stretch.end - stretch.start);
        if let (Some(part), None) = (all.next(), all.next())
            && let Some(file) = state.file(part.segment)
        {
            drop(state);
            file.begin_write_back(part.at, part.of.end - part.of.start);
        }
    }
}

impl Target {
    async fn write(
        &self,
        object: &Object,
        range: &Range<u64>,
        data: &[u8],
    ) -> Result<(), DiskError> {
        for part in parts(range.start, data.len() as u64) {
            let file = self.file_to_write(object, part.segment).await?;
            let bytes = &data[part.of.start as usize..part.of.end as usize];
            file.write_at(bytes, part.at).await?;
            let within = part.at..part.at + bytes.len() as u64;
            let known = object.state().wrote(part.segment, &within);
            if !known {
                // Into a hole or behind one: only the file knows how much space it takes now.
                self.look_again(object, part.segment).await?;
            }
        }
        Ok(())
    }
}
