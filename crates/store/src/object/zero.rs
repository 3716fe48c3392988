//! zero: a range reads zeros, with its space or without.

use super::Objects;
use super::edges::Bytes;
use super::limits::REGIONS_ZEROED;
use super::object::{Change, Object};
use super::place::parts;
use super::region::{ZERO_SUM, regions_of, whole_blocks_of};
use super::target::Target;
use super::write::range_of;
use gupfs_platform::DiskError;
use gupfs_proto::data::ObjectStat;
use gupfs_proto::limits::REGION;
use gupfs_proto::{ObjectId, ObjectOffset, Refusal};
use std::ops::Range;
use std::sync::Arc;

impl Objects {
    /// Never lengthens the object; an absent one stays absent. `punch` gives the range's space back.
    pub async fn zero(
        &self,
        id: ObjectId,
        at: ObjectOffset,
        len: u64,
        punch: bool,
    ) -> Result<ObjectStat, Refusal> {
        let target = self.serving()?;
        let _under_way = target.counters.enter(&target.counters.changes);
        let asked = range_of(at, len)?;
        let object = target.object(id).await?;
        let mut change = target.change(&object, asked.clone()).await?;
        let end = asked.end.min(object.state().size());
        let range = asked.start.min(end)..end;
        if range.is_empty() {
            return Ok(change.end(|state, _| state.stat()));
        }
        target.ready_to_zero(&object, &change, &range).await?;
        let edges = object.state().edges(&range);
        let sums = target
            .sum_edges(&object, &edges, Bytes::Zeros, &range, &change)
            .await?;
        change.touch();
        let done = target.zero(&object, &range, punch).await;
        done.map_err(|error| target.refused(id, &error))?;

        let now = target.platform.clock.now();
        Ok(change.end(|state, span| {
            state.set_sums(whole_blocks_of(&range), |_| Some(*ZERO_SUM));
            state.set_edges(span, sums, |_| None);
            state.mtime = now;
            state.stat()
        }))
    }
}

impl Target {
    /// The same as `ready`; of a large range only the ends are remembered region by region.
    async fn ready_to_zero(
        &self,
        object: &Arc<Object>,
        change: &Change<'_>,
        range: &Range<u64>,
    ) -> Result<(), Refusal> {
        let regions = regions_of(range);
        if regions.end - regions.start <= REGIONS_ZEROED {
            return self.ready(object, change, range).await;
        }
        let inner = range.start.div_ceil(REGION)..range.end / REGION;
        self.ready(object, change, &(range.start..inner.start * REGION))
            .await?;
        self.ready(object, change, &(inner.end * REGION..range.end))
            .await?;
        let forgotten = self.forget_records(object, inner).await?;
        self.records_durable(forgotten).await
    }

    async fn zero(
        &self,
        object: &Object,
        range: &Range<u64>,
        punch: bool,
    ) -> Result<(), DiskError> {
        for part in parts(range.start, range.end - range.start) {
            // No file is a hole already, and what lies behind a segment's end is one.
            let Some(file) = self.file(object, part.segment).await? else {
                continue;
            };
            let len = part.of.end - part.of.start;
            match punch {
                true => file.punch_hole(part.at, len).await?,
                false => file.zero_range(part.at, len).await?,
            }
            self.look_again(object, part.segment).await?;
        }
        Ok(())
    }
}
