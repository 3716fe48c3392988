//! truncate: removes the bytes of an object from an offset on.

use super::Objects;
use super::access::WriteAccess;
use super::edge_blocks::{NewBytes, checksum_edges, edge_blocks, set_edge_checksums};
use super::files::ObjectFiles;
use super::limits::SEGMENT;
use super::object::{ChangeGuard, Object};
use super::paths::segment_of;
use super::region::{ZERO_SUM, whole_blocks_of};
use gupfs_platform::DiskError;
use gupfs_proto::data::ObjectStat;
use gupfs_proto::limits::{CHECKSUM_BLOCK, REGION};
use gupfs_proto::{FsError, ObjectId};
use std::ops::Range;
use std::sync::Arc;

impl Objects {
    /// Ends the object at `to`, if it is longer. Durable with the next sync.
    ///
    /// # Errors
    /// `ObjectDamaged` if the block in which the object will end does not match its checksum, `NoSpace` if the log of
    /// the records has no space; `TargetDown` if the target is closed or not adopted.
    pub async fn truncate(&self, id: ObjectId, to: u64) -> Result<ObjectStat, FsError> {
        let access = self.writable()?;
        let _operation = access.counters.enter(&access.counters.changes);
        let object = access.objects.load_object(id).await?;
        let change = access.begin_change(&object, to..u64::MAX).await?;
        let size = object.state().size();
        if size <= to {
            return Ok(change.end(|state, _| state.stat()));
        }
        truncate(access, &object, change, to..size).await
    }
}

async fn truncate(
    access: &WriteAccess,
    object: &Arc<Object>,
    mut change: ChangeGuard<'_>,
    gone: Range<u64>,
) -> Result<ObjectStat, FsError> {
    let to = gone.start;
    // The region that keeps a part of its bytes becomes dirty; the regions after it lose their records.
    let region_end = to.next_multiple_of(REGION);
    let kept = to..region_end.min(gone.end);
    access
        .dirty_log
        .make_range_dirty(object, &change, &kept)
        .await?;
    access
        .dirty_log
        .delete_records_durably(object, region_end / REGION..u64::MAX)
        .await?;

    let tail = to..to.next_multiple_of(CHECKSUM_BLOCK);
    let edges = edge_blocks(&object.state(), &tail);
    let new = NewBytes::Zeros;
    let sums = checksum_edges(&access.reader, object, &edges, new, &tail, &change).await?;
    change.note_bytes_change();
    let done = truncate_segments(&access.files, object, to).await;
    done.map_err(|error| access.damage.fs_error(object.id, &error))?;

    let now = access.clock.now();
    Ok(change.end(|state, span| {
        let behind = whole_blocks_of(&(to..kept.end.next_multiple_of(CHECKSUM_BLOCK)));
        state.regions.set_checksums(behind, |_| Some(*ZERO_SUM));
        set_edge_checksums(&mut state.regions, span, sums, |_| None);
        state.mtime = now;
        state.stat()
    }))
}

async fn truncate_segments(files: &ObjectFiles, object: &Object, to: u64) -> Result<(), DiskError> {
    // The segment of the last byte, or the first segment.
    let last = segment_of(to.saturating_sub(1));
    // Further segments first: while the first segment has its full length, a listing finds all that a crash leaves.
    files.remove_segments(object, last + 1).await?;
    // If the end is in a hole, its segment needs a file that ends there.
    let file = files.open_or_create_segment(object, last).await?;
    let len = to - u64::from(last) * SEGMENT;
    file.set_len(len).await?;
    if let Some(known) = object.state().segments.get_mut(&last) {
        known.len = len;
    }
    files.refresh_segment(object, last).await
}
