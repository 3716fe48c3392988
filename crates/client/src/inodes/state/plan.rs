//! Plans of reads and writes: the range to lock, and the chunks.

use super::{DataLocation, InodeState};
use crate::reserved_space::NeededSpace;
use bytes::Bytes;
use gupfs_proto::meta::WritePosition;
use gupfs_proto::{ByteCount, FileOffset, FsError, InodeId, StripeChunk};

/// The range that a write must lock exclusively.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WriteLockRange {
    pub from: FileOffset,
    pub to: FileOffset,
}

impl WriteLockRange {
    /// For a write that acquires the lease, moves the data to objects, or goes inline.
    pub const WHOLE: WriteLockRange = WriteLockRange {
        from: FileOffset(0),
        to: FileOffset::MAX,
    };

    pub fn covers(self, other: WriteLockRange) -> bool {
        self.from <= other.from && other.to <= self.to
    }
}

/// Where a read gets its bytes.
pub enum ReadPlan {
    /// From the inode: these bytes, then this many zeros.
    Inline(Bytes, ByteCount),
    /// From objects, up to the end of the range or of the file.
    Chunks(Vec<StripeChunk>),
}

impl InodeState {
    /// The range that a write of `len` bytes must lock exclusively: its own bytes, or everything from the end of the file on if the
    /// write extends the file.
    pub fn write_lock_range(&self, at: WritePosition, len: ByteCount) -> WriteLockRange {
        if !self.is_ready(at) {
            return WriteLockRange::WHOLE;
        }
        let (from, end) = (self.offset_of(at), self.end_of_file());
        match at {
            // Where others write too, the end that is known here is not the file's: nothing is truncated behind it.
            WritePosition::Offset(_) if self.has_concurrent_write_lease() => WriteLockRange {
                from,
                to: from.saturating_add(len),
            },
            WritePosition::Offset(_) if from.saturating_add(len) <= end => WriteLockRange {
                from,
                to: from + len,
            },
            _ => WriteLockRange {
                from: from.min(end),
                to: FileOffset::MAX,
            },
        }
    }

    /// The offset of a write by the size that is known here.
    pub fn offset_of(&self, at: WritePosition) -> FileOffset {
        match at {
            WritePosition::Offset(offset) => FileOffset(offset),
            WritePosition::End => self.end_of_file(),
        }
    }

    /// The offset of a write to a file with a write lease.
    ///
    /// # Errors
    /// `NotPermitted` before the end of an append-only file. (The server has granted the lease for appending, and does not see
    /// writes to objects.)
    pub fn write_offset(&self, at: WritePosition) -> Result<FileOffset, FsError> {
        let offset = self.offset_of(at);
        match offset < self.end_of_file() && self.is_append_only() {
            true => Err(FsError::NotPermitted),
            false => Ok(offset),
        }
    }

    /// Plans a write: its chunks of at most `message_max` bytes, each with whether its object has no bytes behind it. Marks what
    /// the write will change, so that the objects of a dropped write are still synced and its leftovers still truncated.
    pub fn plan_write(
        &mut self,
        ino: InodeId,
        offset: FileOffset,
        len: ByteCount,
        message_max: ByteCount,
    ) -> Vec<(StripeChunk, bool)> {
        tracing::trace!(target: "walk", file = file!(), "plan_write");
        let chunks = self.objects.chunks(ino, offset, len, message_max);
        self.extend_leftovers(offset + len);
        // Of the file after the write: a part that another part of the same write follows is not the last.
        let size = self.end_of_file().max(offset + len);
        let planned = chunks.into_iter().map(|chunk| {
            let component = self.objects.component(chunk.component);
            let last = chunk.at.0 + chunk.len >= component.object_size(chunk.index, size.0);
            (chunk, last)
        });
        let planned: Vec<(StripeChunk, bool)> = planned.collect();
        for (chunk, _) in &planned {
            self.objects
                .mark_members_dirty(chunk.component, chunk.index);
        }
        planned
    }

    /// The space that a range takes at its targets in addition to the unsent bytes, of a file whose data is in objects. One entry for each
    /// target.
    pub fn space_to_write(
        &self,
        ino: InodeId,
        offset: FileOffset,
        len: ByteCount,
    ) -> Vec<NeededSpace> {
        let chunks = self.layout().stripe_chunks(ino, offset, len.0);
        let mut needed: Vec<NeededSpace> = Vec::new();
        for chunk in chunks {
            let at = offset.0 + chunk.buffer_offset;
            let bytes = self.unsent.added_space(at..at + chunk.len);
            // Each member needs it.
            let component = self.objects.component(chunk.component);
            for index in component.full_members(component.stripe_of(chunk.index)) {
                let ost = component.targets[index];
                match needed.iter_mut().find(|target| target.ost == ost) {
                    Some(target) => target.bytes += bytes,
                    None => needed.push(NeededSpace { ost, bytes }),
                }
            }
        }
        needed
    }

    /// `offset .. end` lies within the file.
    pub fn plan_read(
        &self,
        ino: InodeId,
        offset: FileOffset,
        end: FileOffset,
        message_max: ByteCount,
    ) -> ReadPlan {
        match self.data_location() {
            DataLocation::Inode => {
                let (bytes, zeros) = self.inline.read(offset, end);
                ReadPlan::Inline(bytes, zeros)
            }
            DataLocation::Objects => {
                let chunks = self.objects.chunks(ino, offset, end - offset, message_max);
                ReadPlan::Chunks(chunks)
            }
        }
    }

    /// The chunks of bytes that existed when the file was loaded. None if not all of them existed, or if the data was inline.
    pub fn plan_hinted_read(
        &self,
        ino: InodeId,
        offset: FileOffset,
        end: FileOffset,
        message_max: ByteCount,
    ) -> Option<Vec<StripeChunk>> {
        if self.data_location() == DataLocation::Inode || end > self.end_of_file() {
            return None;
        }
        let chunks = (self.objects).hinted_chunks(ino, offset, end - offset, message_max);
        Some(chunks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inodes::state::fixtures::opened;
    use gupfs_proto::data::ObjectStat;
    use gupfs_proto::limits::PAYLOAD_MAX;
    use gupfs_proto::{Presence, WriteVerifier};

    const INO: InodeId = InodeId(5);

    #[test]
    fn a_write_within_the_file_locks_its_own_bytes_and_an_extending_one_everything_from_the_end() {
        let mut state = InodeState::new(true, std::sync::Arc::default());
        state.update_from_server(opened(1, Presence::Never));
        let range = |state: &InodeState, at| {
            let range = state.write_lock_range(at, ByteCount(50));
            (range.from.0, range.to.0)
        };
        assert_eq!(range(&state, WritePosition::Offset(0)), (0, u64::MAX));
        state.lease_acquired(opened(2, Presence::Maybe));
        assert_eq!(state.end_of_file(), FileOffset(100));
        assert_eq!(range(&state, WritePosition::Offset(50)), (50, 100));
        assert_eq!(range(&state, WritePosition::Offset(60)), (60, u64::MAX));
        assert_eq!(range(&state, WritePosition::Offset(600)), (100, u64::MAX));
        assert_eq!(range(&state, WritePosition::End), (100, u64::MAX));
    }

    #[test]
    fn an_object_is_present_only_once_it_is_synced() {
        let mut state = InodeState::new(true, std::sync::Arc::default());
        state.update_from_server(opened(1, Presence::Never));
        state.lease_acquired(opened(2, Presence::Maybe));
        let planned = |state: &InodeState| match state.plan_read(
            INO,
            FileOffset(0),
            FileOffset(10),
            PAYLOAD_MAX,
        ) {
            ReadPlan::Chunks(chunks) => chunks[0].presence,
            ReadPlan::Inline(..) => panic!("it has objects"),
        };
        let written = (ObjectStat::default(), WriteVerifier(1));
        state.objects.written(0, 0, written);
        assert_eq!(planned(&state), Presence::Maybe);
        assert_eq!(state.objects.take_unsynced(INO).len(), 1);
        assert_eq!(planned(&state), Presence::Maybe, "the sync may still fail");
        state.objects.sync_finished(true);
        assert_eq!(planned(&state), Presence::Present);
        let again = state.plan_write(INO, FileOffset(0), ByteCount(10), PAYLOAD_MAX);
        assert_eq!(again[0].0.presence, Presence::Present);
        assert_eq!(planned(&state), Presence::Maybe);
    }
}
