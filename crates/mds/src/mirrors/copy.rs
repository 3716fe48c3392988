//! Makes one object equal to another: where regions differ it copies them.

use crate::osts::{Targets, unexpected_reply};
use bytes::Bytes;
use gupfs_proto::data::{
    BlockChecksums, ChecksumCheck, DataOp, DataReplyBody, ObjectExistence, ObjectOwner, SeekWhence,
};
use gupfs_proto::limits::{CHECKSUM_BLOCK, REGION};
use gupfs_proto::{FsError, ObjectId, ObjectOffset, OstId, WriteVerifier, checksum};

/// An object, and the target that it is on.
pub type ObjectOn = (OstId, ObjectId);

/// Bytes that were compared and copied.
#[derive(Clone, Copy, Default)]
pub struct CopiedBytes {
    pub compared: u64,
    pub copied: u64,
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
    /// Of a target; also if the object's target was restarted meanwhile.
    pub async fn run(&self) -> Result<CopiedBytes, FsError> {
        let (targets, (ost, object)) = (self.targets, self.to);
        let mut bytes = CopiedBytes::default();
        let Some(source) = targets.stat_object(self.source.0, self.source.1).await? else {
            let removed_under = targets.remove_object(ost, object).await?;
            self.sync(removed_under).await?;
            return Ok(bytes);
        };
        let (_, mut verifier) = targets.truncate_object(ost, object, source.size).await?;
        let mut at = 0;
        loop {
            let next = (
                self.next_data(self.source, at).await?,
                self.next_data(self.to, at).await?,
            );
            let next = match next {
                (Some(one), Some(other)) => one.min(other),
                (Some(one), None) | (None, Some(one)) => one,
                (None, None) => break,
            };
            // Both are holes before it.
            at = next / REGION * REGION;
            if at >= source.size {
                break;
            }
            let len = REGION.min(source.size - at);
            bytes.compared += len;
            if let Some(under) = self.copy_region(at, len).await? {
                bytes.copied += len;
                verifier = self.check_same(verifier, under)?;
            }
            at += len;
        }
        if let Some(under) = self.extend(source.size).await? {
            verifier = self.check_same(verifier, under)?;
        }
        self.sync(verifier).await?;
        Ok(bytes)
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
    async fn next_data(&self, (ost, object): ObjectOn, at: u64) -> Result<Option<u64>, FsError> {
        let op = DataOp::Seek {
            object,
            at: ObjectOffset(at),
            whence: SeekWhence::Data,
        };
        match self.targets.call(ost, op).await? {
            DataReplyBody::Position(found) => Ok(found.map(|found| found.0)),
            other => Err(unexpected_reply(ost, &other)),
        }
    }

    /// Copies a region if it differs; returns the write verifier then.
    async fn copy_region(&self, at: u64, len: u64) -> Result<Option<WriteVerifier>, FsError> {
        let source = self.read(
            self.source,
            (at, len),
            ObjectExistence::MustExist,
            ChecksumCheck::ByBoth,
        );
        let (source, _) = source.await?;
        // It may not be there yet, and its checksums may be as old as its bytes.
        let copy = self.read(
            self.to,
            (at, len),
            ObjectExistence::MayExist,
            ChecksumCheck::ByRequester,
        );
        if let Ok((copy, checksums)) = copy.await
            && copy == source
            && is_summed_right(&copy, &checksums)
        {
            return Ok(None);
        }
        if !source.is_empty() {
            let checksums = BlockChecksums {
                first_block: at / CHECKSUM_BLOCK,
                checksums: checksum::blocks(&source).into_iter().map(Some).collect(),
            };
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

    async fn read(
        &self,
        (ost, object): ObjectOn,
        (at, len): (u64, u64),
        existence: ObjectExistence,
        checksum_check: ChecksumCheck,
    ) -> Result<(Bytes, BlockChecksums), FsError> {
        let op = DataOp::Read {
            object,
            at: ObjectOffset(at),
            len,
            existence,
            checksum_check,
        };
        match self.targets.call(ost, op).await? {
            DataReplyBody::Data { data, checksums } => Ok((data, checksums)),
            other => Err(unexpected_reply(ost, &other)),
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

/// Whether each recorded checksum of a region's blocks is the one of its bytes.
fn is_summed_right(region: &[u8], recorded: &BlockChecksums) -> bool {
    let right = checksum::blocks(region).into_iter();
    (right.zip(&recorded.checksums)).all(|(right, recorded)| recorded.is_none_or(|it| it == right))
}
