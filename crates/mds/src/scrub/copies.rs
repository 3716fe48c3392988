//! Verifies the objects with the same bytes, and repairs the damaged blocks of one from another.

use super::pacer::Pacer;
use crate::join;
use crate::limits::OST_CALLS;
use crate::osts::Targets;
use gupfs_proto::data::RegionDigest;
use gupfs_proto::limits::{CHECKSUM_BLOCK, DIGEST_REGIONS_MAX, REGION};
use gupfs_proto::{FsError, ObjectId, OstId};

/// The full members of a stripe whose targets are up; one where there is no redundancy.
pub struct StripeCopies<'a> {
    pub targets: &'a Targets,
    pub pacer: &'a Pacer,
    pub members: Vec<Copy>,
}

/// One of them, and what was found of it.
pub struct Copy {
    /// The object's index in its component.
    pub index: usize,
    pub ost: OstId,
    pub object: ObjectId,
    /// The file's record says that the object exists.
    pub must_exist: bool,
    /// There is no such object, and there should be one.
    pub is_missing: bool,
    /// It is missing, or has damage that could not be repaired in place.
    pub is_damaged: bool,
    /// It matches its checksums, and has other bytes than a member before it that does.
    pub differs: bool,
    pub repaired: u64,
    pub bytes: u64,
}

impl StripeCopies<'_> {
    /// Verifies all regions.
    ///
    /// # Errors
    /// Of a target that does not answer, or of a former version.
    pub async fn scrub(&mut self) -> Result<(), FsError> {
        let mut first = 0;
        loop {
            let digests = self.digests(first).await?;
            let longest = digests.iter().map(Vec::len).max().unwrap_or(0);
            for at in 0..longest {
                let of_region: Vec<RegionDigest> = (digests.iter())
                    .map(|digests| digests.get(at).copied().unwrap_or(RegionDigest::Zeros))
                    .collect();
                self.compare(first + at as u64, &of_region).await?;
            }
            let read: u64 = digests.iter().map(|digests| digests.len() as u64).sum();
            self.pacer.spend(read * REGION).await;
            if longest < DIGEST_REGIONS_MAX as usize {
                return Ok(());
            }
            first += u64::from(DIGEST_REGIONS_MAX);
        }
    }

    /// The digests of the next regions of each member; none of a missing one.
    async fn digests(&mut self, first: u64) -> Result<Vec<Vec<RegionDigest>>, FsError> {
        let targets = self.targets;
        let asked = self.members.iter().map(|member| async move {
            match member.is_missing {
                true => Ok(None),
                false => {
                    let (ost, object) = (member.ost, member.object);
                    targets
                        .digests(ost, object, first, DIGEST_REGIONS_MAX)
                        .await
                }
            }
        });
        let replies = join::all(asked.collect(), OST_CALLS).await;
        let mut digests = Vec::with_capacity(replies.len());
        for (member, reply) in self.members.iter_mut().zip(replies) {
            digests.push(match reply {
                Ok(found) => found,
                Err(FsError::ObjectDamaged { .. }) => {
                    member.is_missing = true;
                    None
                }
                Err(error) => return Err(error),
            });
        }
        let one_exists = digests.iter().any(Option::is_some);
        for (member, found) in self.members.iter_mut().zip(&digests) {
            member.is_missing |= found.is_none() && (member.must_exist || one_exists);
            member.is_damaged |= member.is_missing;
            member.bytes += found.as_ref().map_or(0, Vec::len) as u64 * REGION;
        }
        Ok(digests.into_iter().map(Option::unwrap_or_default).collect())
    }

    /// Compares a region of all members; repairs it where it is damaged.
    async fn compare(&mut self, region: u64, digests: &[RegionDigest]) -> Result<(), FsError> {
        let mut digests = digests.to_vec();
        let present: Vec<usize> = (0..digests.len())
            .filter(|at| !self.members[*at].is_missing)
            .collect();
        for to in present.iter().copied() {
            if digests[to] != RegionDigest::Damaged {
                continue;
            }
            // First those that are whole; one that is damaged, too, may have the blocks that are right.
            let mut sources: Vec<usize> = (present.iter().copied())
                .filter(|from| *from != to)
                .collect();
            sources.sort_by_key(|from| digests[*from] == RegionDigest::Damaged);
            for from in sources {
                self.repair(from, to, region).await?;
                digests[to] = self.digest_of(to, region).await?;
                if digests[to] != RegionDigest::Damaged {
                    break;
                }
            }
        }
        let mut right = None;
        for at in present {
            let member = &mut self.members[at];
            match (digests[at], right) {
                (RegionDigest::Damaged, _) => member.is_damaged = true,
                (found, None) => right = Some(found),
                (found, Some(right)) => member.differs |= found != right,
            }
        }
        Ok(())
    }

    /// Writes the right bytes of one member over the damaged blocks of another.
    async fn repair(&mut self, from: usize, to: usize, region: u64) -> Result<(), FsError> {
        let object = |at: usize| (self.members[at].ost, self.members[at].object);
        let (source, damaged) = (object(from), object(to));
        let mut pieces = vec![(region * REGION, REGION)];
        let mut repaired = 0;
        while let Some((at, len)) = pieces.pop() {
            let bytes = match self.targets.read_verified(source, at, len).await {
                Ok(bytes) => bytes,
                Err(FsError::ObjectDamaged { .. }) if len > CHECKSUM_BLOCK => {
                    let part = len / PARTS;
                    pieces.extend((0..PARTS).map(|number| (at + number * part, part)));
                    continue;
                }
                Err(FsError::ObjectDamaged { .. }) => continue,
                Err(error) => return Err(error),
            };
            match self.targets.repair_blocks(damaged, at, bytes).await {
                Ok(done) => repaired += u64::from(done.repaired),
                Err(FsError::ObjectDamaged { .. }) => break,
                Err(error) => return Err(error),
            }
        }
        self.members[to].repaired += repaired;
        Ok(())
    }

    async fn digest_of(&self, at: usize, region: u64) -> Result<RegionDigest, FsError> {
        let member = &self.members[at];
        match self
            .targets
            .digests(member.ost, member.object, region, 1)
            .await
        {
            Ok(found) => {
                let first = found.unwrap_or_default().first().copied();
                Ok(first.unwrap_or(RegionDigest::Zeros))
            }
            Err(FsError::ObjectDamaged { .. }) => Ok(RegionDigest::Damaged),
            Err(error) => Err(error),
        }
    }
}

/// A piece whose bytes cannot be read is read again in so many parts, down to single blocks.
const PARTS: u64 = 16;
const _: () = assert!(REGION == CHECKSUM_BLOCK * PARTS * PARTS);
