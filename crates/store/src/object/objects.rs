//! `Objects`: one target, made, opened, stopped.

use super::adopt;
use super::error::{OpenError, OpenErrorKind};
use super::limits::{LOG_SEGMENT, OPEN_FILES_LEAST, OPEN_FILES_MOST};
use super::place::TOP;
use super::records::Records;
use super::superblock::Superblock;
use super::target::Target;
use crate::index::Index;
use gupfs_platform::{Disk, DiskLock, Platform};
use gupfs_proto::cluster::{OwnerMark, TargetIdentity};
use gupfs_proto::{ClusterId, Incarnation, MapEpoch, OstId, OstLife, Refusal};
use std::sync::Arc;

/// One target; clones are the same.
#[derive(Clone)]
pub struct Objects(Arc<Target>);

/// Which target a directory is, or is to become.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Whose {
    pub cluster: ClusterId,
    pub ost: OstId,
}

/// What keeps the target's records.
pub struct Engine {
    pub index: Index,
    /// Bytes of one segment of the log.
    pub log_segment: u64,
    /// Files of objects that may be open: half of them rest, and when all are open, all are synced so that some can be closed.
    pub open_files: usize,
}

/// Descriptors that a target may use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpenFiles {
    pub objects: usize,
    /// Tables of the index of its records.
    pub index: usize,
}

impl OpenFiles {
    /// More would not make it faster.
    pub const MOST: OpenFiles = OpenFiles {
        objects: OPEN_FILES_MOST,
        index: crate::index::FILES_MOST,
    };
    /// With fewer it would hinder itself.
    pub const LEAST: OpenFiles = OpenFiles {
        objects: OPEN_FILES_LEAST,
        index: crate::index::FILES_LEAST,
    };
}

impl Objects {
    /// Makes an empty target in a directory that holds none; durable when this returns.
    pub async fn init(
        disk: &Disk,
        platform: &Platform,
        whose: Whose,
    ) -> Result<Incarnation, OpenError> {
        let incarnation = Incarnation(platform.dice.u64());
        Objects::init_as(disk, platform, whose, incarnation).await?;
        Ok(incarnation)
    }

    /// Whose target a directory holds, and its incarnation; None if it holds none.
    pub async fn peek(disk: &Disk) -> Result<Option<(Whose, Incarnation)>, OpenError> {
        let found = Superblock::read(disk).await?;
        Ok(found.map(|found| {
            let whose = Whose {
                cluster: found.cluster,
                ost: found.ost,
            };
            (whose, found.incarnation)
        }))
    }

    /// The same as `init` with an incarnation that was chosen before.
    pub async fn init_as(
        disk: &Disk,
        platform: &Platform,
        whose: Whose,
        incarnation: Incarnation,
    ) -> Result<(), OpenError> {
        let _lock = disk.lock_exclusive(LOCK).await?;
        if let Some(found) = Superblock::read(disk).await? {
            return Err(OpenError::new(
                OpenErrorKind::Exists,
                format!(
                    "the directory holds ost{} of cluster {} already",
                    found.ost, found.cluster
                ),
            ));
        }
        disk.create_dir(TOP).await?;
        Records::init(disk).await?;
        let superblock = Superblock {
            cluster: whose.cluster,
            ost: whose.ost,
            incarnation,
            created: platform.clock.now(),
            stamp: 0,
            map_epoch: MapEpoch(0),
            clean_stop: true,
            objects: 0,
            life: OstLife(1),
            memory: 0,
            required: 0,
            optional: 0,
            run: 0,
            owner: OwnerMark::default(),
        };
        // Last, and it syncs the directory that holds all: a directory with a superblock is a whole target.
        superblock.write(disk).await?;
        Ok(())
    }

    /// Opens the target on a real disk, for this process alone. It can be looked at; nothing of it is changed before it is
    /// adopted (`adopt`).
    pub async fn open(
        disk: Disk,
        platform: Platform,
        whose: Whose,
        files: OpenFiles,
    ) -> Result<Objects, OpenError> {
        let (found, lock) = Objects::claim(&disk, whose).await?;
        let engine = Engine {
            index: Records::index(&disk, &platform, files.index).await?,
            log_segment: LOG_SEGMENT,
            open_files: files.objects,
        };
        Objects::start(disk, platform, lock, found, engine).await
    }

    /// The same with records that are kept otherwise: simulations have their index in memory.
    pub async fn open_with(
        disk: Disk,
        platform: Platform,
        whose: Whose,
        engine: Engine,
    ) -> Result<Objects, OpenError> {
        let (found, lock) = Objects::claim(&disk, whose).await?;
        Objects::start(disk, platform, lock, found, engine).await
    }

    /// Takes the target's lock, and sees whose it is.
    async fn claim(disk: &Disk, whose: Whose) -> Result<(Superblock, DiskLock), OpenError> {
        let lock = disk.lock_exclusive(LOCK).await?;
        let Some(found) = Superblock::read(disk).await? else {
            return Err(OpenError::new(
                OpenErrorKind::Absent,
                "the directory holds no target: is its disk mounted?",
            ));
        };
        if (found.cluster, found.ost) != (whose.cluster, whose.ost) {
            return Err(OpenError::new(
                OpenErrorKind::Foreign,
                format!(
                    "the directory holds ost{} of cluster {}, not ost{} of cluster {}",
                    found.ost, found.cluster, whose.ost, whose.cluster
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
        engine: Engine,
    ) -> Result<Objects, OpenError> {
        let target = Target::start(disk, platform, lock, found, engine).await?;
        Ok(Objects(Arc::new(target)))
    }

    pub fn ost(&self) -> OstId {
        self.0.ost
    }

    /// What is answered in one life and synced in the next may be lost.
    pub fn life(&self) -> OstLife {
        self.0.life()
    }

    pub fn incarnation(&self) -> Incarnation {
        self.0.incarnation
    }

    /// The stamp that is durable: it rises when it is adopted, at a clean stop, and now and then.
    pub fn stamp(&self) -> u64 {
        self.0.identity().stamp
    }

    /// Who it is: what the metadata server compares with what it remembers.
    pub fn identity(&self) -> TargetIdentity {
        self.0.identity()
    }

    /// Whoever knows has said that it is who it was, as this owner of the metadata: this opening is written into the
    /// superblock, and from then on the target serves. Of an owner after the one that adopted it, it remembers that.
    ///
    /// # Errors
    /// `TargetDown` if the target has heard of a later owner, or cannot write it down.
    pub async fn adopt(&self, owner: OwnerMark) -> Result<(), Refusal> {
        adopt::adopt(&self.0, owner).await
    }

    /// Serves on as what it was found, without a trace in its identity: for tools, while no server runs.
    pub async fn go_on(&self) -> Result<(), Refusal> {
        adopt::go_on(&self.0).await
    }

    /// How far the owner's log is durable, as it said just now; written down with the next stamp.
    pub fn hear_durable(&self, owner: &OwnerMark) {
        self.0.hear_durable(owner);
    }

    /// Raises the stamp although nothing may have changed: a copy with the one before was opened elsewhere.
    pub async fn raise_stamp_now(&self) -> Result<(), Refusal> {
        self.serving()?.raise_stamp_now().await
    }

    /// Whether it is known to be who it was (`adopt`).
    pub fn is_adopted(&self) -> bool {
        self.0.is_adopted()
    }

    /// Why it serves no more until it is opened again, if something failed.
    pub fn failure(&self) -> Option<&str> {
        match self.0.is_refused() {
            true => None,
            false => self.0.down(),
        }
    }

    /// Whether a failed sync has ended its life.
    pub fn is_life_over(&self) -> bool {
        self.0.is_life_over()
    }

    /// Begins another life if this one, or a later one, is known to be over. Before anything is served: answers name the life they
    /// were done in.
    pub async fn begin_life_after(&self, over: OstLife) -> Result<(), Refusal> {
        self.serving()?.begin_life_after(over).await
    }

    /// Returns when it is written down that a failed sync has ended the life, or could not be; at once if none has.
    pub async fn life_is_noted(&self) {
        self.0.life_is_noted().await;
    }

    /// Its bytes must not be believed.
    pub fn is_refused(&self) -> bool {
        self.0.is_refused()
    }

    /// Closes the target: somebody knows that its bytes must not be believed.
    pub fn refuse(&self, why: impl Into<String>) {
        self.0.refuse(why);
    }

    /// Remembers the newest cluster map that was seen; durable with the next stamp.
    pub fn see_map_epoch(&self, epoch: MapEpoch) {
        self.0.see_map_epoch(epoch);
    }

    /// Raises the stamp if anything was changed since the last; for a chore that runs every minute or so.
    pub async fn raise_stamp(&self) -> Result<(), Refusal> {
        self.serving()?.raise_stamp().await
    }

    /// Syncs everything and says so in the superblock; nothing is served afterwards. A target that was refused or never
    /// adopted is let alone: it stays as it was found.
    pub async fn stop(&self) -> Result<(), Refusal> {
        if self.0.is_refused() || !self.0.is_adopted() {
            return Ok(());
        }
        self.serving()?.stop().await
    }

    /// The target, if it can serve.
    pub(super) fn serving(&self) -> Result<&Target, Refusal> {
        self.0.check()?;
        self.0.check_adopted()?;
        Ok(&self.0)
    }

    /// The target, if it can be looked at.
    pub(super) fn looking(&self) -> Result<&Target, Refusal> {
        self.0.check()?;
        Ok(&self.0)
    }

    /// The target, whether or not it can serve.
    pub(super) fn target(&self) -> &Target {
        &self.0
    }
}

const LOCK: &str = "lock";
