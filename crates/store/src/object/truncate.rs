//! truncate: removes the bytes of an object from an offset on.

use super::Objects;
use super::edge_blocks::NewBytes;
use super::limits::SEGMENT;
use super::object::{ChangeGuard, Object};
use super::paths::{dir_path, file_path, segment_of};
use super::region::{ZERO_SUM, whole_blocks_of};
use super::target::Target;
use gupfs_platform::{DiskError, DiskErrorKind};
use gupfs_proto::data::ObjectStat;
use gupfs_proto::limits::{CHECKSUM_BLOCK, REGION};
use gupfs_proto::{FsError, ObjectId};
use std::ops::Range;
use std::sync::Arc;

impl Objects {
    /// Ends the object at `to`, if it is longer. Durable with the next sync.
    pub async fn truncate(&self, id: ObjectId, to: u64) -> Result<ObjectStat, FsError> {
        let target = self.serving()?;
        let _operation = target.counters.enter(&target.counters.changes);
        let object = target.load_object(id).await?;
        let change = target.begin_change(&object, to..u64::MAX).await?;
        let size = object.state().size();
        if size <= to {
            return Ok(change.end(|state, _| state.stat()));
        }
        target.truncate(&object, change, to..size).await
    }
}

impl Target {
    async fn truncate(
        &self,
        object: &Arc<Object>,
        mut change: ChangeGuard<'_>,
        gone: Range<u64>,
    ) -> Result<ObjectStat, FsError> {
        let to = gone.start;
        // The region that keeps a part of its bytes becomes dirty; the regions after it lose their records.
        let region_end = to.next_multiple_of(REGION);
        let kept = to..region_end.min(gone.end);
        self.make_range_dirty(object, &change, &kept).await?;
        let records_deleted = self
            .delete_records(object, region_end / REGION..u64::MAX)
            .await?;
        self.wait_records_durable(records_deleted).await?;

        let tail = to..to.next_multiple_of(CHECKSUM_BLOCK);
        let edges = object.state().edge_blocks(&tail);
        let sums = self
            .checksum_edges(object, &edges, NewBytes::Zeros, &tail, &change)
            .await?;
        change.note_bytes_change();
        let done = self.truncate_files(object, to).await;
        done.map_err(|error| self.fs_error(object.id, &error))?;

        let now = self.platform.clock.now();
        Ok(change.end(|state, span| {
            let behind = whole_blocks_of(&(to..kept.end.next_multiple_of(CHECKSUM_BLOCK)));
            state.set_checksums(behind, |_| Some(*ZERO_SUM));
            state.set_edge_checksums(span, sums, |_| None);
            state.mtime = now;
            state.stat()
        }))
    }

    async fn truncate_files(&self, object: &Object, to: u64) -> Result<(), DiskError> {
        // The segment of the last byte, or the first segment.
        let last = segment_of(to.saturating_sub(1));
        // Further segments first: while the first segment has its full length, a listing finds all that a crash leaves.
        self.remove_segments(object, last + 1).await?;
        // If the end is in a hole, its segment needs a file that ends there.
        let file = self.open_or_create_segment(object, last).await?;
        let len = to - u64::from(last) * SEGMENT;
        file.set_len(len).await?;
        if let Some(known) = object.state().segments.get_mut(&last) {
            known.len = len;
        }
        self.refresh_segment(object, last).await
    }

    /// Removes the files of all segments from `first` on.
    pub async fn remove_segments(&self, object: &Object, first: u32) -> Result<(), DiskError> {
        let _guard = object.files_lock.lock().await;
        let gone: Vec<u32> = {
            let state = object.state();
            state
                .segments
                .range(first..)
                .map(|(number, _)| *number)
                .collect()
        };
        // In descending order: the object exists as long as segment 0 does.
        for number in gone.into_iter().rev() {
            match self.disk.remove_file(&file_path(object.id, number)).await {
                Err(error) if error.kind != DiskErrorKind::NotFound => return Err(error),
                _ => {}
            }
            object.state().segments.remove(&number);
            self.dirs.note_change(&dir_path(object.id));
        }
        Ok(())
    }
}
