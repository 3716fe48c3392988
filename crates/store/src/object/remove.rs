//! remove: removes an object, with its records and its state in memory.

use super::Objects;
use gupfs_proto::{FsError, ObjectId};

impl Objects {
    /// Needs no space, and succeeds if there is no such object. Durable with the next sync of the object. After a power
    /// loss before that sync the object may exist again, or may be reported as missing; the requester removes it again.
    ///
    /// # Errors
    /// `TargetDown` if the target is closed or not adopted, or its records fail.
    pub async fn remove(&self, id: ObjectId) -> Result<(), FsError> {
        let access = self.writable()?;
        let _operation = access.counters.enter(&access.counters.changes);
        let object = access.objects.load_object(id).await?;
        let mut change = access.begin_change(&object, 0..u64::MAX).await?;
        // File before records: the requester that removes the object again also removes a record without a file, while
        // a file without its records would only be unverified.
        if object.state().exists() {
            change.note_bytes_change();
            let done = access.files.remove_segments(&object, 0).await;
            done.map_err(|error| access.damage.fs_error(id, &error))?;
            access.files.count.remove_one();
        }
        match access.dirty_log.remove_all_records(&object).await {
            // The log has no space even for a removal: the records stay, and describe no object.
            Err(FsError::NoSpace) => {}
            other => other?,
        }
        access.damage.clear(id);
        change.end(|_, _| ());
        Ok(())
    }
}
