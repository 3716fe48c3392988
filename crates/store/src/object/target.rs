//! `Target`: one open target, composed of its parts; how it starts and stops.

use super::access::{ReadAccess, WriteAccess};
use super::background_tasks::BackgroundTasks;
use super::clean_regions::CleanRegions;
use super::closing::ClosingState;
use super::counters::{Counters, ObjectCount};
use super::damage_list::DamageList;
use super::dirs::Dirs;
use super::dirty_log::DirtyLog;
use super::dirty_queue::DirtyQueue;
use super::error::{OpenError, error_chain};
use super::files::ObjectFiles;
use super::flush_checksums::{ChecksumFlusher, FlushMode};
use super::free_space::FreeSpace;
use super::identity::{Identity, SuperblockUpdate};
use super::limits::{OBJECTS_CACHED, STOP_FLUSH_TIME};
use super::listing::ObjectListing;
use super::loader::ObjectLoader;
use super::lost_found::LostFound;
use super::options::TargetOptions;
use super::reader::ObjectReader;
use super::records::Records;
use super::recover_writes::recover_writes;
use super::region_loader::RegionLoader;
use super::scrubber::Scrubber;
use super::superblock::{Superblock, SuperblockFile};
use super::syncer::ObjectSyncer;
use super::table::ObjectTable;
use super::write_slots::WriteSlots;
use gupfs_platform::{Disk, DiskLock, Platform};
use gupfs_proto::FsError;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

/// Operations on objects reach the parts through `reading` and `writing` only. Dropping a target without `stop` has the
/// effect of a kill of its process.
pub(super) struct Target {
    // First, so that it is dropped first: the tasks end before the parts that they use.
    pub background_tasks: BackgroundTasks,
    pub reading: ReadAccess,
    pub writing: WriteAccess,
    pub identity: Identity,
    pub closing: Arc<ClosingState>,
    pub table: Arc<ObjectTable>,
    pub records: Arc<Records>,
    pub dirty_queue: Arc<DirtyQueue>,
    pub syncer: Arc<ObjectSyncer>,
    pub flusher: Arc<ChecksumFlusher>,
    pub scrubber: Scrubber,
    pub lost_found: Arc<LostFound>,
    pub platform: Platform,
    // Last, so that another instance can lock the target only after all parts are dropped.
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
        let superblock = SuperblockFile::new(disk.clone(), found);
        let closing = Arc::new(ClosingState::new(
            found.ost,
            superblock.clone(),
            platform.tasks.clone(),
        ));
        let records = Records::open(&disk, &platform, &found, options, Arc::clone(&closing));
        let records = Arc::new(records.await?);
        let write_slots = WriteSlots::open(&disk, Arc::clone(&closing)).await?;
        let object_count = Arc::new(ObjectCount::new(found.objects));
        let identity = Identity::new(
            &found,
            was_stopped,
            &platform,
            superblock,
            Arc::clone(&object_count),
            Arc::clone(&closing),
        );
        let dirty_regions: Arc<AtomicUsize> = Arc::default();
        let target = Parts {
            table: Arc::new(ObjectTable::new(
                OBJECTS_CACHED,
                open_files,
                Arc::clone(&dirty_regions),
            )),
            dirty_queue: Arc::new(DirtyQueue::new(dirty_regions)),
            damage: Arc::new(DamageList::new(found.ost)),
            counters: Arc::default(),
            disk,
            platform,
            closing,
            records,
            write_slots: Arc::new(write_slots),
            object_count,
        }
        .compose(identity, lock);
        let (slots, verifier) = (
            &target.writing.write_slots,
            target.identity.write_verifier(),
        );
        recover_writes(slots, &target.reading, verifier).await;
        if !was_stopped {
            let count = target.reading.listing.count().await?;
            target.reading.object_count.set_counted(count);
        }
        Ok(target)
    }

    /// Raises the stamp if anything changed since the last one.
    pub async fn raise_stamp(&self) -> Result<(), FsError> {
        let changes = self.writing.counters.all_changes();
        self.identity.raise_stamp(changes).await
    }

    pub async fn stop(&self) -> Result<(), FsError> {
        self.background_tasks.stop();
        // Regions whose checksums are not flushed in time stay dirty.
        let flushed = tokio::select! {
            biased;
            flushed = self.flusher.flush_due(FlushMode::All) => flushed,
            () = self.platform.clock.sleep(STOP_FLUSH_TIME) => Ok(0),
        };
        if let Err(error @ FsError::TargetDown { .. }) = flushed {
            return Err(error);
        }
        self.syncer.sync_all().await?;
        self.syncer.sync_write_slots().await?;
        self.records.stop().await?;
        let written = self.identity.write(SuperblockUpdate::stamp(true)).await;
        self.closing.close_stopped();
        written.map_err(|error| FsError::StoreFailed(error_chain(&error)))
    }
}

/// The parts that do not use other parts, and those that several others use.
struct Parts {
    disk: Disk,
    platform: Platform,
    closing: Arc<ClosingState>,
    records: Arc<Records>,
    write_slots: Arc<WriteSlots>,
    table: Arc<ObjectTable>,
    dirty_queue: Arc<DirtyQueue>,
    damage: Arc<DamageList>,
    counters: Arc<Counters>,
    object_count: Arc<ObjectCount>,
}

impl Parts {
    fn compose(self, identity: Identity, lock: DiskLock) -> Target {
        let clock = &self.platform.clock;
        let dirs = Arc::new(Dirs::new(self.disk.clone()));
        let files = Arc::new(ObjectFiles::new(
            self.disk.clone(),
            self.table.clone(),
            dirs.clone(),
            self.object_count.clone(),
            self.closing.clone(),
        ));
        let syncer = Arc::new(ObjectSyncer::new(
            self.disk.clone(),
            self.table.clone(),
            dirs,
            files.clone(),
            self.records.clone(),
            self.write_slots.clone(),
            self.closing.clone(),
        ));
        let reader = Arc::new(ObjectReader::new(files.clone(), self.damage.clone()));
        let clean = Arc::new(CleanRegions::new(self.table.clone()));
        let flusher = Arc::new(ChecksumFlusher {
            records: self.records.clone(),
            clean: clean.clone(),
            queue: self.dirty_queue.clone(),
            syncer: syncer.clone(),
            reader: reader.clone(),
            counters: self.counters.clone(),
            map_epoch: identity.map_epoch.clone(),
            clock: clock.clone(),
        });
        let reading = self.reading(&identity, &files, &syncer, clean, reader);
        let writing = self.writing(&reading, files, &flusher);
        let scrubber = self.scrubber(&reading, &flusher);
        Target {
            background_tasks: BackgroundTasks::default(),
            lost_found: reading.lost_found.clone(),
            reading,
            writing,
            identity,
            closing: self.closing,
            table: self.table,
            records: self.records,
            dirty_queue: self.dirty_queue,
            syncer,
            flusher,
            scrubber,
            platform: self.platform,
            _lock: lock,
        }
    }

    fn reading(
        &self,
        identity: &Identity,
        files: &Arc<ObjectFiles>,
        syncer: &Arc<ObjectSyncer>,
        clean: Arc<CleanRegions>,
        reader: Arc<ObjectReader>,
    ) -> ReadAccess {
        let clock = &self.platform.clock;
        ReadAccess {
            counters: self.counters.clone(),
            objects: Arc::new(ObjectLoader::new(
                self.table.clone(),
                files.clone(),
                self.records.clone(),
                syncer.clone(),
                self.damage.clone(),
            )),
            regions: Arc::new(RegionLoader::new(
                self.records.clone(),
                clean,
                self.dirty_queue.clone(),
            )),
            reader,
            damage: self.damage.clone(),
            listing: ObjectListing::new(self.disk.clone()),
            free_space: Arc::new(FreeSpace::new(
                self.disk.clone(),
                clock.clone(),
                identity.open_instance,
            )),
            lost_found: Arc::new(LostFound::new(
                identity.ost,
                self.disk.clone(),
                clock.clone(),
            )),
            object_count: self.object_count.clone(),
        }
    }

    fn writing(
        &self,
        reading: &ReadAccess,
        files: Arc<ObjectFiles>,
        flusher: &Arc<ChecksumFlusher>,
    ) -> WriteAccess {
        let clock = &self.platform.clock;
        WriteAccess {
            counters: self.counters.clone(),
            objects: reading.objects.clone(),
            regions: reading.regions.clone(),
            dirty_log: DirtyLog::new(
                self.records.clone(),
                reading.regions.clone(),
                self.dirty_queue.clone(),
                self.counters.clone(),
                clock.clone(),
            ),
            reader: reading.reader.clone(),
            files,
            write_slots: self.write_slots.clone(),
            flusher: flusher.clone(),
            free_space: reading.free_space.clone(),
            damage: self.damage.clone(),
            clock: clock.clone(),
        }
    }

    fn scrubber(&self, reading: &ReadAccess, flusher: &Arc<ChecksumFlusher>) -> Scrubber {
        Scrubber {
            listing: reading.listing.clone(),
            objects: reading.objects.clone(),
            regions: reading.regions.clone(),
            queue: self.dirty_queue.clone(),
            records: self.records.clone(),
            reader: reading.reader.clone(),
            flusher: flusher.clone(),
            counters: self.counters.clone(),
            closing: self.closing.clone(),
            clock: self.platform.clock.clone(),
        }
    }
}
