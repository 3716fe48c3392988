//! quarantine: removes an object, and keeps its bytes in `lost+found` for a while.

use super::Objects;
use super::error::error_chain;
use super::lost_found::LostFoundUsage;
use super::paths::dir_path;
use gupfs_proto::{FsError, ObjectId};

impl Objects {
    /// Succeeds if there is no such object. When this returns, the bytes are in `lost+found`, also after a power loss.
    ///
    /// # Errors
    /// `NoSpace` if the disk has no space for the directory; `TargetDown` if the target is closed or not adopted, or a
    /// sync fails.
    pub async fn quarantine(&self, id: ObjectId) -> Result<(), FsError> {
        let target = self.serving()?;
        let access = &target.writing;
        let _operation = access.counters.enter(&access.counters.changes);
        let object = access.objects.load_object(id).await?;
        let mut change = access.begin_change(&object, 0..u64::MAX).await?;
        if object.state().exists() {
            change.note_bytes_change();
            let bytes = object.state().size();
            let done = async {
                let to = target.lost_found.create_dir(&dir_path(id)).await?;
                access.files.move_segments(&object, &to).await
            };
            done.await
                .map_err(|error| access.damage.fs_error(id, &error))?;
            target.syncer.sync_names(&dir_path(id)).await?;
            access.files.count.remove_one();
            target.lost_found.note_quarantined(bytes);
        }
        match access.dirty_log.remove_all_records(&object).await {
            Err(FsError::NoSpace) => {}
            other => other?,
        }
        access.damage.clear(id);
        change.end(|_, _| ());
        Ok(())
    }

    /// Counts the objects in `lost+found`.
    ///
    /// # Errors
    /// `TargetDown` if the target is closed, `StoreFailed` if a directory cannot be read.
    pub async fn count_lost_found(&self) -> Result<LostFoundUsage, FsError> {
        let counted = self.readable()?.lost_found.count().await;
        counted.map_err(|error| FsError::StoreFailed(error_chain(&error)))
    }
}
