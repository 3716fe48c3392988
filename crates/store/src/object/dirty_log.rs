//! Dirty log: makes regions dirty before they change. It loads their records, deletes them, and makes the deletion
//! durable.

use super::counters::Counters;
use super::dirty_queue::DirtyQueue;
use super::object::{ChangeGuard, Object, ObjectState};
use super::object_regions::BeforeChange;
use super::record::{ObjectRecord, object_key, region_key};
use super::records::{RecordBatch, Records};
use super::region_loader::RegionLoader;
use gupfs_platform::Clock;
use gupfs_proto::{FsError, Seq};
use std::ops::Range;
use std::sync::Arc;

/// Keys deleted in one batch: a few tens of kilobytes, so that other batches do not wait long behind it.
const KEYS_PER_DELETE: usize = 512;

pub(super) struct DirtyLog {
    records: Arc<Records>,
    regions: Arc<RegionLoader>,
    queue: Arc<DirtyQueue>,
    counters: Arc<Counters>,
    clock: Clock,
}

impl DirtyLog {
    pub fn new(
        records: Arc<Records>,
        regions: Arc<RegionLoader>,
        queue: Arc<DirtyQueue>,
        counters: Arc<Counters>,
        clock: Clock,
    ) -> DirtyLog {
        DirtyLog {
            records,
            regions,
            queue,
            counters,
            clock,
        }
    }

    /// Returns when the bytes of `range` may change: after a crash no record describes the old bytes.
    pub async fn make_range_dirty(
        &self,
        object: &Arc<Object>,
        change: &ChangeGuard<'_>,
        range: &Range<u64>,
    ) -> Result<(), FsError> {
        tracing::trace!(target: "walk", file = file!(), "make_range_dirty");
        loop {
            let before = {
                let mut state = object.state();
                let size = state.size();
                match state
                    .regions
                    .before_change(range, size, self.records.durable())
                {
                    BeforeChange::Ready => {
                        let now = self.clock.boot();
                        state.regions.set_last_change(range, change.number(), now);
                        self.queue.push_if_dirty(object, &mut state);
                        return Ok(());
                    }
                    BeforeChange::DeleteRecords(regions) => BeforeChange::WaitDurable(
                        self.delete_region_records(object, &mut state, &regions)?,
                    ),
                    other => other,
                }
            };
            match before {
                BeforeChange::LoadRecords(regions) => self.regions.load(object, &regions).await?,
                BeforeChange::WaitDurable(seq) => self.records.make_durable(seq).await?,
                BeforeChange::Ready | BeforeChange::DeleteRecords(_) => {}
            }
        }
    }

    /// Runs under the object's lock, so that deletions and records are in the log in the order of the object's changes.
    fn delete_region_records(
        &self,
        object: &Object,
        state: &mut ObjectState,
        regions: &[u64],
    ) -> Result<Seq, FsError> {
        let mut batch = RecordBatch::default();
        for region in regions {
            batch.delete(region_key(object.id, *region));
        }
        let seq = self.records.stage(batch)?;
        state.regions.make_dirty(regions, seq, self.clock.boot());
        self.counters.regions_dirtied.add(regions.len() as u64);
        Ok(seq)
    }

    /// Deletes the records of these regions and drops the regions from memory. No change of them may begin meanwhile.
    /// Once the returned batch is durable, no crash brings a record back.
    async fn delete_records(&self, object: &Object, regions: Range<u64>) -> Result<Seq, FsError> {
        let mut from = regions.start;
        loop {
            let end = regions.end.min(object.state().regions.end());
            if from >= end {
                break;
            }
            let found = self
                .records
                .regions(object.id, from..end, KEYS_PER_DELETE)?;
            from = match found.last() {
                Some(last) if found.len() == KEYS_PER_DELETE => last + 1,
                _ => end,
            };
            let mut batch = RecordBatch::default();
            for region in found {
                batch.delete(region_key(object.id, region));
            }
            {
                let mut state = object.state();
                if from == end && regions.end >= state.regions.end() {
                    let record = ObjectRecord {
                        regions_end: regions.start,
                        ..state.regions.record.unwrap_or_default()
                    };
                    batch.put(object_key(object.id), record.encode());
                    state.regions.record = Some(record);
                }
                if !batch.is_empty() {
                    let staged = self.records.stage(batch)?;
                    let deleted = &mut state.regions.records_deleted;
                    *deleted = (*deleted).max(staged);
                }
                state.regions.records_version += 1;
            }
            tokio::task::yield_now().await; // a large object has many records
        }
        let mut state = object.state();
        state.regions.forget(regions);
        Ok(state.regions.records_deleted)
    }

    /// The same; when this returns, no crash brings a record back.
    pub async fn delete_records_durably(
        &self,
        object: &Object,
        regions: Range<u64>,
    ) -> Result<(), FsError> {
        let deleted = self.delete_records(object, regions).await?;
        self.records.make_durable(deleted).await
    }

    /// A record without a file reports the object as lost, so it must not outlive the process that removed the file.
    pub async fn remove_all_records(&self, object: &Object) -> Result<(), FsError> {
        self.delete_records(object, 0..u64::MAX).await?;
        if object.state().regions.record.is_none() {
            return Ok(());
        }
        let gone = {
            let mut state = object.state();
            let mut batch = RecordBatch::default();
            batch.delete(object_key(object.id));
            let gone = self.records.stage(batch)?;
            state.regions.record = None;
            state.regions.records_deleted = gone;
            state.regions.records_version += 1;
            gone
        };
        self.records.wait_committed(gone).await
    }
}
