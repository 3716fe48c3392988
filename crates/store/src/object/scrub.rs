//! scrub: every clean region is read and compared with its sums, every marked one is summed.

use super::Objects;
use super::limits::SCRUB_STEP;
use super::list::ids_after;
use super::object::Object;
use super::region::{Standing, region_of};
use super::settle::Due;
use super::target::Target;
use gupfs_proto::checksum;
use gupfs_proto::limits::{CHECKSUM_BLOCK, REGION, REGION_BLOCKS};
use gupfs_proto::refusal::ObjectDamage;
use gupfs_proto::{ObjectId, Refusal};
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;

/// What to read, and how fast.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scrub {
    pub verify: Verify,
    /// After each `limits::SCRUB_STEP`, so that others get the disk.
    pub pause: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verify {
    All,
    /// Only what has no record: after a crash.
    OnlyMarked,
}

impl Scrub {
    pub fn new(verify: Verify) -> Scrub {
        Scrub {
            verify,
            pause: Duration::from_millis(20),
        }
    }
}

/// How far a scrub is, and what it found.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Scrubbed {
    pub objects: u64,
    pub bytes: u64,
    /// Clean regions whose bytes are what they were.
    pub verified: u64,
    /// Marked regions that have a record now.
    pub summed: u64,
    pub damaged: Vec<ObjectId>,
    #[serde(skip)]
    unpaused: u64,
}

/// Objects looked at between two looks at a directory.
const PAGE: usize = 512;
/// Records looked at together.
const REGIONS: usize = 64;

impl Objects {
    /// Reads through all objects; `progress` is called after each. What is damaged is listed in status too.
    pub async fn scrub(
        &self,
        scrub: Scrub,
        progress: impl FnMut(&Scrubbed) + Send,
    ) -> Result<Scrubbed, Refusal> {
        self.serving()?.scrub(scrub, progress).await
    }

    /// Makes every region clean in which nothing is under way, now: what `scrub` and a stop do as well.
    pub async fn settle(&self) -> Result<u64, Refusal> {
        self.serving()?.settle_due(Due::Now).await
    }
}

impl Target {
    pub async fn scrub(
        &self,
        scrub: Scrub,
        mut progress: impl FnMut(&Scrubbed) + Send,
    ) -> Result<Scrubbed, Refusal> {
        let mut done = Scrubbed::default();
        let mut after = None;
        loop {
            let page = ids_after(&self.disk, after, PAGE).await;
            let page = page.map_err(|error| Refusal::StoreFailed(super::error::told(&error)))?;
            let Some(last) = page.last() else {
                return Ok(done);
            };
            after = Some(*last);
            for id in page {
                self.check()?;
                let found = self.scrub_object(id, &scrub, &mut done).await;
                match found {
                    Ok(()) => {}
                    Err(Refusal::ObjectDamaged { .. }) => done.damaged.push(id),
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
        scrub: &Scrub,
        done: &mut Scrubbed,
    ) -> Result<(), Refusal> {
        let object = self.object(id).await?;
        // First, so that what is dirty with sums that are known is verified too.
        self.sum_marked(&object, scrub, done).await?;
        match scrub.verify {
            Verify::All => self.verify_object(&object, scrub, done).await,
            Verify::OnlyMarked => Ok(()),
        }
    }

    async fn verify_object(
        &self,
        object: &Arc<Object>,
        scrub: &Scrub,
        done: &mut Scrubbed,
    ) -> Result<(), Refusal> {
        let mut from = 0;
        let mut damage = None;
        loop {
            let found = self.records.regions(object.id, from..u64::MAX, REGIONS);
            let regions = found.map_err(|error| self.records_failed(&error))?;
            let Some(last) = regions.last() else {
                break;
            };
            from = last + 1;
            for region in &regions {
                self.ask_if_unknown(object, *region).await?;
                match self.verify_region(object, *region).await {
                    Ok(verified) => done.verified += u64::from(verified),
                    Err(found @ Refusal::ObjectDamaged { .. }) => damage = Some(found),
                    Err(other) => return Err(other),
                }
                self.pace(scrub, done).await;
            }
        }
        match damage {
            Some(damage) => Err(damage),
            None => {
                self.damage.clear(object.id);
                Ok(())
            }
        }
    }

    async fn ask_if_unknown(&self, object: &Arc<Object>, region: u64) -> Result<(), Refusal> {
        loop {
            let unasked = object.state().unasked(region..region + 1);
            if unasked.is_empty() {
                return Ok(());
            }
            self.ask(object, &unasked).await?;
        }
    }

    /// Whether the region is clean and its bytes are what its record says; false if it is not clean (any more).
    async fn verify_region(&self, object: &Object, number: u64) -> Result<bool, Refusal> {
        let (then, size, len) = {
            let state = object.state();
            match state.regions.get(&number).map(|region| &region.standing) {
                Some(Standing::Clean { len, .. }) => (state.flight.now(), state.size(), *len),
                _ => return Ok(false),
            }
        };
        let start = number * REGION;
        if start + len > size {
            return Err(self.damaged(object.id, ObjectDamage::Short));
        }
        let bytes = self.bytes(object, start..start + REGION).await?;
        let first = number * REGION_BLOCKS as u64;
        let blocks = first..first + (bytes.len() as u64).div_ceil(CHECKSUM_BLOCK);
        let mut sums = {
            let state = object.state();
            if state
                .regions
                .get(&number)
                .is_none_or(|region| region.is_dirty())
            {
                return Ok(false);
            }
            state.sums_still(blocks.clone())
        };
        object.state().forget_moved(&mut sums, &blocks, then);
        let found = checksum::blocks(&bytes);
        let matches = sums
            .iter()
            .zip(found)
            .all(|(sum, found)| sum.is_none_or(|sum| sum == found));
        match matches {
            true => Ok(true),
            false => Err(self.damaged(object.id, ObjectDamage::Checksum)),
        }
    }

    /// Sums the regions with data that have no record. Holes need none: they read zeros until they are written.
    async fn sum_marked(
        &self,
        object: &Arc<Object>,
        scrub: &Scrub,
        done: &mut Scrubbed,
    ) -> Result<(), Refusal> {
        let mut at = 0;
        let mut listed = 0;
        loop {
            let data = self.seek_data(object, at).await;
            let data = data.map_err(|error| self.refused(object.id, &error))?;
            if let Some(found) = data {
                let region = region_of(found);
                self.ask_if_unknown(object, region).await?;
                listed += u64::from(self.list_marked(object, region));
                at = (region + 1) * REGION;
            }
            if listed > 0 && (data.is_none() || listed >= REGIONS as u64) {
                let before = self.counters.settled.get();
                self.settle(object, Due::Now).await?;
                done.summed += (self.counters.settled.get() - before).min(listed);
                for _ in 0..std::mem::take(&mut listed) {
                    self.pace(scrub, done).await;
                }
            }
            if data.is_none() {
                return Ok(());
            }
        }
    }

    /// Whether the region waits to be settled; one of which nothing is known does from now on.
    fn list_marked(&self, object: &Arc<Object>, number: u64) -> bool {
        let mut state = object.state();
        let fresh = state.unrecorded(number);
        let is_dirty = state.regions.entry(number).or_insert(fresh).is_dirty();
        self.queue(object, &mut state);
        is_dirty
    }

    async fn pace(&self, scrub: &Scrub, done: &mut Scrubbed) {
        done.bytes += REGION;
        done.unpaused += REGION;
        if done.unpaused >= SCRUB_STEP {
            done.unpaused = 0;
            self.platform.clock.sleep(scrub.pause).await;
        }
    }
}
