//! Checksum flush: makes dirty regions clean that were not written for a while: syncs their data, then records their
//! checksums.
//!
//! Data before record: if power fails in between, the region has no record, and its checksums are computed again. In
//! the other order a reader would report good old bytes as damaged.

use super::clean_regions::CleanRegions;
use super::counters::{Counters, NewestMapEpoch};
use super::dirty_queue::DirtyQueue;
use super::join::join_all;
use super::limits::{
    CHECKSUM_FLUSH_IDLE, CHECKSUM_FLUSH_OLDEST, CHECKSUM_FLUSHES_AT_ONCE,
    CHECKSUM_FLUSHES_PER_SYNC, DIRTY_REGIONS_MAX, REGIONS_PER_CHECKSUM_FLUSH,
};
use super::object::{Object, ObjectState};
use super::reader::ObjectReader;
use super::record::{ObjectRecord, encode_region, object_key, region_key};
use super::records::{RecordBatch, Records};
use super::region::region_len;
use super::syncer::ObjectSyncer;
use gupfs_platform::{BootTime, Clock};
use gupfs_proto::FsError;
use gupfs_proto::checksum;
use gupfs_proto::limits::{CHECKSUM_BLOCK, REGION, REGION_BLOCKS};
use std::sync::Arc;
use std::time::Duration;

/// Which objects a flush takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FlushMode {
    /// Those that were not written for a while.
    Idle,
    /// All: memory is short, or the target stops.
    All,
}

/// The state of an object at the start of its checksum flush.
struct FlushPlan {
    /// The last change that began before the flush. A later change of a region makes its checksums invalid.
    last_change: u64,
    /// The regions, and the blocks whose checksums must be computed.
    regions: Vec<(u64, Vec<std::ops::Range<usize>>)>,
    /// There are more regions than one flush takes.
    more: bool,
}

pub(super) struct ChecksumFlusher {
    pub records: Arc<Records>,
    pub clean: Arc<CleanRegions>,
    pub queue: Arc<DirtyQueue>,
    pub syncer: Arc<ObjectSyncer>,
    pub reader: Arc<ObjectReader>,
    pub counters: Arc<Counters>,
    pub map_epoch: Arc<NewestMapEpoch>,
    pub clock: Clock,
}

impl ChecksumFlusher {
    /// Flushes the checksums of the objects that are due, a few concurrently. Returns how many regions became clean.
    pub async fn flush_due(&self, mode: FlushMode) -> Result<u64, FsError> {
        let before = self.counters.regions_cleaned.get();
        let mut left = self.queue.len();
        while left > 0 {
            let mut batch_of_objects = Vec::new();
            while batch_of_objects.len() < CHECKSUM_FLUSHES_PER_SYNC && left > 0 {
                left -= 1;
                let Some(object) = self.queue.pop() else {
                    break;
                };
                match mode == FlushMode::All || self.is_due(&object) {
                    true => batch_of_objects.push(object),
                    false => self.queue.push(object),
                }
            }
            self.syncer.sync_many(&batch_of_objects).await?;
            let batch_of_objects: Vec<_> = batch_of_objects
                .into_iter()
                .map(|object| self.flush_and_requeue(object, mode))
                .collect();
            join_all(batch_of_objects, CHECKSUM_FLUSHES_AT_ONCE).await?;
        }
        Ok(self.counters.regions_cleaned.get() - before)
    }

    /// Makes the calling writer flush an object when there are too many dirty regions in memory.
    pub async fn flush_if_too_many_dirty(&self) -> Result<(), FsError> {
        if self.queue.regions() < DIRTY_REGIONS_MAX {
            return Ok(());
        }
        let Some(object) = self.queue.pop() else {
            return Ok(());
        };
        self.flush_and_requeue(object, FlushMode::All).await
    }

    async fn flush_and_requeue(&self, object: Arc<Object>, mode: FlushMode) -> Result<(), FsError> {
        let flushed = self.flush(&object, mode).await;
        let mut state = object.state();
        state.queued = false;
        self.queue.push_if_dirty(&object, &mut state);
        flushed
    }

    fn is_due(&self, object: &Object) -> bool {
        let now = self.clock.boot();
        let state = object.state();
        let dirty = || {
            state
                .regions
                .in_memory
                .values()
                .filter(|region| region.is_dirty())
        };
        let newest = dirty().map(|region| region.last_changed_at).max();
        let oldest = dirty().map(|region| region.last_changed_at).min();
        let for_long = |since: Option<BootTime>, long: Duration| {
            since.is_none_or(|since| now.since(since) >= long)
        };
        for_long(newest, CHECKSUM_FLUSH_IDLE) || for_long(oldest, CHECKSUM_FLUSH_OLDEST)
    }

    /// Makes the regions of an object clean that no in-flight change overlaps; with `Idle` only those that were not
    /// changed lately.
    pub async fn flush(&self, object: &Arc<Object>, mode: FlushMode) -> Result<(), FsError> {
        let idle_since = match mode {
            FlushMode::Idle => earlier(self.clock.boot(), CHECKSUM_FLUSH_IDLE),
            FlushMode::All => BootTime(u64::MAX),
        };
        loop {
            let plan = FlushPlan::new(&object.state(), idle_since);
            if plan.regions.is_empty() || !self.records.has_space() {
                return Ok(());
            }
            self.syncer.sync_objects(vec![Arc::clone(object)]).await?;
            let summed = self.checksum_unknown_blocks(object, &plan).await?;
            let clean = self.stage_records(object, &plan, summed)?;
            self.clean.add(object, &clean);
            if !plan.more || clean.is_empty() {
                return Ok(());
            }
        }
    }

    /// Reads the blocks without a known checksum: those that were written in part, or before a crash.
    async fn checksum_unknown_blocks(
        &self,
        object: &Arc<Object>,
        plan: &FlushPlan,
    ) -> Result<Vec<(u64, u32)>, FsError> {
        let mut summed = Vec::new();
        for (region, unknown) in &plan.regions {
            for blocks in unknown {
                let first = region * REGION_BLOCKS as u64 + blocks.start as u64;
                let range = first * CHECKSUM_BLOCK..(first + blocks.len() as u64) * CHECKSUM_BLOCK;
                let mut bytes = self.reader.read_bytes(object, range).await?;
                bytes.resize(blocks.len() * CHECKSUM_BLOCK as usize, 0);
                summed.extend((first..).zip(checksum::blocks(&bytes)));
            }
        }
        Ok(summed)
    }

    /// Stages the records of those regions that did not change since; returns their numbers.
    fn stage_records(
        &self,
        object: &Object,
        plan: &FlushPlan,
        summed: Vec<(u64, u32)>,
    ) -> Result<Vec<u64>, FsError> {
        let mut state = object.state();
        let unchanged: Vec<u64> = plan
            .regions
            .iter()
            .map(|(region, _)| *region)
            .filter(|region| is_unchanged(&state, *region, plan.last_change))
            .collect();
        for (block, sum) in summed {
            if unchanged
                .binary_search(&(block / REGION_BLOCKS as u64))
                .is_ok()
            {
                state.regions.set_checksums(block..block + 1, |_| Some(sum));
            }
        }
        let size = state.size();
        let mut batch = RecordBatch::default();
        let mut clean = Vec::new();
        for number in unchanged {
            let len = region_len(number, size);
            let blocks = len.div_ceil(CHECKSUM_BLOCK) as usize;
            let Some(region) = state.regions.in_memory.get_mut(&number) else {
                continue;
            };
            let Some(sums) = region.first_checksums(blocks) else {
                continue; // the object grew into blocks without known checksums
            };
            if len > 0 {
                batch.put(region_key(object.id, number), encode_region(len, sums));
                region.make_clean(len);
                clean.push(number);
            } else {
                // A truncate removed the region meanwhile: it needs no record.
                state.regions.forget(number..number + 1);
            }
        }
        let Some(last) = clean.last() else {
            return Ok(clean);
        };
        let former = state.regions.record.unwrap_or_default();
        let record = ObjectRecord {
            owner: state.owner,
            size,
            mtime: state.mtime,
            version: former.version + 1,
            map_epoch: self.map_epoch.get(),
            regions_end: former.regions_end.max(last + 1),
        };
        batch.put(object_key(object.id), record.encode());
        state.regions.record = Some(record);
        state.regions.records_version += 1;
        self.records.stage(batch)?;
        self.counters.regions_cleaned.add(clean.len() as u64);
        Ok(clean)
    }
}

impl FlushPlan {
    /// The dirty regions that no in-flight change overlaps.
    fn new(state: &ObjectState, idle_since: BootTime) -> FlushPlan {
        let last_change = state.in_flight.last_begun();
        let size = state.size();
        let mut plan = FlushPlan {
            last_change,
            regions: Vec::new(),
            more: false,
        };
        for (number, region) in &state.regions.in_memory {
            let idle = region.last_changed_at <= idle_since
                && !state.in_flight.is_busy(&bytes_of(*number));
            if !region.is_dirty() || !idle {
                continue;
            }
            if plan.regions.len() == REGIONS_PER_CHECKSUM_FLUSH {
                plan.more = true;
                break;
            }
            let blocks = region_len(*number, size).div_ceil(CHECKSUM_BLOCK) as usize;
            plan.regions.push((*number, region.unknown_blocks(blocks)));
        }
        plan
    }
}

/// Whether a region is dirty, and no change of it has begun after `last_change` or is in flight.
fn is_unchanged(state: &ObjectState, number: u64, last_change: u64) -> bool {
    let region = state.regions.in_memory.get(&number);
    region.is_some_and(|region| region.is_dirty() && region.last_change <= last_change)
        && !state.in_flight.is_busy(&bytes_of(number))
}

/// Zero if the clock has not run that long.
fn earlier(now: BootTime, long: Duration) -> BootTime {
    BootTime(now.0.saturating_sub(long.as_nanos() as u64))
}

fn bytes_of(region: u64) -> std::ops::Range<u64> {
    region * REGION..(region + 1).saturating_mul(REGION)
}
