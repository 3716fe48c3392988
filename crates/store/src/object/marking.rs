//! Bringing regions to where they may be changed: their records looked up, deleted, and the deletion made durable.

use super::marks::Before;
use super::object::{Change, Object, State};
use super::record::{ObjectRecord, object_key, region_key};
use super::records::Batch;
use super::region::Region;
use super::target::Target;
use gupfs_proto::{Refusal, Seq};
use std::ops::Range;
use std::sync::Arc;

/// Keys deleted in one batch: a few tens of kilobytes, so that nobody else's batch waits long behind it.
const DELETED_AT_ONCE: usize = 512;

impl Target {
    /// Begins a change of these bytes, of the object as it stands on disk.
    pub async fn change<'a>(
        &self,
        object: &'a Object,
        range: Range<u64>,
    ) -> Result<Change<'a>, Refusal> {
        let change = object.change(range).await;
        // One that failed left it to be looked at again.
        self.load(object).await?;
        Ok(change)
    }

    /// Returns when these records are what a crash would leave.
    pub async fn records_durable(&self, seq: Seq) -> Result<(), Refusal> {
        let done = self.records.make_durable(seq).await;
        done.map_err(|error| self.records_failed(&error))
    }

    /// Returns when the bytes of `range` may change: after a crash no record speaks for what was there before.
    pub async fn ready(
        &self,
        object: &Arc<Object>,
        change: &Change<'_>,
        range: &Range<u64>,
    ) -> Result<(), Refusal> {
        loop {
            let before = {
                let mut state = object.state();
                match state.before_change(range, self.records.durable()) {
                    Before::Nothing => {
                        let now = self.platform.clock.boot();
                        state.touched(range, change.number(), now);
                        self.queue(object, &mut state);
                        return Ok(());
                    }
                    Before::Mark(regions) => {
                        Before::Await(self.mark(object, &mut state, &regions)?)
                    }
                    other => other,
                }
            };
            match before {
                Before::Ask(regions) => self.ask(object, &regions).await?,
                Before::Await(seq) => self.records_durable(seq).await?,
                Before::Nothing | Before::Mark(_) => {}
            }
        }
    }

    /// Under the object's lock, so that the log has marks and records in the order in which the object had them.
    fn mark(&self, object: &Object, state: &mut State, regions: &[u64]) -> Result<Seq, Refusal> {
        let mut batch = Batch::default();
        for region in regions {
            batch.delete(region_key(object.id, *region));
        }
        let seq = self
            .records
            .stage(batch)
            .map_err(|error| self.records_failed(&error))?;
        state.mark(regions, seq, self.platform.clock.boot());
        self.counters.marks.add(regions.len() as u64);
        Ok(seq)
    }

    /// Looks up the records of some regions, and remembers them unless they were staged anew meanwhile.
    pub async fn ask(&self, object: &Arc<Object>, regions: &[u64]) -> Result<(), Refusal> {
        let then = object.state().restaged;
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
            if state.restaged != then {
                return Ok(()); // the caller looks again
            }
            for (number, record) in found {
                if state.regions.contains_key(&number) {
                    continue;
                }
                let region = match record {
                    Some(record) => {
                        clean.push(number);
                        Region::clean(record.len, &record.sums)
                    }
                    // Marked before a crash: it is summed again now that somebody looks at it.
                    None => state.unrecorded(number),
                };
                state.regions.insert(number, region);
            }
            self.queue(object, &mut state);
        }
        self.keep_clean(object, &clean);
        Ok(())
    }

    /// Takes away what records there are of these regions, and what is known of them. No change of them may begin
    /// meanwhile. When what this returns is durable, no crash brings any back.
    pub async fn forget_records(
        &self,
        object: &Object,
        regions: Range<u64>,
    ) -> Result<Seq, Refusal> {
        let mut from = regions.start;
        loop {
            let end = regions.end.min(object.state().regions_end());
            if from >= end {
                break;
            }
            let found = self.records.regions(object.id, from..end, DELETED_AT_ONCE);
            let found = found.map_err(|error| self.records_failed(&error))?;
            from = match found.last() {
                Some(last) if found.len() == DELETED_AT_ONCE => last + 1,
                _ => end,
            };
            let mut batch = Batch::default();
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
                    state.forgotten = state.forgotten.max(staged);
                }
                state.restaged += 1;
            }
            tokio::task::yield_now().await; // a large object has many
        }
        let mut state = object.state();
        state.forget(regions);
        Ok(state.forgotten)
    }

    /// Remembers that the object has dirty regions, so that they are settled.
    pub fn queue(&self, object: &Arc<Object>, state: &mut State) {
        if !state.queued && state.regions.values().any(Region::is_dirty) {
            state.queued = true;
            self.unsettled.push(Arc::clone(object));
        }
    }
}
