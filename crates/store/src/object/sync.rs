//! sync: what was written to some objects, their names and their removal survive a power cut.

use super::Objects;
use super::limits::{SYNC_WHOLE_FROM, SYNCS_AT_ONCE};
use super::object::Object;
use super::place::{TOP, dir_of};
use super::sync_point::SyncPoint;
use super::target::Target;
use super::together::all;
use gupfs_platform::{DiskError, DiskErrorKind};
use gupfs_proto::{ObjectId, Refusal};
use std::collections::BTreeSet;
use std::sync::Arc;

impl Objects {
    /// Everything answered for these objects before is durable; for an object that was removed, the removal.
    pub async fn sync(&self, ids: &[ObjectId]) -> Result<(), Refusal> {
        let target = self.serving()?;
        let _under_way = target.counters.enter(&target.counters.syncs);
        let mut objects = Vec::new();
        for id in ids {
            objects.push(target.object(*id).await?);
        }
        target.sync_objects(objects).await
    }

    /// Which of these objects are there, in their order; those survive a power cut when this is answered.
    ///
    /// They are many, mostly, and were written a while ago: the chore that settles regions has synced most of them.
    pub async fn confirm(&self, ids: &[ObjectId]) -> Result<Vec<bool>, Refusal> {
        let target = self.serving()?;
        let _under_way = target.counters.enter(&target.counters.syncs);
        let mut there = Vec::with_capacity(ids.len());
        let mut objects = Vec::new();
        for id in ids {
            let object = target.object(*id).await?;
            let exists = object.state().exists();
            there.push(exists);
            if exists {
                objects.push(object);
            }
        }
        target.sync_many(&objects).await?;
        target.sync_objects(objects).await?;
        Ok(there)
    }
}

impl Target {
    /// Data and names side by side: the journal of the file system commits them together.
    pub async fn sync_objects(&self, objects: Vec<Arc<Object>>) -> Result<(), Refusal> {
        let dirs: BTreeSet<String> = objects.iter().map(|object| dir_of(object.id)).collect();
        let data: Vec<_> = objects
            .iter()
            .map(|object| self.sync_data(object))
            .collect();
        let names: Vec<_> = dirs.iter().map(|dir| self.sync_names(dir)).collect();
        // Of an object that was removed: a record that came back would say that it was lost.
        let gone = objects
            .iter()
            .map(|object| object.state())
            .filter(|state| !state.exists())
            .map(|state| state.forgotten)
            .max();
        if let Some(gone) = gone {
            self.records_durable(gone).await?;
        }
        let (data, names) = tokio::join!(all(data, SYNCS_AT_ONCE), all(names, SYNCS_AT_ONCE));
        data.and(names)
    }

    /// The same for so many objects that one sync of the whole file system is cheaper; a few are left for later.
    pub async fn sync_many(&self, objects: &[Arc<Object>]) -> Result<(), Refusal> {
        let unsynced = objects.iter().filter(|object| !object.data.is_synced());
        if unsynced.count() < SYNC_WHOLE_FROM {
            return Ok(());
        }
        if !self.disk.sync_everything_tells() {
            return self.sync_objects(objects.to_vec()).await;
        }
        let dirs: BTreeSet<String> = objects.iter().map(|object| dir_of(object.id)).collect();
        let dirs: Vec<_> = dirs.iter().flat_map(|dir| self.dirs.points(dir)).collect();
        let points = || {
            let data = objects.iter().map(|object| &object.data);
            data.chain(dirs.iter().map(|dir| &**dir))
        };
        // An error is told to one of two calls that are under way together: the other must not take that for success.
        let _alone = self.syncing_whole.lock().await;
        let covered: Vec<u64> = points().map(SyncPoint::covered_from_now).collect();
        self.synced(async || self.disk.sync_everything().await)
            .await?;
        points()
            .zip(covered)
            .for_each(|(point, covered)| point.reached(covered));
        Ok(())
    }

    /// Makes whoever comes help when more files are open than there should be: one with unsynced bytes cannot be closed,
    /// nor one of which it is not known.
    pub async fn sync_if_many_open(&self) -> Result<(), Refusal> {
        if !self.table.has_many_open() {
            return Ok(());
        }
        let _turn = self.closing.lock().await;
        if !self.table.has_many_open() {
            return Ok(());
        }
        self.sync_many(&self.table.all()).await?;
        self.table.close_some();
        Ok(())
    }

    /// All objects with something unsynced.
    pub async fn sync_all(&self) -> Result<(), Refusal> {
        let unsynced = |object: &Arc<Object>| !object.data.is_synced();
        let objects = self.table.all().into_iter().filter(unsynced).collect();
        self.sync_objects(objects).await
    }

    /// Makes the names in an object directory durable, and its own.
    pub async fn sync_names(&self, dir: &str) -> Result<(), Refusal> {
        let sync = async |dir: &str| match self.disk.sync_dir(dir).await {
            // No object of this directory was ever made.
            Err(error) if error.kind == DiskErrorKind::NotFound => Ok(()),
            other => other,
        };
        for point in [dir, TOP] {
            self.dirs
                .point(point)
                .reach(|| self.synced(async || sync(point).await))
                .await?;
        }
        Ok(())
    }

    async fn sync_data(&self, object: &Object) -> Result<(), Refusal> {
        let sync = async || {
            let segments: Vec<u32> = object.state().segments.keys().copied().collect();
            for segment in segments {
                if let Some(file) = self.file(object, segment).await? {
                    file.sync_data().await?;
                }
            }
            Ok(())
        };
        object.data.reach(|| self.synced(sync)).await
    }

    /// Runs a sync unless one has failed, and closes the target before anybody else can begin one if this fails. The kernel
    /// tells of an error once: the next sync of the same descriptor succeeds over the bytes that were lost.
    async fn synced(
        &self,
        sync: impl AsyncFnOnce() -> Result<(), DiskError>,
    ) -> Result<(), Refusal> {
        self.check()?;
        match sync().await {
            Ok(()) => self.check(),
            Err(error) => Err(self.sync_failed(&error)),
        }
    }
}
