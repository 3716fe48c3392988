//! zero: makes a range read as zeros, with its space allocated or freed.

use super::Objects;
use super::dirty_log::DirtyLog;
use super::edge_blocks::{NewBytes, checksum_edges, edge_blocks, set_edge_checksums};
use super::files::ObjectFiles;
use super::limits::REGIONS_ZEROED_IN_MEMORY;
use super::object::{ChangeGuard, Object};
use super::paths::split_by_segment;
use super::region::{ZERO_SUM, regions_of, whole_blocks_of};
use super::space_ledger::SpaceSource;
use super::write::checked_range;
use gupfs_platform::DiskError;
use gupfs_proto::data::ObjectStat;
use gupfs_proto::limits::REGION;
use gupfs_proto::{FsError, ObjectId, ObjectOffset};
use std::ops::Range;
use std::sync::Arc;

impl Objects {
    /// Never extends the object; an absent one stays absent. `punch` frees the range's space.
    ///
    /// # Errors
    /// `TooLarge` above the largest object, `ObjectDamaged` if a block at an end of the range does not match its
    /// checksum, `NoSpace` if the log of the records has no space, or the disk none for holes that get space; `TargetDown` if the target is closed or not adopted.
    pub async fn zero(
        &self,
        id: ObjectId,
        at: ObjectOffset,
        len: u64,
        punch: bool,
    ) -> Result<ObjectStat, FsError> {
        let access = self.writable()?;
        let _operation = access.counters.enter(&access.counters.changes);
        let requested = checked_range(at, len)?;
        let object = access.objects.load_object(id).await?;
        let mut change = access.begin_change(&object, requested.clone()).await?;
        let end = requested.end.min(object.state().size());
        let range = requested.start.min(end)..end;
        if range.is_empty() {
            return Ok(change.end(|state, _| state.stat()));
        }
        let needs_space = !punch && !object.state().has_space_for(&range);
        let _admitted = match needs_space {
            true => Some(
                access
                    .free_space
                    .admit(&range, SpaceSource::Unreserved)
                    .await?,
            ),
            false => None,
        };
        make_zero_range_dirty(&access.dirty_log, &object, &change, &range).await?;
        let edges = edge_blocks(&object.state(), &range);
        let new = NewBytes::Zeros;
        let sums = checksum_edges(&access.reader, &object, &edges, new, &range, &change).await?;
        change.note_bytes_change();
        let done = zero_segments(&access.files, &object, &range, punch).await;
        done.map_err(|error| access.damage.fs_error(id, &error))?;

        let now = access.clock.now();
        Ok(change.end(|state, span| {
            state
                .regions
                .set_checksums(whole_blocks_of(&range), |_| Some(*ZERO_SUM));
            set_edge_checksums(&mut state.regions, span, sums, |_| None);
            state.mtime = now;
            state.stat()
        }))
    }
}

/// The same as `make_range_dirty`; of a large range only the regions at its ends stay in memory, and the records of the
/// others are deleted.
async fn make_zero_range_dirty(
    log: &DirtyLog,
    object: &Arc<Object>,
    change: &ChangeGuard<'_>,
    range: &Range<u64>,
) -> Result<(), FsError> {
    let regions = regions_of(range);
    if regions.end - regions.start <= REGIONS_ZEROED_IN_MEMORY {
        return log.make_range_dirty(object, change, range).await;
    }
    let inner = range.start.div_ceil(REGION)..range.end / REGION;
    log.make_range_dirty(object, change, &(range.start..inner.start * REGION))
        .await?;
    log.make_range_dirty(object, change, &(inner.end * REGION..range.end))
        .await?;
    log.delete_records_durably(object, inner).await
}

async fn zero_segments(
    files: &ObjectFiles,
    object: &Object,
    range: &Range<u64>,
    punch: bool,
) -> Result<(), DiskError> {
    for part in split_by_segment(range.start, range.end - range.start) {
        // A segment without a file is a hole already, and so are the bytes after a segment's end.
        let Some(file) = files.open_segment(object, part.segment).await? else {
            continue;
        };
        let len = part.range.end - part.range.start;
        match punch {
            true => file.punch_hole(part.at, len).await?,
            false => file.zero_range(part.at, len).await?,
        }
        files.refresh_segment(object, part.segment).await?;
    }
    Ok(())
}
