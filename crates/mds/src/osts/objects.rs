//! Requests to OSTs about objects.

use super::Targets;
use super::call::unexpected_reply;
use crate::join;
use crate::limits::OST_CALLS;
use bytes::Bytes;
use gupfs_proto::data::{
    BlockChecksums, ChecksumCheck, DataOp, DataReplyBody, ObjectExistence, ObjectStat,
    RegionDigest, RepairedBlocks,
};
use gupfs_proto::error::ObjectDamage;
use gupfs_proto::{FsError, ObjectId, ObjectOffset, OstId, WriteVerifier};
use std::collections::BTreeMap;

/// Whether bytes that begin at a block boundary match their known checksums. Behind an object's end there are neither.
pub(crate) fn are_right(at: u64, bytes: &[u8], checksums: &BlockChecksums) -> bool {
    bytes.is_empty() || checksums.match_bytes(at, bytes)
}

impl Targets {
    /// Truncates or extends one object; returns its state then, and the write verifier of its OST.
    ///
    /// # Errors
    /// As `Targets::call`.
    pub(crate) async fn truncate_object(
        &self,
        ost: OstId,
        object: ObjectId,
        to: u64,
    ) -> Result<(ObjectStat, WriteVerifier), FsError> {
        match self.call(ost, DataOp::Truncate { object, to }).await? {
            DataReplyBody::Written(stat, verifier) => Ok((stat, verifier)),
            other => Err(unexpected_reply(ost, &other)),
        }
    }

    /// Syncs the objects with one request per OST. What was done to them under the returned write verifiers survives a power
    /// loss.
    ///
    /// # Errors
    /// As `Targets::call`, for the first OST that fails.
    pub(crate) async fn sync_objects(
        &self,
        objects: impl Iterator<Item = (OstId, ObjectId)>,
    ) -> Result<BTreeMap<OstId, WriteVerifier>, FsError> {
        let mut by_ost: BTreeMap<OstId, Vec<ObjectId>> = BTreeMap::new();
        for (ost, object) in objects {
            by_ost.entry(ost).or_default().push(object);
        }
        let syncs = by_ost.into_iter().map(|(ost, objects)| async move {
            match self.call(ost, DataOp::Sync { objects }).await? {
                DataReplyBody::DoneWithVerifier(verifier) => Ok((ost, verifier)),
                other => Err(unexpected_reply(ost, &other)),
            }
        });
        let synced = join::all(syncs.collect(), OST_CALLS).await;
        synced.into_iter().collect()
    }

    /// Removes one object; the removal survives a power loss once it is synced under the returned write verifier.
    ///
    /// # Errors
    /// As `Targets::call`.
    pub(crate) async fn remove_object(
        &self,
        ost: OstId,
        object: ObjectId,
    ) -> Result<WriteVerifier, FsError> {
        match self.call(ost, DataOp::Remove { object }).await? {
            DataReplyBody::DoneWithVerifier(verifier) => Ok(verifier),
            other => Err(unexpected_reply(ost, &other)),
        }
    }

    /// Moves one object to `lost+found` of its OST.
    ///
    /// # Errors
    /// As `Targets::call`.
    pub(crate) async fn quarantine_object(
        &self,
        ost: OstId,
        object: ObjectId,
    ) -> Result<(), FsError> {
        match self.call(ost, DataOp::Quarantine { object }).await? {
            DataReplyBody::DoneWithVerifier(_) => Ok(()),
            other => Err(unexpected_reply(ost, &other)),
        }
    }

    /// The state of one object; None if there is none.
    ///
    /// # Errors
    /// As `Targets::call`.
    pub(crate) async fn stat_object(
        &self,
        ost: OstId,
        object: ObjectId,
    ) -> Result<Option<ObjectStat>, FsError> {
        match self.call(ost, DataOp::Stat { object }).await? {
            DataReplyBody::Stat(stat) => Ok(stat),
            other => Err(unexpected_reply(ost, &other)),
        }
    }

    /// The digests of at most `count` regions of an object from `first` on, fewer at its end; None if there is no such object.
    ///
    /// # Errors
    /// As `Targets::call`; `NotSupported` by a target of a former version, `ObjectDamaged` if the object is lost.
    pub(crate) async fn digests(
        &self,
        ost: OstId,
        object: ObjectId,
        first: u64,
        count: u32,
    ) -> Result<Option<Vec<RegionDigest>>, FsError> {
        let op = DataOp::Digest {
            object,
            first_region: first,
            regions: count,
        };
        match self.call(ost, op).await? {
            DataReplyBody::Digests(Some(digests)) if digests.len() > count as usize => {
                let why = format!("ost{ost} returned more digests than it was asked for");
                Err(FsError::Malformed(why))
            }
            DataReplyBody::Digests(digests) => Ok(digests),
            other => Err(unexpected_reply(ost, &other)),
        }
    }

    /// Reads a range of an object that must exist, fewer bytes at its end, and verifies them, here and on the target.
    ///
    /// # Errors
    /// As `Targets::call`; `ObjectDamaged` if the bytes do not match their checksums.
    pub(crate) async fn read_verified(
        &self,
        (ost, object): (OstId, ObjectId),
        at: u64,
        len: u64,
    ) -> Result<Bytes, FsError> {
        let op = DataOp::Read {
            object,
            at: ObjectOffset(at),
            len,
            existence: ObjectExistence::MustExist,
            checksum_check: ChecksumCheck::ByBoth,
        };
        let DataReplyBody::Data { data, checksums } = self.call(ost, op).await? else {
            return Err(FsError::Malformed(format!(
                "ost{ost} replied no data to a read"
            )));
        };
        match data.len() as u64 <= len && are_right(at, &data, &checksums) {
            true => Ok(data),
            false => Err(FsError::ObjectDamaged {
                ost,
                object,
                damage: ObjectDamage::Checksum,
            }),
        }
    }

    /// Writes these bytes over those of the blocks that are damaged, where they match the blocks' checksums.
    ///
    /// # Errors
    /// As `Targets::call`.
    pub(crate) async fn repair_blocks(
        &self,
        (ost, object): (OstId, ObjectId),
        at: u64,
        data: Bytes,
    ) -> Result<RepairedBlocks, FsError> {
        let op = DataOp::Repair {
            object,
            at: ObjectOffset(at),
            checksums: BlockChecksums::of_blocks(at, &data),
            data,
        };
        match self.call(ost, op).await? {
            DataReplyBody::Repaired(blocks) => Ok(blocks),
            other => Err(unexpected_reply(ost, &other)),
        }
    }

    /// The objects that a target knows to be damaged, without these, which have been repaired.
    ///
    /// # Errors
    /// As `Targets::call`; `NotSupported` by a target of a former version.
    pub(crate) async fn damaged_objects(
        &self,
        ost: OstId,
        repaired: Vec<ObjectId>,
    ) -> Result<Vec<ObjectId>, FsError> {
        match self.call(ost, DataOp::Damaged { repaired }).await? {
            DataReplyBody::DamagedObjects(objects) => Ok(objects),
            other => Err(unexpected_reply(ost, &other)),
        }
    }

    /// The next objects of an OST after `after`, in ascending order.
    ///
    /// # Errors
    /// As `Targets::call`.
    pub(crate) async fn list_objects(
        &self,
        ost: OstId,
        after: Option<ObjectId>,
        limit: u32,
    ) -> Result<Vec<(ObjectId, ObjectStat)>, FsError> {
        match self.call(ost, DataOp::List { after, limit }).await? {
            DataReplyBody::Objects(objects) => Ok(objects),
            other => Err(unexpected_reply(ost, &other)),
        }
    }

    /// Which of these objects exist and survive a power loss, each with true if it does.
    ///
    /// # Errors
    /// As `Targets::call`.
    pub(crate) async fn confirm_objects(
        &self,
        ost: OstId,
        objects: Vec<ObjectId>,
    ) -> Result<Vec<(ObjectId, bool)>, FsError> {
        let op = DataOp::Confirm {
            objects: objects.clone(),
        };
        match self.call(ost, op).await? {
            DataReplyBody::Confirmed(present) if present.len() == objects.len() => {
                Ok(objects.into_iter().zip(present).collect())
            }
            other => Err(unexpected_reply(ost, &other)),
        }
    }
}
