//! sync: makes writes to some objects, their names and their removal survive a power loss.

use super::Objects;
use gupfs_proto::{FsError, ObjectId};

impl Objects {
    /// Makes every acknowledged change of these objects durable; for a removed object, its removal.
    ///
    /// # Errors
    /// `TargetDown` if the target is closed or not adopted, or a sync fails: then writes may be lost, and the write
    /// verifier is retired.
    pub async fn sync(&self, ids: &[ObjectId]) -> Result<(), FsError> {
        let target = self.serving()?;
        let counters = &target.reading.counters;
        let _operation = counters.enter(&counters.syncs);
        let mut objects = Vec::new();
        for id in ids {
            objects.push(target.reading.objects.load_object(*id).await?);
        }
        target.syncer.sync_objects(objects).await
    }

    /// Returns which of these objects exist, in their order; the existing ones survive a power loss when this returns.
    ///
    /// Usually these are many objects that were written a while ago, and the background checksum flush has synced most
    /// of them.
    ///
    /// # Errors
    /// As `sync`.
    pub async fn confirm(&self, ids: &[ObjectId]) -> Result<Vec<bool>, FsError> {
        let target = self.serving()?;
        let counters = &target.reading.counters;
        let _operation = counters.enter(&counters.syncs);
        let mut there = Vec::with_capacity(ids.len());
        let mut objects = Vec::new();
        for id in ids {
            let object = target.reading.objects.load_object(*id).await?;
            let exists = object.state().exists();
            there.push(exists);
            if exists {
                objects.push(object);
            }
        }
        target.syncer.sync_many(&objects).await?;
        target.syncer.sync_objects(objects).await?;
        Ok(there)
    }
}
