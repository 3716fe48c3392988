//! seek: where data or a hole begins.

use super::Objects;
use super::limits::SEGMENT;
use super::object::Object;
use super::place::segment_of;
use super::target::Target;
use gupfs_platform::DiskError;
use gupfs_proto::data::Seek;
use gupfs_proto::{ObjectId, ObjectOffset, Refusal};

impl Objects {
    /// The first byte of data, or of a hole, at or after `at`; the object's end is a hole. None behind the last.
    pub async fn seek(
        &self,
        id: ObjectId,
        at: ObjectOffset,
        what: Seek,
    ) -> Result<Option<ObjectOffset>, Refusal> {
        let target = self.looking()?;
        let _under_way = target.counters.enter(&target.counters.looks);
        let object = target.object(id).await?;
        let size = object.state().size();
        if at.get() >= size {
            return Ok(None);
        }
        let found = match what {
            Seek::Data => target.seek_data(&object, at.get()).await,
            Seek::Hole => target.seek_hole(&object, at.get(), size).await.map(Some),
        };
        let found = found.map_err(|error| target.refused(id, &error))?;
        Ok(found.map(ObjectOffset))
    }
}

impl Target {
    pub async fn seek_data(&self, object: &Object, at: u64) -> Result<Option<u64>, DiskError> {
        let first = segment_of(at);
        let segments: Vec<u32> = object
            .state()
            .segments
            .range(first..)
            .map(|(number, _)| *number)
            .collect();
        for segment in segments {
            let start = u64::from(segment) * SEGMENT;
            let Some(file) = self.file(object, segment).await? else {
                continue;
            };
            if let Some(found) = file.seek_data(at.saturating_sub(start)).await? {
                return Ok(Some(start + found));
            }
        }
        Ok(None)
    }

    async fn seek_hole(&self, object: &Object, at: u64, size: u64) -> Result<u64, DiskError> {
        let mut at = at;
        while at < size {
            let segment = segment_of(at);
            let start = u64::from(segment) * SEGMENT;
            let Some(file) = self.file(object, segment).await? else {
                return Ok(at); // a segment without a file is a hole
            };
            match file.seek_hole(at - start).await? {
                // Full to the border: what follows may be data.
                Some(SEGMENT) => at = start + SEGMENT,
                Some(found) => return Ok((start + found).min(size)),
                None => return Ok(at), // behind the file's end
            }
        }
        Ok(size)
    }
}
