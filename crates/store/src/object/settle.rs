//! settle: regions that nobody has written for a while become clean again: data synced, then sums recorded.
//!
//! Data before record: if power fails between, the region has no record and is summed again; the other way round a
//! reader would be told that good old bytes are damaged.

use super::limits::{
    REGIONS_SETTLED_AT_ONCE, SETTLE_IDLE, SETTLE_OLDEST, SETTLES_AT_ONCE, SETTLES_TOGETHER,
    UNSETTLED_MAX,
};
use super::object::{Object, State};
use super::record::{ObjectRecord, encode_region, object_key, region_key};
use super::records::Batch;
use super::region::{Standing, len_in};
use super::target::Target;
use super::together::all;
use gupfs_platform::BootTime;
use gupfs_proto::checksum;
use gupfs_proto::limits::{CHECKSUM_BLOCK, REGION, REGION_BLOCKS};
use gupfs_proto::{MapEpoch, Refusal};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// When an object is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Due {
    /// When it has been left alone for a while.
    Idle,
    /// Now: memory is short, or the target stops.
    Now,
}

/// What one settling of an object begins with.
struct Plan {
    /// Changes that begin after this one may spoil a region's sums.
    then: u64,
    /// Regions, and their blocks whose sums are to be read.
    regions: Vec<(u64, Vec<std::ops::Range<usize>>)>,
    /// There are more than one settling takes.
    more: bool,
}

impl Target {
    /// Settles the objects that are due, a few side by side. Returns how many regions became clean.
    pub async fn settle_due(&self, due: Due) -> Result<u64, Refusal> {
        let before = self.counters.settled.get();
        let mut left = self.unsettled.len();
        while left > 0 {
            let mut turn = Vec::new();
            while turn.len() < SETTLES_TOGETHER && left > 0 {
                left -= 1;
                let Some(object) = self.unsettled.pop() else {
                    break;
                };
                match due == Due::Now || self.is_due(&object) {
                    true => turn.push(object),
                    false => self.unsettled.push(object),
                }
            }
            self.sync_many(&turn).await?;
            let turn: Vec<_> = turn
                .into_iter()
                .map(|object| self.settle_and_requeue(object, due))
                .collect();
            all(turn, SETTLES_AT_ONCE).await?;
        }
        Ok(self.counters.settled.get() - before)
    }

    /// Makes a writer help when more sums wait in memory than there is room for.
    pub async fn settle_if_crowded(&self) -> Result<(), Refusal> {
        if self.dirty.load(Ordering::Relaxed) < UNSETTLED_MAX {
            return Ok(());
        }
        let Some(object) = self.unsettled.pop() else {
            return Ok(());
        };
        self.settle_and_requeue(object, Due::Now).await
    }

    async fn settle_and_requeue(&self, object: Arc<Object>, due: Due) -> Result<(), Refusal> {
        let settled = self.settle(&object, due).await;
        let mut state = object.state();
        state.queued = false;
        self.queue(&object, &mut state);
        settled
    }

    fn is_due(&self, object: &Object) -> bool {
        let now = self.platform.clock.boot();
        let state = object.state();
        let dirty = || state.regions.values().filter(|region| region.is_dirty());
        let newest = dirty().map(|region| region.touched).max();
        let oldest = dirty().map(|region| region.touched).min();
        let for_long = |since: Option<BootTime>, long: Duration| {
            since.is_none_or(|since| now.since(since) >= long)
        };
        for_long(newest, SETTLE_IDLE) || for_long(oldest, SETTLE_OLDEST)
    }

    /// Makes the regions of an object clean in which nothing is under way, nor was lately if the object is only `Idle`.
    pub async fn settle(&self, object: &Arc<Object>, due: Due) -> Result<(), Refusal> {
        let idle_since = match due {
            Due::Idle => before(self.platform.clock.boot(), SETTLE_IDLE),
            Due::Now => BootTime(u64::MAX),
        };
        loop {
            let plan = object.state().plan(idle_since);
            if plan.regions.is_empty() || !self.records.may_grow() {
                return Ok(());
            }
            self.sync_objects(vec![Arc::clone(object)]).await?;
            let summed = self.sum_unknown(object, &plan).await?;
            let clean = self.record(object, &plan, summed)?;
            self.keep_clean(object, &clean);
            if !plan.more || clean.is_empty() {
                return Ok(());
            }
        }
    }

    /// Reads the blocks that were written in part, or before a crash.
    async fn sum_unknown(
        &self,
        object: &Arc<Object>,
        plan: &Plan,
    ) -> Result<Vec<(u64, u32)>, Refusal> {
        let mut summed = Vec::new();
        for (region, unknown) in &plan.regions {
            for blocks in unknown {
                let first = region * REGION_BLOCKS as u64 + blocks.start as u64;
                let range = first * CHECKSUM_BLOCK..(first + blocks.len() as u64) * CHECKSUM_BLOCK;
                let mut bytes = self.bytes(object, range).await?;
                bytes.resize(blocks.len() * CHECKSUM_BLOCK as usize, 0);
                summed.extend((first..).zip(checksum::blocks(&bytes)));
            }
        }
        Ok(summed)
    }

    /// Stages the records of those regions that nobody touched since, and says which they are.
    fn record(
        &self,
        object: &Object,
        plan: &Plan,
        summed: Vec<(u64, u32)>,
    ) -> Result<Vec<u64>, Refusal> {
        let mut state = object.state();
        let still: Vec<u64> = plan
            .regions
            .iter()
            .map(|(region, _)| *region)
            .filter(|region| state.is_still(*region, plan.then))
            .collect();
        for (block, sum) in summed {
            if still.binary_search(&(block / REGION_BLOCKS as u64)).is_ok() {
                state.set_sums(block..block + 1, |_| Some(sum));
            }
        }
        let size = state.size();
        let mut batch = Batch::default();
        let mut clean = Vec::new();
        for number in still {
            let len = len_in(number, size);
            let blocks = len.div_ceil(CHECKSUM_BLOCK) as usize;
            let Some(region) = state.regions.get_mut(&number) else {
                continue;
            };
            let Some(sums) = region.first(blocks) else {
                continue; // the object grew into blocks that nobody summed
            };
            if len > 0 {
                batch.put(region_key(object.id, number), encode_region(len, sums));
                region.settle(len);
                clean.push(number);
            } else {
                // Cut off meanwhile: there is nothing to record.
                state.forget(number..number + 1);
            }
        }
        let Some(last) = clean.last() else {
            return Ok(clean);
        };
        let former = state.record.unwrap_or_default();
        let record = ObjectRecord {
            owner: state.owner,
            size,
            mtime: state.mtime,
            version: former.version + 1,
            map_epoch: MapEpoch(self.map_epoch()),
            regions_end: former.regions_end.max(last + 1),
        };
        batch.put(object_key(object.id), record.encode());
        state.record = Some(record);
        state.restaged += 1;
        self.records
            .stage(batch)
            .map_err(|error| self.records_failed(&error))?;
        self.counters.settled.add(clean.len() as u64);
        Ok(clean)
    }

    /// Counts regions that became clean, and forgets others of which the records know.
    pub fn keep_clean(&self, object: &Object, regions: &[u64]) {
        let mut kept = self.clean.lock();
        for region in regions {
            kept.keep((object.id, *region), |(id, region)| {
                match self.table.peek(*id) {
                    Some(object) => object.state().forget_unused(*region),
                    None => super::second_chance::Verdict::Gone,
                }
            });
        }
    }
}

impl State {
    /// The dirty regions in which nothing is under way.
    fn plan(&self, idle_since: BootTime) -> Plan {
        let then = self.flight.now();
        let size = self.size();
        let mut plan = Plan {
            then,
            regions: Vec::new(),
            more: false,
        };
        for (number, region) in &self.regions {
            let idle = region.touched <= idle_since && !self.flight.is_busy(&bytes_of(*number));
            if !region.is_dirty() || !idle {
                continue;
            }
            if plan.regions.len() == REGIONS_SETTLED_AT_ONCE {
                plan.more = true;
                break;
            }
            let blocks = len_in(*number, size).div_ceil(CHECKSUM_BLOCK) as usize;
            plan.regions.push((*number, region.unknown(blocks)));
        }
        plan
    }

    /// Whether nothing changed a region since, nor does now.
    fn is_still(&self, number: u64, then: u64) -> bool {
        let region = self.regions.get(&number);
        region.is_some_and(|region| region.is_dirty() && region.changed <= then)
            && !self.flight.is_busy(&bytes_of(number))
    }

    /// Forgets a clean region, unless somebody used it since it was looked at last.
    fn forget_unused(&mut self, number: u64) -> super::second_chance::Verdict {
        use super::second_chance::Verdict;
        let Some(region) = self.regions.get_mut(&number) else {
            return Verdict::Gone;
        };
        match &mut region.standing {
            Standing::Clean { used, .. } if *used => {
                *used = false;
                Verdict::Stays
            }
            Standing::Clean { .. } => {
                self.regions.remove(&number);
                Verdict::Gone
            }
            // It comes again when it is settled.
            Standing::Dirty { .. } => Verdict::Gone,
        }
    }
}

/// Zero if the clock has not run that long.
fn before(now: BootTime, long: Duration) -> BootTime {
    BootTime(now.0.saturating_sub(long.as_nanos() as u64))
}

fn bytes_of(region: u64) -> std::ops::Range<u64> {
    region * REGION..(region + 1).saturating_mul(REGION)
}
