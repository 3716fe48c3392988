//! stat: size, allocated space and mtime of an object; and the target's space.

use super::Objects;
use gupfs_proto::data::{ObjectExistence, ObjectStat, TargetCapacity};
use gupfs_proto::{FsError, ObjectId};
use std::sync::atomic::Ordering;

impl Objects {
    /// None if there is no such object, and the records do not say that there was one. Reads the allocated space from
    /// the file system; the replies to writes only estimate it.
    pub async fn stat(&self, id: ObjectId) -> Result<Option<ObjectStat>, FsError> {
        let target = self.readable()?;
        let _operation = target.counters.enter(&target.counters.looks);
        let object = target.expect_object(id, ObjectExistence::MayExist).await?;
        let segments: Vec<u32> = object.state().segments.keys().copied().collect();
        for segment in segments {
            target
                .refresh_segment(&object, segment)
                .await
                .map_err(|error| target.fs_error(id, &error))?;
        }
        let state = object.state();
        Ok(state.exists().then(|| state.stat()))
    }

    pub async fn space(&self) -> Result<TargetCapacity, FsError> {
        let target = self.readable()?;
        let _operation = target.counters.enter(&target.counters.looks);
        let space = target.free_space.space().await;
        let mut space =
            space.map_err(|error| FsError::StoreFailed(super::error::error_chain(&error)))?;
        space.objects = target.object_count.load(Ordering::Relaxed);
        Ok(space)
    }
}
