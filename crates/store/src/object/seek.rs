//! seek: finds where data or a hole begins.

use super::Objects;
use gupfs_proto::data::SeekWhence;
use gupfs_proto::{FsError, ObjectId, ObjectOffset};

impl Objects {
    /// The first byte of data, or of a hole, at or after `at`; the object's end counts as a hole. None at or after the
    /// end.
    ///
    /// # Errors
    /// `ObjectDamaged` if the object's files cannot be read; `TargetDown` if the target is closed.
    pub async fn seek(
        &self,
        id: ObjectId,
        at: ObjectOffset,
        what: SeekWhence,
    ) -> Result<Option<ObjectOffset>, FsError> {
        let access = self.readable()?;
        let _operation = access.counters.enter(&access.counters.looks);
        let object = access.objects.load_object(id).await?;
        let size = object.state().size();
        if at.get() >= size {
            return Ok(None);
        }
        let found = match what {
            SeekWhence::Data => access.reader.seek_data(&object, at.get()).await,
            SeekWhence::Hole => access
                .reader
                .seek_hole(&object, at.get(), size)
                .await
                .map(Some),
        };
        let found = found.map_err(|error| access.damage.fs_error(id, &error))?;
        Ok(found.map(ObjectOffset))
    }
}
