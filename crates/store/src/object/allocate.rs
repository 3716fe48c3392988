//! allocate: space for a range, so that writes there do not meet a full disk.

use super::Objects;
use super::place::parts;
use super::write::range_of;
use gupfs_proto::data::{Existing, ObjectStat, Owner};
use gupfs_proto::{ObjectId, ObjectOffset, Refusal};

/// For which range, and what is known of the object.
#[derive(Clone, Copy, Debug)]
pub struct Allocate {
    pub object: ObjectId,
    pub at: ObjectOffset,
    pub len: u64,
    pub keep_size: bool,
    pub existing: Existing,
    pub owner: Owner,
}

impl Objects {
    /// What had no space reads zeros as before. The object grows to the range's end, unless `keep_size`.
    pub async fn allocate(&self, allocate: Allocate) -> Result<ObjectStat, Refusal> {
        let Allocate {
            object: id,
            at,
            len,
            keep_size,
            existing,
            owner,
        } = allocate;
        let target = self.serving()?;
        let _under_way = target.counters.enter(&target.counters.changes);
        let range = range_of(at, len)?;
        let object = target.expect(id, existing).await?;
        if !object.state().has_space_for(&range) {
            target.room.take(len).await?;
        }
        // Bytes stay what they are, so records and sums stay true.
        let mut change = target.change(&object, range.clone()).await?;
        change.touch();
        for part in parts(range.start, len) {
            let done = async {
                let len = part.of.end - part.of.start;
                let file = target.file_to_write(&object, part.segment).await?;
                // A segment that is not the last is full anyway, or a hole up to the next.
                match keep_size && range.end > object.state().size() {
                    true => file.allocate_keeping_len(part.at, len).await?,
                    false => file.allocate(part.at, len).await?,
                }
                target.look_again(&object, part.segment).await
            };
            done.await.map_err(|error| target.refused(id, &error))?;
        }
        let now = target.platform.clock.now();
        Ok(change.end(|state, _| {
            state.owner = owner;
            // Also where its length stays: the file's time of change is this one, and is recovered from here.
            state.mtime = now;
            state.stat()
        }))
    }
}
