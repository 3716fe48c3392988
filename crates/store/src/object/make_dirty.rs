//! Makes regions dirty before they change: loads their records, deletes them, and makes the deletion durable.

use super::dirty_regions::BeforeChange;
use super::object::{ChangeGuard, Object, ObjectState};
use super::record::{ObjectRecord, object_key, region_key};
use super::records::RecordBatch;
use super::region::Region;
use super::target::Target;
use gupfs_proto::{FsError, Seq};
use std::ops::Range;
use std::sync::Arc;

/// Keys deleted in one batch: a few tens of kilobytes, so that other batches do not wait long behind it.
const KEYS_PER_DELETE: usize = 512;

impl Target {
    /// Begins a change of these bytes, and loads the object from disk if it is not loaded.
    pub async fn begin_change<'a>(
        &self,
        object: &'a Object,
        range: Range<u64>,
    ) -> Result<ChangeGuard<'a>, FsError> {
        let change = object.begin_change(range).await;
        // A change that failed leaves the object unloaded.
        self.load(object).await?;
        Ok(change)
    }

    /// Returns when the records up to `seq` are durable.
    pub async fn wait_records_durable(&self, seq: Seq) -> Result<(), FsError> {
        let done = self.records.make_durable(seq).await;
        done.map_err(|error| self.records_failed(&error))
    }

    /// Returns when the bytes of `range` may change: after a crash no record describes the old bytes.
    pub async fn make_range_dirty(
        &self,
        object: &Arc<Object>,
        change: &ChangeGuard<'_>,
        range: &Range<u64>,
    ) -> Result<(), FsError> {
        loop {
            let before = {
                let mut state = object.state();
                match state.before_change(range, self.records.durable()) {
                    BeforeChange::Ready => {
                        let now = self.platform.clock.boot();
                        state.note_change(range, change.number(), now);
                        self.queue_if_dirty(object, &mut state);
                        return Ok(());
                    }
                    BeforeChange::DeleteRecords(regions) => BeforeChange::WaitDurable(
                        self.delete_region_records(object, &mut state, &regions)?,
                    ),
                    other => other,
                }
            };
            match before {
                BeforeChange::LoadRecords(regions) => self.load_regions(object, &regions).await?,
                BeforeChange::WaitDurable(seq) => self.wait_records_durable(seq).await?,
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
        let seq = self
            .records
            .stage(batch)
            .map_err(|error| self.records_failed(&error))?;
        state.make_dirty(regions, seq, self.platform.clock.boot());
        self.counters.regions_dirtied.add(regions.len() as u64);
        Ok(seq)
    }

    /// Loads the records of some regions, unless a change staged new ones meanwhile.
    pub async fn load_regions(&self, object: &Arc<Object>, regions: &[u64]) -> Result<(), FsError> {
        let version = object.state().records_version;
        let mut found = Vec::with_capacity(regions.len());
        for region in regions {
            let record = self.records.region(object.id, *region);
            found.push((
                *region,
                record.map_err(|error| self.records_failed(&error))?,
            ));
        }
        let mut clean = Vec::new();
        {
            let mut state = object.state();
            if state.records_version != version {
                return Ok(()); // the caller tries again
            }
            for (number, record) in found {
                if state.regions.contains_key(&number) {
                    continue;
                }
                let region = match record {
                    Some(record) => {
                        clean.push(number);
                        Region::new_clean(record.len, &record.sums)
                    }
                    // The region was dirty before a crash: its checksums are computed again now that it is in use.
                    None => state.new_dirty_region(number),
                };
                state.regions.insert(number, region);
            }
            self.queue_if_dirty(object, &mut state);
        }
        self.cache_clean_regions(object, &clean);
        Ok(())
    }

    /// Deletes the records of these regions and drops the regions from memory. No change of them may begin meanwhile.
    /// Once the returned batch is durable, no crash brings a record back.
    pub async fn delete_records(
        &self,
        object: &Object,
        regions: Range<u64>,
    ) -> Result<Seq, FsError> {
        let mut from = regions.start;
        loop {
            let end = regions.end.min(object.state().regions_end());
            if from >= end {
                break;
            }
            let found = self.records.regions(object.id, from..end, KEYS_PER_DELETE);
            let found = found.map_err(|error| self.records_failed(&error))?;
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
                if from == end && regions.end >= state.regions_end() {
                    let record = ObjectRecord {
                        regions_end: regions.start,
                        ..state.record.unwrap_or_default()
                    };
                    batch.put(object_key(object.id), record.encode());
                    state.record = Some(record);
                }
                if !batch.is_empty() {
                    let staged = self.records.stage(batch);
                    let staged = staged.map_err(|error| self.records_failed(&error))?;
                    state.records_deleted = state.records_deleted.max(staged);
                }
                state.records_version += 1;
            }
            tokio::task::yield_now().await; // a large object has many records
        }
        let mut state = object.state();
        state.forget_regions(regions);
        Ok(state.records_deleted)
    }

    /// Queues an object that has dirty regions for the checksum flush.
    pub fn queue_if_dirty(&self, object: &Arc<Object>, state: &mut ObjectState) {
        if !state.queued && state.regions.values().any(Region::is_dirty) {
            state.queued = true;
            self.dirty_queue.push(Arc::clone(object));
        }
    }
}
