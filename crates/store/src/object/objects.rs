//! `Objects`: the handle of one target; initializes, opens and stops it.

use super::access::{ReadAccess, WriteAccess};
use super::adopt;
use super::error::{OpenError, OpenErrorKind};
use super::limits::LOG_SEGMENT;
use super::options::{OpenFileLimits, TargetId, TargetOptions};
use super::paths::OBJECTS_DIR;
use super::records::Records;
use super::superblock::Superblock;
use super::target::Target;
use gupfs_platform::{Disk, DiskLock, Platform};
use gupfs_proto::cluster::{OwnerMark, TargetIdentity};
use gupfs_proto::{FsError, Incarnation, MapEpoch, OstId, WriteVerifier};
use std::sync::Arc;

/// One target. Clones are handles of the same target.
#[derive(Clone)]
pub struct Objects(Arc<Target>);

impl Objects {
    /// Initializes an empty target in a directory that holds none; durable when this returns.
    ///
    /// # Errors
    /// `Exists` if the directory holds a target, `InUse` if another process has it locked, `Disk` if the disk failed.
    pub async fn init(
        disk: &Disk,
        platform: &Platform,
        id: TargetId,
    ) -> Result<Incarnation, OpenError> {
        let incarnation = Incarnation(platform.random.u64());
        Objects::init_as(disk, platform, id, incarnation).await?;
        Ok(incarnation)
    }

    /// The identity and the incarnation of the target in a directory; None if it holds none.
    ///
    /// # Errors
    /// `Damaged` or `Newer` if the superblock cannot be read, `Disk` if the disk failed.
    pub async fn peek(disk: &Disk) -> Result<Option<(TargetId, Incarnation)>, OpenError> {
        let found = Superblock::read(disk).await?;
        Ok(found.map(|found| {
            let id = TargetId {
                cluster: found.cluster,
                ost: found.ost,
            };
            (id, found.incarnation)
        }))
    }

    /// The same as `init`, with an incarnation that the caller chose.
    ///
    /// # Errors
    /// As `init`.
    pub async fn init_as(
        disk: &Disk,
        platform: &Platform,
        id: TargetId,
        incarnation: Incarnation,
    ) -> Result<(), OpenError> {
        let _lock = disk.lock_exclusive(LOCK).await?;
        if let Some(found) = Superblock::read(disk).await? {
            return Err(OpenError::new(
                OpenErrorKind::Exists,
                format!(
                    "the directory already holds ost{} of cluster {}",
                    found.ost, found.cluster
                ),
            ));
        }
        disk.create_dir(OBJECTS_DIR).await?;
        Records::init(disk).await?;
        let superblock = Superblock {
            cluster: id.cluster,
            ost: id.ost,
            incarnation,
            created: platform.clock.now(),
            stamp: 0,
            map_epoch: MapEpoch(0),
            clean_stop: true,
            objects: 0,
            write_verifier: WriteVerifier(1),
            page_cache_id: 0,
            required: 0,
            optional: 0,
            run: 0,
            owner: OwnerMark::default(),
        };
        // Written last; writing it also syncs the directory that holds the other entries. So a directory with a
        // superblock is a complete target.
        superblock.write(disk).await?;
        Ok(())
    }

    /// Opens the target on a real disk, for this process alone. It can be read; nothing on disk changes before it is
    /// adopted (`adopt`).
    ///
    /// # Errors
    /// `Absent` if the directory holds no target, `Foreign` if it holds another one, `InUse` if another process has it
    /// open, `Damaged` or `Newer` if its superblock cannot be read, `Records` if its records cannot, `Disk` if the disk
    /// failed.
    pub async fn open(
        disk: Disk,
        platform: Platform,
        id: TargetId,
        files: OpenFileLimits,
    ) -> Result<Objects, OpenError> {
        let (found, lock) = Objects::lock_and_check(&disk, id).await?;
        let options = TargetOptions {
            index: Records::open_index(&disk, &platform, files.index).await?,
            log_segment: LOG_SEGMENT,
            open_files: files.objects,
        };
        Objects::start(disk, platform, lock, found, options).await
    }

    /// The same with another index for the records: simulations have theirs in memory.
    ///
    /// # Errors
    /// As `open`.
    pub async fn open_with(
        disk: Disk,
        platform: Platform,
        id: TargetId,
        options: TargetOptions,
    ) -> Result<Objects, OpenError> {
        let (found, lock) = Objects::lock_and_check(&disk, id).await?;
        Objects::start(disk, platform, lock, found, options).await
    }

    /// Takes the target's lock and checks its identity.
    async fn lock_and_check(
        disk: &Disk,
        id: TargetId,
    ) -> Result<(Superblock, DiskLock), OpenError> {
        let lock = disk.lock_exclusive(LOCK).await?;
        let Some(found) = Superblock::read(disk).await? else {
            return Err(OpenError::new(
                OpenErrorKind::Absent,
                "the directory holds no target: check that its disk is mounted",
            ));
        };
        if (found.cluster, found.ost) != (id.cluster, id.ost) {
            return Err(OpenError::new(
                OpenErrorKind::Foreign,
                format!(
                    "the directory holds ost{} of cluster {}, not ost{} of cluster {}",
                    found.ost, found.cluster, id.ost, id.cluster
                ),
            ));
        }
        Ok((found, lock))
    }

    async fn start(
        disk: Disk,
        platform: Platform,
        lock: DiskLock,
        found: Superblock,
        options: TargetOptions,
    ) -> Result<Objects, OpenError> {
        let target = Target::start(disk, platform, lock, found, options).await?;
        Ok(Objects(Arc::new(target)))
    }

    pub fn ost(&self) -> OstId {
        self.0.identity.ost
    }

    /// The write verifier (as in NFS): it changes when acknowledged writes that were not synced may be lost. A write
    /// that was acknowledged under one verifier and synced under another may be lost.
    pub fn write_verifier(&self) -> WriteVerifier {
        self.0.identity.write_verifier()
    }

    pub fn incarnation(&self) -> Incarnation {
        self.0.identity.incarnation
    }

    /// The durable stamp: it rises when the target is adopted, when it is stopped cleanly, and once a minute while it
    /// changes.
    pub fn stamp(&self) -> u64 {
        self.0.identity.known().stamp
    }

    /// The identity that the metadata server compares with the one that it remembers.
    pub fn identity(&self) -> TargetIdentity {
        self.0.identity.known()
    }

    /// The metadata server has confirmed, under this owner mark, that the target is the one it remembers. This writes
    /// the open instance into the superblock; then the target serves. A later call records a newer owner.
    ///
    /// # Errors
    /// `TargetDown` if the target knows a later owner, or cannot write its superblock.
    pub async fn adopt(&self, owner: OwnerMark) -> Result<(), FsError> {
        adopt::adopt(&self.0, owner).await
    }

    /// Serves without being adopted, and leaves the target's identity as it was found: for tools, while no server runs.
    ///
    /// # Errors
    /// `TargetDown` if the target is closed, or cannot write its superblock.
    pub async fn serve_unadopted(&self) -> Result<(), FsError> {
        adopt::serve_unadopted(&self.0).await
    }

    /// Notes the last durable batch of the owner's log, as the owner reported it; written to disk with the next stamp.
    pub fn note_owner_durable(&self, owner: &OwnerMark) {
        self.0.identity.note_owner_durable(owner);
    }

    /// Raises the stamp even if nothing has changed: another server opened a copy that has the current stamp.
    ///
    /// # Errors
    /// `TargetDown` if the target is closed or not adopted, or cannot write its superblock.
    pub async fn raise_stamp_now(&self) -> Result<(), FsError> {
        self.serving()?.identity.raise_stamp_now().await
    }

    /// Whether the target is adopted (`adopt`).
    pub fn is_adopted(&self) -> bool {
        self.0.identity.is_adopted()
    }

    /// The failure that closed the target until it is opened again, if any.
    pub fn failure(&self) -> Option<&str> {
        let closing = &self.0.closing;
        match closing.is_refused() {
            true => None,
            false => closing.reason(),
        }
    }

    /// Whether a failed sync has retired the write verifier.
    pub fn is_verifier_retired(&self) -> bool {
        self.0.closing.is_verifier_retired()
    }

    /// Takes a new write verifier if the current one, or a later one, is known to be retired. Must be called before the
    /// target serves, since replies carry the verifier.
    ///
    /// # Errors
    /// `TargetDown` if the target is closed or not adopted, or cannot write its superblock.
    pub async fn take_verifier_after(&self, retired: WriteVerifier) -> Result<(), FsError> {
        self.serving()?.identity.take_verifier_after(retired).await
    }

    /// Returns when the superblock records that a failed sync has retired the write verifier, or when writing it has
    /// failed; at once if no sync has failed.
    pub async fn wait_retirement_recorded(&self) {
        self.0.closing.wait_retirement_recorded().await;
    }

    /// Whether the target was refused (`refuse`).
    pub fn is_refused(&self) -> bool {
        self.0.closing.is_refused()
    }

    /// Closes the target, because the caller knows that its data must not be used.
    pub fn refuse(&self, why: impl Into<String>) {
        self.0.closing.refuse(why);
    }

    /// Notes the newest cluster map; durable with the next stamp.
    pub fn note_map_epoch(&self, epoch: MapEpoch) {
        self.0.identity.map_epoch.note(epoch);
    }

    /// Raises the stamp if anything changed since the last one; a background task calls this about once a minute.
    ///
    /// # Errors
    /// As `raise_stamp_now`.
    pub async fn raise_stamp(&self) -> Result<(), FsError> {
        self.serving()?.raise_stamp().await
    }

    /// Syncs everything and records a clean stop in the superblock; the target serves nothing after this. Leaves a
    /// target that was refused or never adopted unchanged.
    ///
    /// # Errors
    /// `TargetDown` if the target is closed or a sync fails, `StoreFailed` if the superblock cannot be written.
    pub async fn stop(&self) -> Result<(), FsError> {
        if self.is_refused() || !self.is_adopted() {
            return Ok(());
        }
        self.serving()?.stop().await
    }

    /// The target, if it serves.
    pub(super) fn serving(&self) -> Result<&Target, FsError> {
        self.0.closing.check_open()?;
        self.0.identity.check_adopted()?;
        Ok(&self.0)
    }

    /// What reads may use, if the target can be read.
    pub(super) fn readable(&self) -> Result<&ReadAccess, FsError> {
        self.0.closing.check_open()?;
        Ok(&self.0.reading)
    }

    /// What changes of objects may use, if the target serves.
    pub(super) fn writable(&self) -> Result<&WriteAccess, FsError> {
        Ok(&self.serving()?.writing)
    }

    /// The target, whether or not it serves.
    pub(super) fn target(&self) -> &Target {
        &self.0
    }
}

const LOCK: &str = "lock";
