//! stat: how long an object is, how much space it takes, when it was changed; and the target's space.

use super::Objects;
use gupfs_proto::data::{Existing, ObjectStat, Space};
use gupfs_proto::{ObjectId, Refusal};
use std::sync::atomic::Ordering;

impl Objects {
    /// None if there is no such object, and never was as far as records tell. The space is the file system's word: answers to writes count what they wrote.
    pub async fn stat(&self, id: ObjectId) -> Result<Option<ObjectStat>, Refusal> {
        let target = self.looking()?;
        let _under_way = target.counters.enter(&target.counters.looks);
        let object = target.expect(id, Existing::Perhaps).await?;
        let segments: Vec<u32> = object.state().segments.keys().copied().collect();
        for segment in segments {
            target
                .look_again(&object, segment)
                .await
                .map_err(|error| target.refused(id, &error))?;
        }
        let state = object.state();
        Ok(state.exists().then(|| state.stat()))
    }

    pub async fn space(&self) -> Result<Space, Refusal> {
        let target = self.looking()?;
        let _under_way = target.counters.enter(&target.counters.looks);
        let space = target.room.space().await;
        let mut space = space.map_err(|error| Refusal::StoreFailed(super::error::told(&error)))?;
        space.objects = target.objects.load(Ordering::Relaxed);
        Ok(space)
    }
}
