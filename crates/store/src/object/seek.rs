//! seek: finds where data or a hole begins.

use super::Objects;
use super::limits::SEGMENT;
use super::object::Object;
use super::paths::segment_of;
use super::target::Target;
use gupfs_platform::DiskError;
use gupfs_proto::data::SeekWhence;
use gupfs_proto::{FsError, ObjectId, ObjectOffset};

impl Objects {
    /// The first byte of data, or of a hole, at or after `at`; the object's end counts as a hole. None at or after the
    /// end.
    pub async fn seek(
        &self,
        id: ObjectId,
        at: ObjectOffset,
        what: SeekWhence,
    ) -> Result<Option<ObjectOffset>, FsError> {
        let target = self.readable()?;
        let _operation = target.counters.enter(&target.counters.looks);
        let object = target.load_object(id).await?;
        let size = object.state().size();
        if at.get() >= size {
            return Ok(None);
        }
        let found = match what {
            SeekWhence::Data => target.seek_data(&object, at.get()).await,
            SeekWhence::Hole => target.seek_hole(&object, at.get(), size).await.map(Some),
        };
        let found = found.map_err(|error| target.fs_error(id, &error))?;
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
            let Some(file) = self.open_segment(object, segment).await? else {
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
            let Some(file) = self.open_segment(object, segment).await? else {
                return Ok(at); // a segment without a file is a hole
            };
            match file.seek_hole(at - start).await? {
                // The segment has data up to its end: the next one may begin with data.
                Some(SEGMENT) => at = start + SEGMENT,
                Some(found) => return Ok((start + found).min(size)),
                None => return Ok(at), // after the file's end
            }
        }
        Ok(size)
    }
}
