//! Makes one object equal to another: where regions differ it copies them.
//!
//! Each target reads its object and returns digests of the regions, so only bytes that differ move. Where a target is of a former version the
//! bytes are compared here; what the copy has nothing of is not compared.

use super::drain_pace::DrainPace;
use super::resync_pace::ResyncPace;
use crate::join;
use crate::limits::{COPIES_OF_REGIONS, DIGESTS_AT_ONCE, OST_CALLS, REGIONS_WITHOUT_DIGEST};
use crate::osts::{Targets, are_right, unexpected_reply};
use bytes::Bytes;
use gupfs_proto::data::{
    BlockChecksums, ChecksumCheck, DataOp, DataReplyBody, ObjectExistence, ObjectOwner,
    RegionDigest, SeekWhence,
};
use gupfs_proto::limits::{DIGEST_REGIONS_MAX, REGION};
use gupfs_proto::{FsError, ObjectId, ObjectOffset, OstId, WriteVerifier};

/// An object, and the target that it is on.
pub type ObjectOn = (OstId, ObjectId);

/// Bytes that were compared and copied.
#[derive(Clone, Copy, Default)]
pub struct CopiedBytes {
    pub compared: u64,
    pub copied: u64,
}

/// What holds back a copy.
pub enum CopyPace<'a> {
    Full,
    Drain(DrainPace<'a>),
    Resync(ResyncPace<'a>),
}

impl CopyPace<'_> {
    /// # Errors
    /// `TimedOut` if the resync is paused.
    fn check(&self) -> Result<(), FsError> {
        match self {
            CopyPace::Resync(pace) => pace.check(),
            CopyPace::Full | CopyPace::Drain(_) => Ok(()),
        }
    }

    /// As `DrainPace::spend` and `ResyncPace::spend`.
    async fn spend(&self, bytes: u64) -> Result<(), FsError> {
        match self {
            CopyPace::Full => Ok(()),
            CopyPace::Drain(pace) => pace.spend(bytes).await,
            CopyPace::Resync(pace) => pace.spend(bytes).await,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum RegionsAre {
    Equal,
    Different,
}

pub struct ObjectCopy<'a> {
    pub targets: &'a Targets,
    pub source: ObjectOn,
    pub to: ObjectOn,
    pub owner: ObjectOwner,
}

impl ObjectCopy<'_> {
    /// When this returns, the object has the source's bytes and length, on disk.
    ///
    /// # Errors
    /// Of a target; also if the object's target was restarted meanwhile, or the drain or the resync was paused.
    pub async fn run(&self, pace: &CopyPace<'_>) -> Result<CopiedBytes, FsError> {
        tracing::trace!(target: "walk", file = file!(), "run");
        let (targets, (ost, object)) = (self.targets, self.to);
        let mut bytes = CopiedBytes::default();
        let Some(source) = targets.stat_object(self.source.0, self.source.1).await? else {
            let removed_under = targets.remove_object(ost, object).await?;
            self.sync(removed_under).await?;
            return Ok(bytes);
        };
        // What is copied must not be lost at the source afterwards: its record as a full member would say that both are equal.
        targets.sync_objects(std::iter::once(self.source)).await?;
        let mut verifier = self.cut_to(source.size).await?;
        let mut at = 0;
        loop {
            pace.check()?;
            let (from_source, from_copy) = (
                self.next_data(self.source, at).await?,
                self.next_data(self.to, at).await?,
            );
            let next = match (from_source, from_copy) {
                (Some(one), Some(other)) => one.min(other),
                (Some(one), None) | (None, Some(one)) => one,
                (None, None) => break,
            };
            // Both are holes before it. A source that has grown since may have data in the region that was copied last.
            at = at.max(next / REGION * REGION);
            if at >= source.size {
                break;
            }
            let compared = match from_copy {
                Some(_) => self.compare_regions(at / REGION).await,
                None => self.regions_before_hole(at).await?,
            };
            let mut differ = Vec::new();
            for known in compared {
                let len = REGION.min(source.size.saturating_sub(at));
                if len > 0 && known != Some(RegionsAre::Equal) {
                    differ.push(self.copy_at_pace(at, len, known, pace));
                }
                bytes.compared += len;
                at += len;
            }
            for copied in join::all(differ, COPIES_OF_REGIONS).await {
                if let Some((len, under)) = copied? {
                    bytes.copied += len;
                    verifier = self.check_same(verifier, under)?;
                }
            }
        }
        if let Some(under) = self.extend(source.size).await? {
            verifier = self.check_same(verifier, under)?;
        }
        self.sync(verifier).await?;
        Ok(bytes)
    }

    /// Truncates the object to the source's size. If it is lost or the block at its new end is damaged, it is made anew.
    async fn cut_to(&self, size: u64) -> Result<WriteVerifier, FsError> {
        let (targets, (ost, object)) = (self.targets, self.to);
        let truncated = match targets.stat_object(ost, object).await {
            Err(error @ FsError::ObjectDamaged { .. }) => Err(error),
            _ => targets.truncate_object(ost, object, size).await,
        };
        match truncated {
            // What the target remembers of a lost object would keep it from being made again.
            Err(FsError::ObjectDamaged { .. }) => targets.remove_object(ost, object).await,
            truncated => truncated.map(|(_, verifier)| verifier),
        }
    }

    /// Compares some regions from this one on, at least one, by their digests; None where the digests do not tell.
    async fn compare_regions(&self, first: u64) -> Vec<Option<RegionsAre>> {
        let steps = (0..DIGESTS_AT_ONCE as u64).map(|step| step * u64::from(DIGEST_REGIONS_MAX));
        let compared = steps.map(|step| self.compare_by_digests(first + step));
        let mut regions = Vec::new();
        for step in join::all(compared.collect(), DIGESTS_AT_ONCE).await {
            let is_whole = step.len() == DIGEST_REGIONS_MAX as usize;
            regions.extend(step);
            if !is_whole {
                break;
            }
        }
        if regions.is_empty() {
            regions.push(None);
        }
        regions
    }

    /// Compares the regions of one request for digests from this one on: fewer at the end of the objects, none if a target does not tell.
    async fn compare_by_digests(&self, first: u64) -> Vec<Option<RegionsAre>> {
        let digests = [self.source, self.to]
            .map(|(ost, object)| (self.targets).digests(ost, object, first, DIGEST_REGIONS_MAX));
        let digests = join::all(digests.into(), OST_CALLS).await;
        let [Ok(source), Ok(copy)] = &digests[..] else {
            // Former versions have no digests, and a stale member may be missing.
            return Vec::new();
        };
        let of = |digests: &Option<Vec<RegionDigest>>, index: usize| {
            let found = digests.as_ref().and_then(|digests| digests.get(index));
            found.copied().unwrap_or(RegionDigest::Zeros)
        };
        let len = |digests: &Option<Vec<RegionDigest>>| digests.as_ref().map_or(0, Vec::len);
        let regions = len(source).max(len(copy));
        let compared = (0..regions).map(|index| match (of(source, index), of(copy, index)) {
            (RegionDigest::Damaged, _) => None,
            (source, copy) if source == copy => Some(RegionsAre::Equal),
            _ => Some(RegionsAre::Different),
        });
        compared.collect()
    }

    /// The regions up to the next hole of the source, where the copy has a hole to its end: they differ without a look at the bytes.
    async fn regions_before_hole(&self, at: u64) -> Result<Vec<Option<RegionsAre>>, FsError> {
        let hole = self.seek(self.source, at, SeekWhence::Hole).await?;
        let regions = hole.map_or(0, |hole| hole.saturating_sub(at).div_ceil(REGION));
        let regions = regions.clamp(1, REGIONS_WITHOUT_DIGEST);
        Ok(vec![Some(RegionsAre::Different); regions as usize])
    }

    /// Copies a region as `copy_region` does; returns how many bytes it has and the write verifier, if it was copied.
    ///
    /// # Errors
    /// As `run`.
    async fn copy_at_pace(
        &self,
        at: u64,
        len: u64,
        known: Option<RegionsAre>,
        pace: &CopyPace<'_>,
    ) -> Result<Option<(u64, WriteVerifier)>, FsError> {
        pace.check()?;
        let Some(under) = self.copy_region(at, len, known).await? else {
            return Ok(None);
        };
        pace.spend(len).await?;
        Ok(Some((len, under)))
    }

    /// Gives the object its length if it ends in a hole, or has no bytes at all; returns the write verifier then.
    async fn extend(&self, size: u64) -> Result<Option<WriteVerifier>, FsError> {
        let (targets, (ost, object)) = (self.targets, self.to);
        let found = targets.stat_object(ost, object).await?;
        if found.is_some_and(|found| found.size >= size) {
            return Ok(None);
        }
        let at = size.saturating_sub(1);
        let verifier = self.write(at, Bytes::from_static(&[0]), BlockChecksums::default());
        let verifier = verifier.await?;
        // The byte has created the object.
        if size == 0 {
            let (_, under) = targets.truncate_object(ost, object, 0).await?;
            return self.check_same(verifier, under).map(Some);
        }
        Ok(Some(verifier))
    }

    /// Where the object's next data is.
    async fn next_data(&self, object: ObjectOn, at: u64) -> Result<Option<u64>, FsError> {
        self.seek(object, at, SeekWhence::Data).await
    }

    async fn seek(
        &self,
        (ost, object): ObjectOn,
        at: u64,
        whence: SeekWhence,
    ) -> Result<Option<u64>, FsError> {
        let op = DataOp::Seek {
            object,
            at: ObjectOffset(at),
            whence,
        };
        match self.targets.call(ost, op).await? {
            DataReplyBody::Position(found) => Ok(found.map(|found| found.0)),
            other => Err(unexpected_reply(ost, &other)),
        }
    }

    /// Copies a region if it differs, or in any case if it is known to; returns the write verifier then.
    async fn copy_region(
        &self,
        at: u64,
        len: u64,
        known: Option<RegionsAre>,
    ) -> Result<Option<WriteVerifier>, FsError> {
        let source = self.targets.read_verified(self.source, at, len).await?;
        if known.is_none() && self.has_bytes(at, len, &source).await {
            return Ok(None);
        }
        if !source.is_empty() {
            let checksums = BlockChecksums::of_blocks(at, &source);
            return self.write(at, source, checksums).await.map(Some);
        }
        let op = DataOp::Zero {
            object: self.to.1,
            at: ObjectOffset(at),
            len,
            punch: true,
        };
        self.change(op).await.map(Some)
    }

    async fn write(
        &self,
        at: u64,
        data: Bytes,
        checksums: BlockChecksums,
    ) -> Result<WriteVerifier, FsError> {
        let op = DataOp::Write {
            object: self.to.1,
            at: ObjectOffset(at),
            checksums,
            data,
            existence: ObjectExistence::MayExist,
            owner: self.owner,
        };
        self.change(op).await
    }

    async fn change(&self, op: DataOp) -> Result<WriteVerifier, FsError> {
        match self.targets.call(self.to.0, op).await? {
            DataReplyBody::Written(_, verifier) => Ok(verifier),
            other => Err(unexpected_reply(self.to.0, &other)),
        }
    }

    /// Whether the copy has exactly these bytes, and checksums that match them.
    async fn has_bytes(&self, at: u64, len: u64, bytes: &Bytes) -> bool {
        let op = DataOp::Read {
            object: self.to.1,
            at: ObjectOffset(at),
            len,
            // It may not be there yet.
            existence: ObjectExistence::MayExist,
            checksum_check: ChecksumCheck::ByRequester,
        };
        match self.targets.call(self.to.0, op).await {
            Ok(DataReplyBody::Data { data, checksums }) => {
                data == bytes && are_right(at, bytes, &checksums)
            }
            _ => false,
        }
    }

    async fn sync(&self, written_under: WriteVerifier) -> Result<(), FsError> {
        let synced = self.targets.sync_objects(std::iter::once(self.to)).await?;
        let under = synced.get(&self.to.0).copied().unwrap_or(written_under);
        self.check_same(written_under, under).map(|_| ())
    }

    /// # Errors
    /// `TimedOut` if the target may have lost writes between the two verifiers.
    fn check_same(
        &self,
        before: WriteVerifier,
        after: WriteVerifier,
    ) -> Result<WriteVerifier, FsError> {
        match before == after {
            true => Ok(after),
            false => {
                let why = format!("ost{} was restarted during a resync", self.to.0);
                Err(FsError::TimedOut(why))
            }
        }
    }
}
