//! cut: bytes from a place on go.

use super::Objects;
use super::edges::Bytes;
use super::limits::SEGMENT;
use super::object::{Change, Object};
use super::place::{dir_of, file_of, segment_of};
use super::region::{ZERO_SUM, whole_blocks_of};
use super::target::Target;
use gupfs_platform::{DiskError, DiskErrorKind};
use gupfs_proto::data::ObjectStat;
use gupfs_proto::limits::{CHECKSUM_BLOCK, REGION};
use gupfs_proto::{ObjectId, Refusal};
use std::ops::Range;
use std::sync::Arc;

impl Objects {
    /// The object ends at `to`, if it ended behind it. Durable with the next sync.
    pub async fn cut(&self, id: ObjectId, to: u64) -> Result<ObjectStat, Refusal> {
        let target = self.serving()?;
        let _under_way = target.counters.enter(&target.counters.changes);
        let object = target.object(id).await?;
        let change = target.change(&object, to..u64::MAX).await?;
        let size = object.state().size();
        if size <= to {
            return Ok(change.end(|state, _| state.stat()));
        }
        target.cut(&object, change, to..size).await
    }
}

impl Target {
    async fn cut(
        &self,
        object: &Arc<Object>,
        mut change: Change<'_>,
        gone: Range<u64>,
    ) -> Result<ObjectStat, Refusal> {
        let to = gone.start;
        // The region that keeps a part becomes dirty, those behind it have nothing to be recorded any more.
        let region_end = to.next_multiple_of(REGION);
        let kept = to..region_end.min(gone.end);
        self.ready(object, &change, &kept).await?;
        let forgotten = self
            .forget_records(object, region_end / REGION..u64::MAX)
            .await?;
        self.records_durable(forgotten).await?;

        let tail = to..to.next_multiple_of(CHECKSUM_BLOCK);
        let edges = object.state().edges(&tail);
        let sums = self
            .sum_edges(object, &edges, Bytes::Zeros, &tail, &change)
            .await?;
        change.touch();
        let done = self.cut_files(object, to).await;
        done.map_err(|error| self.refused(object.id, &error))?;

        let now = self.platform.clock.now();
        Ok(change.end(|state, span| {
            let behind = whole_blocks_of(&(to..kept.end.next_multiple_of(CHECKSUM_BLOCK)));
            state.set_sums(behind, |_| Some(*ZERO_SUM));
            state.set_edges(span, sums, |_| None);
            state.mtime = now;
            state.stat()
        }))
    }

    async fn cut_files(&self, object: &Object, to: u64) -> Result<(), DiskError> {
        // The segment that holds the last byte, or the first.
        let last = segment_of(to.saturating_sub(1));
        // Further ones first: while the first is full, a crash leaves nothing that a listing would not find.
        self.remove_segments(object, last + 1).await?;
        // A hole that becomes the end needs a file that ends there.
        let file = self.file_to_write(object, last).await?;
        let len = to - u64::from(last) * SEGMENT;
        file.set_len(len).await?;
        if let Some(known) = object.state().segments.get_mut(&last) {
            known.len = len;
        }
        self.look_again(object, last).await
    }

    /// Removes the files of all segments from `first` on.
    pub async fn remove_segments(&self, object: &Object, first: u32) -> Result<(), DiskError> {
        let _gate = object.gate.lock().await;
        let gone: Vec<u32> = {
            let state = object.state();
            state
                .segments
                .range(first..)
                .map(|(number, _)| *number)
                .collect()
        };
        // The last first: segment 0 is what makes the object exist.
        for number in gone.into_iter().rev() {
            match self.disk.remove_file(&file_of(object.id, number)).await {
                Err(error) if error.kind != DiskErrorKind::NotFound => return Err(error),
                _ => {}
            }
            object.state().segments.remove(&number);
            self.dirs.changed(&dir_of(object.id));
        }
        Ok(())
    }
}
