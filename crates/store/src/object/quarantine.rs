//! quarantine: removes an object, and keeps its bytes in `lost+found` for a while.

use super::Objects;
use super::lost_found::create_quarantine_dir;
use super::object::Object;
use super::paths::{dir_path, file_path};
use super::target::Target;
use gupfs_platform::{DiskError, DiskErrorKind};
use gupfs_proto::{FsError, ObjectId};
use std::sync::atomic::Ordering;

impl Objects {
    /// Succeeds if there is no such object. When this returns, the bytes are in `lost+found`, also after a power loss.
    pub async fn quarantine(&self, id: ObjectId) -> Result<(), FsError> {
        let target = self.serving()?;
        let _operation = target.counters.enter(&target.counters.changes);
        let object = target.load_object(id).await?;
        let mut change = target.begin_change(&object, 0..u64::MAX).await?;
        if object.state().exists() {
            change.note_bytes_change();
            let bytes = object.state().size();
            let done = target.move_segments(&object).await;
            done.map_err(|error| target.fs_error(id, &error))?;
            target.sync_names(&dir_path(id)).await?;
            target.object_count.fetch_sub(1, Ordering::Relaxed);
            target.lost_found.lock().add(bytes);
        }
        match target.remove_records(&object).await {
            Err(FsError::NoSpace) => {}
            other => other?,
        }
        target.damage.clear(id);
        change.end(|_, _| ());
        Ok(())
    }
}

impl Target {
    async fn move_segments(&self, object: &Object) -> Result<(), DiskError> {
        let _guard = object.files_lock.lock().await;
        let from = dir_path(object.id);
        let to = create_quarantine_dir(&self.disk, self.platform.clock.now(), &from).await?;
        let segments: Vec<u32> = object.state().segments.keys().copied().collect();
        // In descending order: the object exists as long as segment 0 does.
        for number in segments.into_iter().rev() {
            let file = file_path(object.id, number);
            let name = file.rsplit('/').next().unwrap_or(&file);
            match self.disk.rename(&file, &format!("{to}/{name}")).await {
                Err(error) if error.kind != DiskErrorKind::NotFound => return Err(error),
                _ => {}
            }
            object.state().segments.remove(&number);
        }
        self.dirs.note_change(&from);
        // Syncs the new name before the removal of the old one: a power loss leaves at least one of them.
        self.disk.sync_dir(&to).await
    }
}
