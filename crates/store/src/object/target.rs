//! The state of one open target; how it starts, fails and stops.

use super::clock_cache::ClockCache;
use super::counters::Counters;
use super::damage_list::DamageList;
use super::dirs::Dirs;
use super::dirty_queue::DirtyQueue;
use super::error::{OpenError, error_chain};
use super::flush_checksums::FlushMode;
use super::free_space::FreeSpace;
use super::limits::{CLEAN_REGIONS_CACHED, OBJECTS_CACHED, STOP_FLUSH_TIME};
use super::lost_found::LostFoundUsage;
use super::objects::TargetOptions;
use super::records::{Records, RecordsError};
use super::superblock::Superblock;
use super::table::ObjectTable;
use gupfs_platform::{Disk, DiskError, DiskLock, Platform, Task};
use gupfs_proto::cluster::{OwnerMark, TargetIdentity};
use gupfs_proto::error::ObjectDamage;
use gupfs_proto::{FsError, Incarnation, MapEpoch, ObjectId, OstId, WriteVerifier};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use tokio::sync::watch;

pub(super) struct Target {
    pub ost: OstId,
    pub incarnation: Incarnation,
    write_verifier: AtomicU64,
    pub disk: Disk,
    pub platform: Platform,
    pub table: ObjectTable,
    pub dirs: Dirs,
    pub free_space: FreeSpace,
    pub counters: Counters,
    pub damage: DamageList,
    pub records: Records,
    /// Number of dirty regions in memory.
    pub dirty_regions: Arc<AtomicUsize>,
    pub dirty_queue: DirtyQueue,
    /// Clean regions in memory.
    pub clean_regions: Mutex<ClockCache<(ObjectId, u64)>>,
    pub background_tasks: Mutex<Vec<Task<()>>>,
    /// Number of objects, once they are counted.
    pub object_count: AtomicU64,
    superblock: Arc<tokio::sync::Mutex<Superblock>>,
    /// The identity in the superblock on disk, and what the owner reported since.
    identity: Mutex<TargetIdentity>,
    /// The number of this open instance.
    pub open_instance: u64,
    adopted: AtomicBool,
    /// The identity stays as it was found, because a tool has opened the target.
    stamp_frozen: AtomicBool,
    /// The previous open instance was stopped cleanly.
    pub was_stopped: bool,
    pub lost_found: Mutex<LostFoundUsage>,
    map_epoch: AtomicU64,
    /// Number of changing operations at the last stamp.
    changes_stamped: AtomicU64,
    /// The reason why the target is closed.
    close_reason: OnceLock<String>,
    /// Set once the write verifier is retired; true when the superblock records it, or when writing it has failed.
    retirement: OnceLock<watch::Receiver<bool>>,
    /// Held by the task that syncs so that files can be closed.
    pub closing_files: tokio::sync::Mutex<()>,
    /// Held by the task that syncs the whole file system.
    pub syncing_file_system: tokio::sync::Mutex<()>,
    /// The target was refused: closed because of its identity, not because of a failure.
    refused: AtomicBool,
    _lock: DiskLock,
}

impl Target {
    pub async fn start(
        disk: Disk,
        platform: Platform,
        lock: DiskLock,
        found: Superblock,
        options: TargetOptions,
    ) -> Result<Target, OpenError> {
        let open_files = options.open_files;
        let was_stopped = found.clean_stop;
        let found = found.for_start(disk.page_cache_id()?);
        let records = Records::open(&disk, &platform, &found, options).await?;
        let open_instance = new_instance_number(&platform, found.run);
        let identity = TargetIdentity {
            cluster: found.cluster,
            incarnation: found.incarnation,
            stamp: found.stamp,
            run: found.run,
            open_instance,
            stopped: was_stopped,
            owner: found.owner,
        };
        let dirty_regions: Arc<AtomicUsize> = Arc::default();
        let target = Target {
            ost: found.ost,
            incarnation: found.incarnation,
            write_verifier: AtomicU64::new(found.write_verifier.0),
            table: ObjectTable::new(OBJECTS_CACHED, open_files, Arc::clone(&dirty_regions)),
            records,
            dirty_regions,
            dirty_queue: DirtyQueue::default(),
            clean_regions: Mutex::new(ClockCache::new(CLEAN_REGIONS_CACHED)),
            background_tasks: Mutex::default(),
            dirs: Dirs::new(disk.clone()),
            free_space: FreeSpace::new(disk.clone(), platform.clock.clone()),
            counters: Counters::default(),
            damage: DamageList::default(),
            object_count: AtomicU64::new(found.objects),
            identity: Mutex::new(identity),
            open_instance,
            adopted: AtomicBool::new(false),
            stamp_frozen: AtomicBool::new(false),
            was_stopped,
            lost_found: Mutex::default(),
            map_epoch: AtomicU64::new(found.map_epoch.0),
            changes_stamped: AtomicU64::new(0),
            superblock: Arc::new(tokio::sync::Mutex::new(found)),
            close_reason: OnceLock::new(),
            retirement: OnceLock::new(),
            closing_files: tokio::sync::Mutex::new(()),
            syncing_file_system: tokio::sync::Mutex::new(()),
            refused: AtomicBool::new(false),
            _lock: lock,
            disk,
            platform,
        };
        if !was_stopped {
            let count = super::list::count(&target.disk).await?;
            target.object_count.store(count, Ordering::Relaxed);
        }
        Ok(target)
    }

    pub fn write_verifier(&self) -> WriteVerifier {
        WriteVerifier(self.write_verifier.load(Ordering::Acquire))
    }

    /// The caller knows that a verifier is retired which the superblock still has: takes the next one.
    pub async fn take_verifier_after(&self, retired: WriteVerifier) -> Result<(), FsError> {
        let mut superblock = self.superblock.lock().await;
        if superblock.write_verifier > retired {
            return Ok(());
        }
        superblock.write_verifier = WriteVerifier(retired.0 + 1);
        if let Err(error) = superblock.write(&self.disk).await {
            drop(superblock);
            return Err(self.sync_failed(&error));
        }
        self.write_verifier
            .store(superblock.write_verifier.0, Ordering::Release);
        Ok(())
    }

    /// Whether a sync has failed.
    pub fn is_verifier_retired(&self) -> bool {
        self.retirement.get().is_some()
    }

    pub fn identity(&self) -> TargetIdentity {
        *self.identity.lock()
    }

    pub fn is_adopted(&self) -> bool {
        self.adopted.load(Ordering::Acquire)
    }

    /// Marks the target adopted; returns false if it was already.
    pub fn set_adopted(&self) -> bool {
        !self.adopted.swap(true, Ordering::AcqRel)
    }

    /// From now on no write of the superblock raises the stamp.
    pub fn freeze_stamp(&self) {
        self.stamp_frozen.store(true, Ordering::Release);
    }

    pub fn note_owner_durable(&self, owner: &OwnerMark) {
        let mut identity = self.identity.lock();
        if identity.owner.is_same_instance(owner) {
            identity.owner.durable = identity.owner.durable.max(owner.durable);
        }
    }

    /// Fails until the target is adopted.
    pub fn check_adopted(&self) -> Result<(), FsError> {
        match self.is_adopted() {
            true => Ok(()),
            false => Err(FsError::TargetDown {
                ost: self.ost,
                reason: "the metadata server has not adopted this target yet".into(),
            }),
        }
    }

    pub fn note_map_epoch(&self, epoch: MapEpoch) {
        self.map_epoch.fetch_max(epoch.0, Ordering::Relaxed);
    }

    pub fn map_epoch(&self) -> u64 {
        self.map_epoch.load(Ordering::Relaxed)
    }

    /// Fails if the target is closed.
    pub fn check_open(&self) -> Result<(), FsError> {
        match self.close_reason.get() {
            None => Ok(()),
            Some(why) => Err(FsError::TargetDown {
                ost: self.ost,
                reason: why.clone(),
            }),
        }
    }

    pub fn close_reason(&self) -> Option<&str> {
        self.close_reason.get().map(String::as_str)
    }

    /// Closes the target until it is opened again.
    pub fn close(&self, why: impl Into<String>) {
        let why = why.into();
        tracing::error!(ost = self.ost.0, why, "target closed");
        // The first reason is the cause; later ones are its consequences.
        let _ = self.close_reason.set(why);
    }

    /// Closes the target because its data must not be used.
    pub fn refuse(&self, why: impl Into<String>) {
        self.refused.store(true, Ordering::Relaxed);
        self.close(why);
    }

    pub fn is_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }

    /// After a failed sync no data in the page cache is reliable: the target closes, and its next start takes another
    /// write verifier.
    pub fn sync_failed(&self, error: &DiskError) -> FsError {
        // Before the target is closed, so that a task that finds it closed sees the verifier retired.
        self.retirement.get_or_init(|| self.retire_verifier());
        self.close(format!("a sync failed: {}", error_chain(error)));
        self.check_open().expect_err("it was closed just now")
    }

    /// Records in the superblock that the next start must take another write verifier. Runs in a task of its own,
    /// because the disk may not respond.
    fn retire_verifier(&self) -> watch::Receiver<bool> {
        let (done, retired) = watch::channel(false);
        let (superblock, disk) = (self.superblock.clone(), self.disk.clone());
        self.platform.tasks.spawn("retire write verifier", async move {
            let mut superblock = superblock.lock().await;
            superblock.page_cache_id = 0;
            if let Err(error) = superblock.write(&disk).await {
                tracing::error!(%error, "the superblock could not record that a sync failed: clients that wrote before may not learn that their writes may be lost");
            }
            done.send_replace(true);
        });
        retired
    }

    /// Returns when the superblock records that the write verifier is retired, or when writing it has failed; at once
    /// if the verifier is valid.
    pub async fn wait_retirement_recorded(&self) {
        if let Some(retired) = self.retirement.get() {
            // An error means that the writing task is gone: then nothing more is written.
            let _ = retired.clone().wait_for(|done| *done).await;
        }
    }

    /// Without its records a target does not know which of its data is intact: it closes, unless the log only lacks
    /// space.
    pub fn records_failed(&self, error: &RecordsError) -> FsError {
        if matches!(error, RecordsError::NoSpace) {
            return FsError::NoSpace;
        }
        // The objects are on the same disk.
        if error.may_be_disk_error() {
            self.retirement.get_or_init(|| self.retire_verifier());
        }
        self.close(format!(
            "the log or index of its records failed: {}",
            error_chain(error)
        ));
        self.check_open().expect_err("it was closed just now")
    }

    /// Counts and lists the damage, and returns the error for it.
    pub fn report_damage(&self, object: ObjectId, what: ObjectDamage) -> FsError {
        if self.damage.add(object, what) {
            tracing::error!(ost = self.ost.0, %object, %what, "damaged object");
        }
        FsError::ObjectDamaged {
            ost: self.ost,
            object,
            damage: what,
        }
    }

    /// The error that a client gets when the disk fails an operation on this object.
    pub fn fs_error(&self, object: ObjectId, error: &DiskError) -> FsError {
        match super::error::fs_error(self.ost, object, error) {
            FsError::ObjectDamaged { damage: what, .. } => self.report_damage(object, what),
            other => other,
        }
    }

    pub async fn raise_stamp(&self) -> Result<(), FsError> {
        let changes = self.counters.writes.get() + self.counters.changes.get();
        if self.changes_stamped.swap(changes, Ordering::Relaxed) == changes {
            return Ok(());
        }
        self.raise_stamp_now().await
    }

    pub async fn raise_stamp_now(&self) -> Result<(), FsError> {
        self.write_superblock(SuperblockUpdate::stamp(false))
            .await
            .map_err(|error| self.sync_failed(&error))
    }

    pub async fn stop(&self) -> Result<(), FsError> {
        for task in self.background_tasks.lock().drain(..) {
            task.stop();
        }
        // Regions whose checksums are not flushed in time stay dirty.
        let flushed = tokio::select! {
            biased;
            flushed = self.flush_due_checksums(FlushMode::All) => flushed,
            () = self.platform.clock.sleep(STOP_FLUSH_TIME) => Ok(0),
        };
        if let Err(error @ FsError::TargetDown { .. }) = flushed {
            return Err(error);
        }
        self.sync_all().await?;
        let stopped = self.records.stop().await;
        stopped.map_err(|error| self.records_failed(&error))?;
        let written = self.write_superblock(SuperblockUpdate::stamp(true)).await;
        let _ = self.close_reason.set("the target was stopped".to_owned());
        written.map_err(|error| FsError::StoreFailed(error_chain(&error)))
    }

    /// Writes the superblock; durable when this returns.
    pub async fn write_superblock(&self, write: SuperblockUpdate) -> Result<(), DiskError> {
        let mut superblock = self.superblock.lock().await;
        let mut next = *superblock;
        next.stamp += u64::from(write.raise_stamp && !self.stamp_frozen.load(Ordering::Acquire));
        next.run = write.run.unwrap_or(next.run);
        next.owner = match write.owner {
            Some(owner) => owner,
            // The same owner, with what it reported since.
            None => self.identity().owner,
        };
        next.map_epoch = MapEpoch(self.map_epoch());
        next.clean_stop = write.clean_stop;
        next.objects = self.object_count.load(Ordering::Relaxed);
        next.write(&self.disk).await?;
        *superblock = next;
        let mut identity = self.identity.lock();
        identity.stamp = next.stamp;
        identity.run = next.run;
        identity.stopped = next.clean_stop;
        if !identity.owner.is_same_instance(&next.owner) {
            identity.owner = next.owner;
        }
        Ok(())
    }
}

/// The changes of one write of the superblock.
#[derive(Clone, Copy)]
pub(super) struct SuperblockUpdate {
    pub run: Option<u64>,
    pub owner: Option<OwnerMark>,
    pub raise_stamp: bool,
    pub clean_stop: bool,
}

impl SuperblockUpdate {
    fn stamp(clean_stop: bool) -> SuperblockUpdate {
        SuperblockUpdate {
            run: None,
            owner: None,
            raise_stamp: true,
            clean_stop,
        }
    }
}

/// A random number; never 0, which means no instance, and never the number that was found.
fn new_instance_number(platform: &Platform, found: u64) -> u64 {
    loop {
        let number = platform.random.u64();
        if number != 0 && number != found {
            return number;
        }
    }
}

/// Dropping a target without `stop` has the effect of a kill of its process.
impl Drop for Target {
    fn drop(&mut self) {
        for task in self.background_tasks.get_mut().drain(..) {
            task.stop();
        }
    }
}
