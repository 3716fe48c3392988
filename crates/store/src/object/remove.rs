//! remove: removes an object, with its records and its state in memory.

use super::Objects;
use super::object::Object;
use super::record::object_key;
use super::records::RecordBatch;
use super::target::Target;
use gupfs_proto::{FsError, ObjectId};
use std::sync::atomic::Ordering;

impl Objects {
    /// Needs no space, and succeeds if there is no such object. Durable with the next sync of the object. After a power
    /// loss before that sync the object may exist again, or may be reported as missing; the requester removes it again.
    pub async fn remove(&self, id: ObjectId) -> Result<(), FsError> {
        let target = self.serving()?;
        let _operation = target.counters.enter(&target.counters.changes);
        let object = target.load_object(id).await?;
        let mut change = target.begin_change(&object, 0..u64::MAX).await?;
        // File before records: the requester that removes the object again also removes a record without a file, while
        // a file without its records would only be unverified.
        if object.state().exists() {
            change.note_bytes_change();
            let done = target.remove_segments(&object, 0).await;
            done.map_err(|error| target.fs_error(id, &error))?;
            target.object_count.fetch_sub(1, Ordering::Relaxed);
        }
        match target.remove_records(&object).await {
            // The log has no space even for a removal: the records stay, and describe no object.
            Err(FsError::NoSpace) => {}
            other => other?,
        }
        target.damage.clear(id);
        change.end(|_, _| ());
        Ok(())
    }
}

impl Target {
    /// A record without a file reports the object as lost, so it must not outlive the process that removed the file.
    pub async fn remove_records(&self, object: &Object) -> Result<(), FsError> {
        self.delete_records(object, 0..u64::MAX).await?;
        if object.state().record.is_none() {
            return Ok(());
        }
        let gone = {
            let mut state = object.state();
            let mut batch = RecordBatch::default();
            batch.delete(object_key(object.id));
            let staged = self.records.stage(batch);
            let gone = staged.map_err(|error| self.records_failed(&error))?;
            state.record = None;
            state.records_deleted = gone;
            state.records_version += 1;
            gone
        };
        let done = self.records.wait_committed(gone).await;
        done.map_err(|error| self.records_failed(&error))
    }
}
