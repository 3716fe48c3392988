//! write: stores bytes in an object, with one pwrite for each segment.

use super::Objects;
use super::edge_blocks::{EdgeBlock, NewBytes, checksum_edges, edge_blocks, set_edge_checksums};
use super::files::ObjectFiles;
use super::object::Object;
use super::paths::split_by_segment;
use super::region::whole_blocks_of;
use super::space_ledger::SpaceSource;
use super::write_slots::ClaimedSlot;
use gupfs_platform::DiskError;
use gupfs_proto::data::{BlockChecksums, ObjectExistence, ObjectOwner, ObjectStat};
use gupfs_proto::limits::{CHECKSUM_BLOCK, FILE_SIZE_MAX, PAYLOAD_MAX};
use gupfs_proto::{FsError, ObjectId, ObjectOffset};
use std::ops::Range;

/// A write: its data and checksums, and what the requester knows of the object.
#[derive(Clone, Copy, Debug)]
pub struct WriteRequest<'a> {
    pub object: ObjectId,
    pub at: ObjectOffset,
    pub data: &'a [u8],
    pub sums: &'a BlockChecksums,
    pub existing: ObjectExistence,
    pub owner: ObjectOwner,
}

/// The range of `len` bytes at `at`, if it is within the largest object.
pub(super) fn checked_range(at: ObjectOffset, len: u64) -> Result<Range<u64>, FsError> {
    match at.get().checked_add(len) {
        Some(end) if end <= FILE_SIZE_MAX => Ok(at.get()..end),
        _ => Err(FsError::TooLarge),
    }
}

impl Objects {
    /// Writes all of the data, or fails. On a failure any of its blocks may have changed, and nothing else.
    ///
    /// # Errors
    /// `NoSpace` if the disk has no space outside the reserve and what is reserved for sessions, `TooLarge` above the largest object, `Malformed` above
    /// `PAYLOAD_MAX` or with other checksums than those of the written blocks, `ObjectDamaged` if the object is lost or
    /// a block at an end of the range does not match its checksum; `TargetDown` if the target is closed or not adopted.
    pub async fn write(&self, write: WriteRequest<'_>) -> Result<ObjectStat, FsError> {
        tracing::trace!(target: "walk", file = file!(), "write");
        let source = SpaceSource::Unreserved;
        self.execute_write(&write, None, source).await
    }

    /// `slot`: that of a numbered write, which records what happens.
    pub(super) async fn execute_write(
        &self,
        write: &WriteRequest<'_>,
        mut slot: Option<&mut ClaimedSlot<'_>>,
        source: SpaceSource,
    ) -> Result<ObjectStat, FsError> {
        let access = self.writable()?;
        let _operation = access.counters.enter(&access.counters.writes);
        let len = write.data.len() as u64;
        let range = checked_range(write.at, len)?;
        write.check(&range)?;
        let object = access
            .objects
            .expect_object(write.object, write.existing)
            .await?;
        if range.is_empty() {
            return Ok(object.state().stat());
        }
        let needs_space = !object.state().has_space_for(&range);
        let _admitted = match needs_space {
            true => Some(access.free_space.admit(&range, source).await?),
            false => None,
        };
        access.flusher.flush_if_too_many_dirty().await?;

        let mut change = access.begin_change(&object, range.clone()).await?;
        // The change before this one may have closed the target (`ClaimedSlot::finish`).
        self.writable()?;
        access
            .dirty_log
            .make_range_dirty(&object, &change, &range)
            .await?;
        let edges = edge_blocks(&object.state(), &range);
        let new = NewBytes::Given(write.data);
        let edge_sums =
            checksum_edges(&access.reader, &object, &edges, new, &range, &change).await?;
        if let Some(slot) = &mut slot {
            slot.begin(write.object, &range, write.data).await?;
        }
        change.note_bytes_change();
        let written = write_segments(&access.files, &object, &range, write.data).await;
        written.map_err(|error| access.damage.fs_error(write.object, &error))?;

        object.start_early_write_back(&range);

        access.counters.bytes_written.add(len);
        let now = access.clock.now();
        if let Some(slot) = slot {
            let stat = ObjectStat {
                mtime: now,
                ..object.state().stat()
            };
            slot.finish(stat).await?;
        }
        Ok(change.end(|state, span| {
            state
                .regions
                .set_checksums(whole_blocks_of(&range), |block| {
                    write.client_checksum(block)
                });
            set_edge_checksums(&mut state.regions, span, edge_sums, |edge| {
                write.client_checksum_of_tail(edge, &edges)
            });
            state.owner = write.owner;
            state.mtime = now;
            state.stat()
        }))
    }
}

impl WriteRequest<'_> {
    /// Fails for a request that no correct client sends.
    fn check(&self, range: &Range<u64>) -> Result<(), FsError> {
        let len = self.data.len();
        if len as u64 > PAYLOAD_MAX.get() {
            return Err(FsError::Malformed(format!("a write of {len} bytes")));
        }
        let whole = whole_blocks_of(range);
        let tail = range.end.div_ceil(CHECKSUM_BLOCK).max(whole.start);
        let fits = self.sums.first_block == whole.start
            && self.sums.checksums.len() as u64 <= tail - whole.start;
        match fits || self.sums.checksums.is_empty() {
            true => Ok(()),
            false => Err(FsError::Malformed(
                "the checksums are not those of the written blocks".into(),
            )),
        }
    }

    /// The client's checksum of a block that the write covers whole.
    fn client_checksum(&self, block: u64) -> Option<u32> {
        let index = block.checked_sub(self.sums.first_block)?;
        *self.sums.checksums.get(usize::try_from(index).ok()?)?
    }

    /// The client's checksum of the block in which the data ends; valid only if the object has no bytes after the data.
    fn client_checksum_of_tail(&self, block: u64, edges: &[EdgeBlock]) -> Option<u32> {
        let edge = edges.iter().find(|edge| edge.block == block)?;
        edge.is_only_data().then(|| self.client_checksum(block))?
    }
}

pub(super) async fn write_segments(
    files: &ObjectFiles,
    object: &Object,
    range: &Range<u64>,
    data: &[u8],
) -> Result<(), DiskError> {
    tracing::trace!(target: "walk", file = file!(), "write_segments");
    for part in split_by_segment(range.start, data.len() as u64) {
        let file = files.open_or_create_segment(object, part.segment).await?;
        let bytes = &data[part.range.start as usize..part.range.end as usize];
        file.write_at(bytes, part.at).await?;
        let within = part.at..part.at + bytes.len() as u64;
        let known = object.state().note_write(part.segment, &within);
        if !known {
            // After a write into or behind a hole only the file system knows the allocated space.
            files.refresh_segment(object, part.segment).await?;
        }
    }
    Ok(())
}
