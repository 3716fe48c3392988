//! digest: verifies regions of an object, and returns a hash of each, with which others compare their copies of it.

use super::Objects;
use super::access::ReadAccess;
use super::object::Object;
use super::region::RegionState;
use gupfs_proto::data::{ObjectExistence, RegionDigest};
use gupfs_proto::error::ObjectDamage;
use gupfs_proto::limits::{CHECKSUM_BLOCK, DIGEST_REGIONS_MAX, REGION, REGION_BLOCKS};
use gupfs_proto::{FsError, ObjectId, checksum};
use std::sync::Arc;

impl Objects {
    /// The digests of at most `count` regions from `first` on, fewer at the object's end; None if there is no such object. Records the
    /// damage that it finds.
    ///
    /// # Errors
    /// `Malformed` above `DIGEST_REGIONS_MAX`, `TargetDown` if the target is closed, `StoreFailed` if the disk fails as a whole; `ObjectDamaged`
    /// if the records have an object that is lost.
    pub async fn digest(
        &self,
        id: ObjectId,
        first: u64,
        count: u32,
    ) -> Result<Option<Vec<RegionDigest>>, FsError> {
        let access = self.readable()?;
        let _operation = access.counters.enter(&access.counters.reads);
        if count > DIGEST_REGIONS_MAX {
            return Err(FsError::Malformed(format!("digests of {count} regions")));
        }
        let object = access
            .objects
            .expect_object(id, ObjectExistence::MayExist)
            .await?;
        if !object.state().exists() {
            return Ok(None);
        }
        let mut digests = Vec::new();
        for number in first..first.saturating_add(u64::from(count)) {
            access.regions.load_one(&object, number).await?;
            let is_behind_end = {
                let state = object.state();
                let starts_at = number.saturating_mul(REGION);
                starts_at >= state.size() && state.regions.end() <= number
            };
            if is_behind_end {
                break;
            }
            digests.push(access.digest_region(&object, number).await?);
        }
        Ok(Some(digests))
    }

    /// Forgets the damage of objects that are intact now; returns those that are known to be damaged.
    ///
    /// # Errors
    /// `TargetDown` if the target is closed.
    pub fn damaged_after_repair(&self, repaired: &[ObjectId]) -> Result<Vec<ObjectId>, FsError> {
        let damage = &self.readable()?.damage;
        for id in repaired {
            damage.clear(*id);
        }
        Ok(damage.list().into_iter().map(|(id, _)| id).collect())
    }
}

impl ReadAccess {
    async fn digest_region(
        &self,
        object: &Arc<Object>,
        number: u64,
    ) -> Result<RegionDigest, FsError> {
        let start = number * REGION;
        let (last_change, end, recorded) = {
            let state = object.state();
            let recorded = match state.regions.in_memory.get(&number).map(|it| &it.state) {
                Some(RegionState::Clean { len, .. }) => Some(start + len),
                Some(RegionState::Dirty { .. }) | None => None,
            };
            let end = state.size().min(start + REGION);
            (state.in_flight.last_begun(), end, recorded)
        };
        if recorded.is_some_and(|recorded| recorded > end) {
            self.damage.report(object.id, ObjectDamage::Short);
            return Ok(RegionDigest::Damaged);
        }
        // What a record describes is read even where the file system says that there is a hole.
        if recorded.is_none() && !self.has_data(object, start, end).await? {
            return Ok(RegionDigest::Zeros);
        }
        let range = start.min(end)..end;
        let bytes = match self
            .reader
            .read_bytes_since(object, range, last_change)
            .await
        {
            Ok(bytes) => bytes,
            Err(FsError::ObjectDamaged { .. }) => return Ok(RegionDigest::Damaged),
            Err(error) => return Err(error),
        };
        let first = number * REGION_BLOCKS as u64;
        let blocks = first..first + (bytes.len() as u64).div_ceil(CHECKSUM_BLOCK);
        let sums = {
            let state = object.state();
            let mut sums = state.stable_checksums(blocks.clone());
            state.clear_changed_checksums(&mut sums, &blocks, last_change);
            sums
        };
        let found = checksum::blocks(&bytes);
        let mut compared = sums.iter().zip(found);
        match compared.all(|(sum, found)| sum.is_none_or(|sum| sum == found)) {
            true => Ok(RegionDigest::of(&bytes)),
            false => {
                self.damage.report(object.id, ObjectDamage::Checksum);
                Ok(RegionDigest::Damaged)
            }
        }
    }

    async fn has_data(&self, object: &Object, start: u64, end: u64) -> Result<bool, FsError> {
        let next = self.reader.seek_data(object, start).await;
        let next = next.map_err(|error| self.damage.fs_error(object.id, &error))?;
        Ok(next.is_some_and(|at| at < end))
    }
}
