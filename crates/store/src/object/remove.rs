//! remove: an object is gone, with all that is known of it.

use super::Objects;
use super::object::Object;
use super::record::object_key;
use super::records::Batch;
use super::target::Target;
use gupfs_proto::{ObjectId, Refusal};
use std::sync::atomic::Ordering;

impl Objects {
    /// Takes no space and succeeds if there is no such object. Durable with the next sync of it; if the power goes
    /// before, the object may be there again, or be lost without a trace of why: who wanted it gone removes it again.
    pub async fn remove(&self, id: ObjectId) -> Result<(), Refusal> {
        let target = self.serving()?;
        let _under_way = target.counters.enter(&target.counters.changes);
        let object = target.object(id).await?;
        let mut change = target.change(&object, 0..u64::MAX).await?;
        // File before records: a record without a file is found and removed by who removes again, records missing for
        // a file would only make it unverified.
        if object.state().exists() {
            change.touch();
            let done = target.remove_segments(&object, 0).await;
            done.map_err(|error| target.refused(id, &error))?;
            target.objects.fetch_sub(1, Ordering::Relaxed);
        }
        match target.remove_records(&object).await {
            // No room even for a removal in the log: the records stay, and speak of nothing.
            Err(Refusal::NoSpace) => {}
            other => other?,
        }
        target.damage.clear(id);
        change.end(|_, _| ());
        Ok(())
    }
}

impl Target {
    /// A record without a file says that the object was lost: it must not outlive the process that removed the file.
    pub async fn remove_records(&self, object: &Object) -> Result<(), Refusal> {
        self.forget_records(object, 0..u64::MAX).await?;
        if object.state().record.is_none() {
            return Ok(());
        }
        let gone = {
            let mut state = object.state();
            let mut batch = Batch::default();
            batch.delete(object_key(object.id));
            let staged = self.records.stage(batch);
            let gone = staged.map_err(|error| self.records_failed(&error))?;
            state.record = None;
            state.forgotten = gone;
            state.restaged += 1;
            gone
        };
        let done = self.records.committed(gone).await;
        done.map_err(|error| self.records_failed(&error))
    }
}
