//! repair: writes the right bytes over damaged blocks.
//!
//! A block is damaged if its bytes do not match its checksum, and only bytes that match it are right. So a repair changes no bytes that somebody
//! may have written since: it may arrive late, or twice. It leaves the checksums as they are: if it is cut off, or lost with the power, the
//! block is damaged as before.

use super::Objects;
use super::access::WriteAccess;
use super::object::Object;
use super::region::{blocks_of, region_of};
use super::write::{checked_range, write_segments};
use bytes::Bytes;
use gupfs_proto::data::{ObjectExistence, RepairedBlocks};
use gupfs_proto::limits::CHECKSUM_BLOCK;
use gupfs_proto::{FsError, ObjectId, ObjectOffset, checksum};
use std::ops::Range;
use std::sync::Arc;

impl Objects {
    /// Repairs the damaged ones of the blocks that `data` covers, as far as `data` has their bytes. Durable with the next sync.
    ///
    /// # Errors
    /// `Malformed` if the data begin within a block or are of several regions, `ObjectDamaged` if the object is lost, `TargetDown` if the
    /// target is closed or not adopted, and those of the disk.
    pub async fn repair(
        &self,
        id: ObjectId,
        at: ObjectOffset,
        data: &Bytes,
    ) -> Result<RepairedBlocks, FsError> {
        let access = self.writable()?;
        let _operation = access.counters.enter(&access.counters.writes);
        let range = checked_range(at, data.len() as u64)?;
        if range.is_empty() {
            return Ok(RepairedBlocks::default());
        }
        let region = region_of(range.start);
        if !range.start.is_multiple_of(CHECKSUM_BLOCK) || region_of(range.end - 1) != region {
            return Err(FsError::Malformed(format!(
                "a repair of the bytes {range:?}"
            )));
        }
        let object = access
            .objects
            .expect_object(id, ObjectExistence::MustExist)
            .await?;
        // Whole blocks: a change of a part of one waits.
        let whole = range.start..range.end.next_multiple_of(CHECKSUM_BLOCK);
        let _closed = object.close_to_changes(whole).await;
        access.objects.load(&object).await?;
        access.regions.load_one(&object, region).await?;
        let mut done = RepairedBlocks::default();
        for block in blocks_of(&range) {
            access
                .repair_block(&object, block, &range, data, &mut done)
                .await?;
        }
        Ok(done)
    }
}

impl WriteAccess {
    async fn repair_block(
        &self,
        object: &Arc<Object>,
        block: u64,
        range: &Range<u64>,
        data: &Bytes,
        done: &mut RepairedBlocks,
    ) -> Result<(), FsError> {
        let start = block * CHECKSUM_BLOCK;
        let (size, recorded) = {
            let state = object.state();
            let size = state.size();
            (size, state.regions.checksum(block, size))
        };
        // A block without a checksum is not known to be damaged.
        let (Some(recorded), true) = (recorded, start < size) else {
            return Ok(());
        };
        // A block that the disk cannot read is damaged, too.
        let found = self.reader.read_block(object, block).await;
        if found.is_ok_and(|found| checksum::block(&found) == recorded) {
            return Ok(());
        }
        let end = (start + CHECKSUM_BLOCK).min(size);
        let right = &data[(start - range.start) as usize..];
        let right = &right[..right.len().min((end - start) as usize)];
        if right.len() as u64 != end - start || checksum::block(right) != recorded {
            done.left += 1;
            return Ok(());
        }
        let written = write_segments(&self.files, object, &(start..end), right).await;
        written.map_err(|error| self.damage.fs_error(object.id, &error))?;
        tracing::warn!(object = %object.id, block, "a damaged block has been repaired");
        done.repaired += 1;
        Ok(())
    }
}
