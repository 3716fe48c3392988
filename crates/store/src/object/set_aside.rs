//! set_aside: an object is gone as after a removal, and its bytes are kept in `lost+found` for a while.

use super::Objects;
use super::lost_found::dir_for;
use super::object::Object;
use super::place::{dir_of, file_of};
use super::target::Target;
use gupfs_platform::{DiskError, DiskErrorKind};
use gupfs_proto::{ObjectId, Refusal};
use std::sync::atomic::Ordering;

impl Objects {
    /// Succeeds if there is no such object. The bytes are in `lost+found` when this returns, also after a power cut.
    pub async fn set_aside(&self, id: ObjectId) -> Result<(), Refusal> {
        let target = self.serving()?;
        let _under_way = target.counters.enter(&target.counters.changes);
        let object = target.object(id).await?;
        let mut change = target.change(&object, 0..u64::MAX).await?;
        if object.state().exists() {
            change.touch();
            let bytes = object.state().size();
            let done = target.move_segments(&object).await;
            done.map_err(|error| target.refused(id, &error))?;
            target.sync_names(&dir_of(id)).await?;
            target.objects.fetch_sub(1, Ordering::Relaxed);
            target.lost_found.lock().add(bytes);
        }
        match target.remove_records(&object).await {
            Err(Refusal::NoSpace) => {}
            other => other?,
        }
        target.damage.clear(id);
        change.end(|_, _| ());
        Ok(())
    }
}

impl Target {
    async fn move_segments(&self, object: &Object) -> Result<(), DiskError> {
        let _gate = object.gate.lock().await;
        let from = dir_of(object.id);
        let to = dir_for(&self.disk, self.platform.clock.now(), &from).await?;
        let segments: Vec<u32> = object.state().segments.keys().copied().collect();
        // The last first: segment 0 is what makes the object exist.
        for number in segments.into_iter().rev() {
            let file = file_of(object.id, number);
            let name = file.rsplit('/').next().unwrap_or(&file);
            match self.disk.rename(&file, &format!("{to}/{name}")).await {
                Err(error) if error.kind != DiskErrorKind::NotFound => return Err(error),
                _ => {}
            }
            object.state().segments.remove(&number);
        }
        self.dirs.changed(&from);
        // The new name before the old one's end: a power cut leaves one of them at least.
        self.disk.sync_dir(&to).await
    }
}
