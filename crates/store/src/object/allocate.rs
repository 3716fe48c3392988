//! allocate: reserves disk space for a range, so that writes there do not find the disk full.

use super::Objects;
use super::paths::split_by_segment;
use super::space_ledger::SpaceSource;
use super::write::checked_range;
use gupfs_proto::data::{ObjectExistence, ObjectOwner, ObjectStat};
use gupfs_proto::{FsError, ObjectId, ObjectOffset};

/// An allocation: its range, and what the requester knows of the object.
#[derive(Clone, Copy, Debug)]
pub struct AllocateRequest {
    pub object: ObjectId,
    pub at: ObjectOffset,
    pub len: u64,
    pub keep_size: bool,
    pub existing: ObjectExistence,
    pub owner: ObjectOwner,
}

impl Objects {
    /// Holes in the range still read as zeros. The object grows to the end of the range, unless `keep_size`.
    ///
    /// # Errors
    /// `NoSpace` if the disk has no space outside the reserve and what is reserved for sessions, `TooLarge` above the largest object, `ObjectDamaged` if
    /// the object must exist and does not; `TargetDown` if the target is closed or not adopted.
    pub async fn allocate(&self, allocate: AllocateRequest) -> Result<ObjectStat, FsError> {
        let AllocateRequest {
            object: id,
            at,
            len,
            keep_size,
            existing,
            owner,
        } = allocate;
        let access = self.writable()?;
        let _operation = access.counters.enter(&access.counters.changes);
        let range = checked_range(at, len)?;
        let object = access.objects.expect_object(id, existing).await?;
        let needs_space = !object.state().has_space_for(&range);
        let _admitted = match needs_space {
            true => Some(
                access
                    .free_space
                    .admit(&range, SpaceSource::Unreserved)
                    .await?,
            ),
            false => None,
        };
        // No byte changes, so records and checksums stay valid.
        let mut change = access.begin_change(&object, range.clone()).await?;
        change.note_bytes_change();
        for part in split_by_segment(range.start, len) {
            let done = async {
                let len = part.range.end - part.range.start;
                let file = access
                    .files
                    .open_or_create_segment(&object, part.segment)
                    .await?;
                // A segment that is not the last already has its full length.
                match keep_size && range.end > object.state().size() {
                    true => file.allocate_keeping_len(part.at, len).await?,
                    false => file.allocate(part.at, len).await?,
                }
                access.files.refresh_segment(&object, part.segment).await
            };
            done.await
                .map_err(|error| access.damage.fs_error(id, &error))?;
        }
        let now = access.clock.now();
        Ok(change.end(|state, _| {
            state.owner = owner;
            // Set even if the length stays: the file's ctime is this time, and is recovered from here.
            state.mtime = now;
            state.stat()
        }))
    }
}
