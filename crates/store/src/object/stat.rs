//! stat: size, allocated space and mtime of an object; and the target's space.

use super::Objects;
use super::error::error_chain;
use gupfs_proto::data::{ObjectExistence, ObjectStat, TargetCapacity};
use gupfs_proto::{FsError, ObjectId};

impl Objects {
    /// None if there is no such object, and the records do not say that there was one. Reads the allocated space from
    /// the file system; the replies to writes only estimate it.
    ///
    /// # Errors
    /// `ObjectDamaged` if the records have an object that is lost; `TargetDown` if the target is closed.
    pub async fn stat(&self, id: ObjectId) -> Result<Option<ObjectStat>, FsError> {
        let access = self.readable()?;
        let _operation = access.counters.enter(&access.counters.looks);
        let object = access
            .objects
            .expect_object(id, ObjectExistence::MayExist)
            .await?;
        let refreshed = access.reader.refresh(&object).await;
        refreshed.map_err(|error| access.damage.fs_error(id, &error))?;
        let state = object.state();
        Ok(state.exists().then(|| state.stat()))
    }

    /// # Errors
    /// `TargetDown` if the target is closed, `StoreFailed` if the file system does not answer.
    pub async fn space(&self) -> Result<TargetCapacity, FsError> {
        let access = self.readable()?;
        let _operation = access.counters.enter(&access.counters.looks);
        let space = access.free_space.space().await;
        let mut space = space.map_err(|error| FsError::StoreFailed(error_chain(&error)))?;
        space.objects = access.object_count.get();
        Ok(space)
    }
}
