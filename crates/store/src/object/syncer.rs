//! Makes the data and the names of objects survive a power loss.

use super::closing::ClosingState;
use super::dirs::Dirs;
use super::files::ObjectFiles;
use super::join::join_all;
use super::limits::{SYNC_WHOLE_FROM, SYNCS_AT_ONCE};
use super::object::Object;
use super::paths::{OBJECTS_DIR, dir_path};
use super::records::Records;
use super::sync_point::SyncPoint;
use super::table::ObjectTable;
use super::write_slots::{UnsyncedWrite, WriteSlots};
use gupfs_platform::{Disk, DiskError, DiskErrorKind};
use gupfs_proto::FsError;
use std::collections::BTreeSet;
use std::sync::Arc;

pub(super) struct ObjectSyncer {
    disk: Disk,
    table: Arc<ObjectTable>,
    dirs: Arc<Dirs>,
    files: Arc<ObjectFiles>,
    records: Arc<Records>,
    write_slots: Arc<WriteSlots>,
    closing: Arc<ClosingState>,
    /// Held by the task that syncs so that files can be closed.
    closing_files: tokio::sync::Mutex<()>,
    /// Held by the task that syncs the whole file system.
    syncing_file_system: tokio::sync::Mutex<()>,
}

impl ObjectSyncer {
    pub fn new(
        disk: Disk,
        table: Arc<ObjectTable>,
        dirs: Arc<Dirs>,
        files: Arc<ObjectFiles>,
        records: Arc<Records>,
        write_slots: Arc<WriteSlots>,
        closing: Arc<ClosingState>,
    ) -> ObjectSyncer {
        ObjectSyncer {
            disk,
            table,
            dirs,
            files,
            records,
            write_slots,
            closing,
            closing_files: tokio::sync::Mutex::new(()),
            syncing_file_system: tokio::sync::Mutex::new(()),
        }
    }

    /// Syncs data and names concurrently: the journal of the file system commits them together.
    pub async fn sync_objects(&self, objects: Vec<Arc<Object>>) -> Result<(), FsError> {
        tracing::trace!(target: "walk", file = file!(), "sync_objects");
        let dirs: BTreeSet<String> = objects.iter().map(|object| dir_path(object.id)).collect();
        let data: Vec<_> = objects
            .iter()
            .map(|object| self.sync_data(object))
            .collect();
        let names: Vec<_> = dirs.iter().map(|dir| self.sync_names(dir)).collect();
        // The record of a removed object must be gone durably: if it came back, it would report the object as lost.
        let gone = objects
            .iter()
            .map(|object| object.state())
            .filter(|state| !state.exists())
            .map(|state| state.regions.records_deleted)
            .max();
        if let Some(gone) = gone {
            self.records.make_durable(gone).await?;
        }
        let (data, names) = tokio::join!(
            join_all(data, SYNCS_AT_ONCE),
            join_all(names, SYNCS_AT_ONCE)
        );
        data.and(names)
    }

    /// The same for so many objects that one sync of the whole file system is cheaper. Leaves a few unsynced objects to
    /// a later sync.
    pub async fn sync_many(&self, objects: &[Arc<Object>]) -> Result<(), FsError> {
        let unsynced = objects
            .iter()
            .filter(|object| !object.data_sync.is_synced());
        if unsynced.count() < SYNC_WHOLE_FROM {
            return Ok(());
        }
        if !self.disk.syncfs_reports_errors() {
            return self.sync_objects(objects.to_vec()).await;
        }
        let dirs: BTreeSet<String> = objects.iter().map(|object| dir_path(object.id)).collect();
        let dirs: Vec<_> = dirs
            .iter()
            .flat_map(|dir| self.dirs.sync_points(dir))
            .collect();
        let points = || {
            let data = objects.iter().map(|object| &object.data_sync);
            data.chain(dirs.iter().map(|dir| &**dir))
        };
        // Of two concurrent calls the kernel reports an error to one only; the other would take that for success, so
        // only one call runs at a time.
        let _guard = self.syncing_file_system.lock().await;
        let covered: Vec<u64> = points().map(SyncPoint::current_modification).collect();
        let numbered = objects.iter().map(|object| object.id);
        let numbered: Vec<_> = numbered
            .flat_map(|id| self.write_slots.unsynced_writes(id))
            .collect();
        self.run_sync(async || self.disk.syncfs().await).await?;
        self.record_synced(&numbered).await?;
        points()
            .zip(covered)
            .for_each(|(point, covered)| point.note_synced(covered));
        Ok(())
    }

    /// Makes the calling operation help when too many files are open: a file with unsynced bytes cannot be closed, nor
    /// one of which the target does not know whether it has some.
    pub async fn sync_if_many_open(&self) -> Result<(), FsError> {
        if !self.table.has_too_many_open() {
            return Ok(());
        }
        let _guard = self.closing_files.lock().await;
        if !self.table.has_too_many_open() {
            return Ok(());
        }
        self.sync_many(&self.table.all()).await?;
        self.table.close_half();
        Ok(())
    }

    /// Syncs all objects with unsynced changes.
    pub async fn sync_all(&self) -> Result<(), FsError> {
        let unsynced = |object: &Arc<Object>| !object.data_sync.is_synced();
        let objects = self.table.all().into_iter().filter(unsynced).collect();
        self.sync_objects(objects).await
    }

    /// Makes the names in an object directory durable, and the directory's own name.
    pub async fn sync_names(&self, dir: &str) -> Result<(), FsError> {
        let sync = async |dir: &str| match self.disk.sync_dir(dir).await {
            // No object of this directory was ever created.
            Err(error) if error.kind == DiskErrorKind::NotFound => Ok(()),
            other => other,
        };
        for point in [dir, OBJECTS_DIR] {
            self.dirs
                .sync_point(point)
                .ensure_synced(|| self.run_sync(async || sync(point).await))
                .await?;
        }
        Ok(())
    }

    async fn sync_data(&self, object: &Object) -> Result<(), FsError> {
        let sync = async || {
            let segments: Vec<u32> = object.state().segments.keys().copied().collect();
            for segment in segments {
                if let Some(file) = self.files.open_segment(object, segment).await? {
                    file.sync_data().await?;
                }
            }
            Ok(())
        };
        let sync_with_numbers = async || {
            let numbered = self.write_slots.unsynced_writes(object.id);
            self.run_sync(sync).await?;
            self.record_synced(&numbered).await
        };
        object.data_sync.ensure_synced(sync_with_numbers).await
    }

    /// Records that the bytes of these numbered writes are durable, before their objects count as synced. Without that record a power
    /// loss would let a repetition of such a write overwrite a later one that was synced.
    async fn record_synced(&self, numbered: &[UnsyncedWrite]) -> Result<(), FsError> {
        if numbered.is_empty() {
            return Ok(());
        }
        let record = async || self.write_slots.write_synced(numbered).await;
        self.run_sync(record).await?;
        self.sync_write_slots().await?;
        self.write_slots.forget_synced(numbered);
        Ok(())
    }

    /// Makes the slot file durable.
    pub async fn sync_write_slots(&self) -> Result<(), FsError> {
        let slots = &self.write_slots;
        let sync = async || slots.sync_file().await;
        slots.sync_point.ensure_synced(|| self.run_sync(sync)).await
    }

    /// Runs a sync unless one has failed; if it fails, closes the target before another task can begin a sync. The
    /// kernel reports an error once: the next sync of the same descriptor succeeds although bytes were lost.
    async fn run_sync(
        &self,
        sync: impl AsyncFnOnce() -> Result<(), DiskError>,
    ) -> Result<(), FsError> {
        self.closing.check_open()?;
        match sync().await {
            Ok(()) => self.closing.check_open(),
            Err(error) => Err(self.closing.sync_failed(&error)),
        }
    }
}
