//! Scrubber: verifies every clean region against its checksums, and computes those of every dirty region.

use super::closing::ClosingState;
use super::counters::Counters;
use super::dirty_queue::DirtyQueue;
use super::error::error_chain;
use super::flush_checksums::{ChecksumFlusher, FlushMode};
use super::limits::SCRUB_STEP;
use super::listing::ObjectListing;
use super::loader::ObjectLoader;
use super::object::Object;
use super::reader::ObjectReader;
use super::records::Records;
use super::region::{RegionState, region_of};
use super::region_loader::RegionLoader;
use gupfs_platform::Clock;
use gupfs_proto::checksum;
use gupfs_proto::error::ObjectDamage;
use gupfs_proto::limits::{CHECKSUM_BLOCK, REGION, REGION_BLOCKS};
use gupfs_proto::{FsError, ObjectId};
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;

/// What a scrub reads, and how fast.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScrubOptions {
    pub verify: ScrubScope,
    /// Pause after each `limits::SCRUB_STEP`, so that clients get the disk.
    pub pause: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScrubScope {
    All,
    /// Only the dirty regions, as after a crash.
    OnlyDirty,
}

impl ScrubOptions {
    pub fn new(verify: ScrubScope) -> ScrubOptions {
        ScrubOptions {
            verify,
            pause: Duration::from_millis(20),
        }
    }
}

/// Progress and findings of a scrub.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct ScrubReport {
    pub objects: u64,
    pub bytes: u64,
    /// Clean regions whose bytes match their checksums.
    pub verified: u64,
    /// Dirty regions that became clean.
    pub summed: u64,
    pub damaged: Vec<ObjectId>,
    #[serde(skip)]
    unpaused: u64,
}

/// Objects scrubbed between two listings.
const PAGE: usize = 512;
/// Records loaded together.
const REGIONS: usize = 64;

pub(super) struct Scrubber {
    pub listing: ObjectListing,
    pub objects: Arc<ObjectLoader>,
    pub regions: Arc<RegionLoader>,
    pub queue: Arc<DirtyQueue>,
    pub records: Arc<Records>,
    pub reader: Arc<ObjectReader>,
    pub flusher: Arc<ChecksumFlusher>,
    pub counters: Arc<Counters>,
    pub closing: Arc<ClosingState>,
    pub clock: Clock,
}

impl Scrubber {
    /// Reads all objects; calls `progress` after each.
    pub async fn scrub(
        &self,
        scrub: ScrubOptions,
        mut progress: impl FnMut(&ScrubReport) + Send,
    ) -> Result<ScrubReport, FsError> {
        let mut done = ScrubReport::default();
        let mut after = None;
        loop {
            let page = self.listing.ids_after(after, PAGE).await;
            let page = page.map_err(|error| FsError::StoreFailed(error_chain(&error)))?;
            let Some(last) = page.last() else {
                return Ok(done);
            };
            after = Some(*last);
            for id in page {
                self.closing.check_open()?;
                let found = self.scrub_object(id, &scrub, &mut done).await;
                match found {
                    Ok(()) => {}
                    Err(FsError::ObjectDamaged { .. }) => done.damaged.push(id),
                    Err(other) => return Err(other),
                }
                done.objects += 1;
                progress(&done);
            }
        }
    }

    async fn scrub_object(
        &self,
        id: ObjectId,
        scrub: &ScrubOptions,
        done: &mut ScrubReport,
    ) -> Result<(), FsError> {
        let object = self.objects.load_object(id).await?;
        // First, so that dirty regions with known checksums are verified too.
        self.checksum_dirty(&object, scrub, done).await?;
        match scrub.verify {
            ScrubScope::All => self.verify_object(&object, scrub, done).await,
            ScrubScope::OnlyDirty => Ok(()),
        }
    }

    async fn verify_object(
        &self,
        object: &Arc<Object>,
        scrub: &ScrubOptions,
        done: &mut ScrubReport,
    ) -> Result<(), FsError> {
        let mut from = 0;
        let mut damage = None;
        loop {
            let regions = self.records.regions(object.id, from..u64::MAX, REGIONS)?;
            let Some(last) = regions.last() else {
                break;
            };
            from = last + 1;
            for region in &regions {
                self.regions.load_one(object, *region).await?;
                match self.verify_region(object, *region).await {
                    Ok(verified) => done.verified += u64::from(verified),
                    Err(found @ FsError::ObjectDamaged { .. }) => damage = Some(found),
                    Err(other) => return Err(other),
                }
                self.pace(scrub, done).await;
            }
        }
        match damage {
            Some(damage) => Err(damage),
            None => {
                self.reader.damage.clear(object.id);
                Ok(())
            }
        }
    }

    /// Whether the region is clean and its bytes match its record; false if it is not clean (any more).
    async fn verify_region(&self, object: &Object, number: u64) -> Result<bool, FsError> {
        let (last_change, size, len) = {
            let state = object.state();
            match state
                .regions
                .in_memory
                .get(&number)
                .map(|region| &region.state)
            {
                Some(RegionState::Clean { len, .. }) => {
                    (state.in_flight.last_begun(), state.size(), *len)
                }
                _ => return Ok(false),
            }
        };
        let start = number * REGION;
        if start + len > size {
            return Err(self.reader.damage.report(object.id, ObjectDamage::Short));
        }
        let bytes = self
            .reader
            .read_bytes(object, start..start + REGION)
            .await?;
        let first = number * REGION_BLOCKS as u64;
        let blocks = first..first + (bytes.len() as u64).div_ceil(CHECKSUM_BLOCK);
        let mut sums = {
            let state = object.state();
            if state
                .regions
                .in_memory
                .get(&number)
                .is_none_or(|region| region.is_dirty())
            {
                return Ok(false);
            }
            state.stable_checksums(blocks.clone())
        };
        object
            .state()
            .clear_changed_checksums(&mut sums, &blocks, last_change);
        let found = checksum::blocks(&bytes);
        let matches = sums
            .iter()
            .zip(found)
            .all(|(sum, found)| sum.is_none_or(|sum| sum == found));
        match matches {
            true => Ok(true),
            false => Err(self.reader.damage.report(object.id, ObjectDamage::Checksum)),
        }
    }

    /// Computes the checksums of the regions that have data and no record. Holes need none: they read as zeros until
    /// they are written.
    async fn checksum_dirty(
        &self,
        object: &Arc<Object>,
        scrub: &ScrubOptions,
        done: &mut ScrubReport,
    ) -> Result<(), FsError> {
        let mut at = 0;
        let mut listed = 0;
        loop {
            let data = self.reader.seek_data(object, at).await;
            let data = data.map_err(|error| self.reader.damage.fs_error(object.id, &error))?;
            if let Some(found) = data {
                let region = region_of(found);
                self.regions.load_one(object, region).await?;
                listed += u64::from(self.queue_dirty_region(object, region));
                at = (region + 1) * REGION;
            }
            if listed > 0 && (data.is_none() || listed >= REGIONS as u64) {
                let before = self.counters.regions_cleaned.get();
                self.flusher.flush(object, FlushMode::All).await?;
                done.summed += (self.counters.regions_cleaned.get() - before).min(listed);
                for _ in 0..std::mem::take(&mut listed) {
                    self.pace(scrub, done).await;
                }
            }
            if data.is_none() {
                return Ok(());
            }
        }
    }

    /// Whether the region is queued for the checksum flush. Adds a region that is not in memory as a dirty one.
    fn queue_dirty_region(&self, object: &Arc<Object>, number: u64) -> bool {
        let mut state = object.state();
        let fresh = state.regions.new_dirty_region(number, state.size());
        let is_dirty = state
            .regions
            .in_memory
            .entry(number)
            .or_insert(fresh)
            .is_dirty();
        self.queue.push_if_dirty(object, &mut state);
        is_dirty
    }

    async fn pace(&self, scrub: &ScrubOptions, done: &mut ScrubReport) {
        done.bytes += REGION;
        done.unpaused += REGION;
        if done.unpaused >= SCRUB_STEP {
            done.unpaused = 0;
            self.clock.sleep(scrub.pause).await;
        }
    }
}
