//! zero: makes a range read as zeros, with its space allocated or freed.

use super::Objects;
use super::edge_blocks::NewBytes;
use super::limits::REGIONS_ZEROED_IN_MEMORY;
use super::object::{ChangeGuard, Object};
use super::paths::split_by_segment;
use super::region::{ZERO_SUM, regions_of, whole_blocks_of};
use super::target::Target;
use super::write::checked_range;
use gupfs_platform::DiskError;
use gupfs_proto::data::ObjectStat;
use gupfs_proto::limits::REGION;
use gupfs_proto::{FsError, ObjectId, ObjectOffset};
use std::ops::Range;
use std::sync::Arc;

impl Objects {
    /// Never extends the object; an absent one stays absent. `punch` frees the range's space.
    pub async fn zero(
        &self,
        id: ObjectId,
        at: ObjectOffset,
        len: u64,
        punch: bool,
    ) -> Result<ObjectStat, FsError> {
        let target = self.serving()?;
        let _operation = target.counters.enter(&target.counters.changes);
        let requested = checked_range(at, len)?;
        let object = target.load_object(id).await?;
        let mut change = target.begin_change(&object, requested.clone()).await?;
        let end = requested.end.min(object.state().size());
        let range = requested.start.min(end)..end;
        if range.is_empty() {
            return Ok(change.end(|state, _| state.stat()));
        }
        target
            .make_zero_range_dirty(&object, &change, &range)
            .await?;
        let edges = object.state().edge_blocks(&range);
        let sums = target
            .checksum_edges(&object, &edges, NewBytes::Zeros, &range, &change)
            .await?;
        change.note_bytes_change();
        let done = target.zero(&object, &range, punch).await;
        done.map_err(|error| target.fs_error(id, &error))?;

        let now = target.platform.clock.now();
        Ok(change.end(|state, span| {
            state.set_checksums(whole_blocks_of(&range), |_| Some(*ZERO_SUM));
            state.set_edge_checksums(span, sums, |_| None);
            state.mtime = now;
            state.stat()
        }))
    }
}

impl Target {
    /// The same as `make_range_dirty`; of a large range only the regions at its ends stay in memory, and the records of
    /// the others are deleted.
    async fn make_zero_range_dirty(
        &self,
        object: &Arc<Object>,
        change: &ChangeGuard<'_>,
        range: &Range<u64>,
    ) -> Result<(), FsError> {
        let regions = regions_of(range);
        if regions.end - regions.start <= REGIONS_ZEROED_IN_MEMORY {
            return self.make_range_dirty(object, change, range).await;
        }
        let inner = range.start.div_ceil(REGION)..range.end / REGION;
        self.make_range_dirty(object, change, &(range.start..inner.start * REGION))
            .await?;
        self.make_range_dirty(object, change, &(inner.end * REGION..range.end))
            .await?;
        let records_deleted = self.delete_records(object, inner).await?;
        self.wait_records_durable(records_deleted).await
    }

    async fn zero(
        &self,
        object: &Object,
        range: &Range<u64>,
        punch: bool,
    ) -> Result<(), DiskError> {
        for part in split_by_segment(range.start, range.end - range.start) {
            // A segment without a file is a hole already, and so are the bytes after a segment's end.
            let Some(file) = self.open_segment(object, part.segment).await? else {
                continue;
            };
            let len = part.range.end - part.range.start;
            match punch {
                true => file.punch_hole(part.at, len).await?,
                false => file.zero_range(part.at, len).await?,
            }
            self.refresh_segment(object, part.segment).await?;
        }
        Ok(())
    }
}
