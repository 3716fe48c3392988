//! What one open target consists of, and how it starts, fails and stops.

use super::counters::Counters;
use super::damage::DamageList;
use super::dirs::Dirs;
use super::error::{OpenError, told};
use super::limits::{CLEAN_KEPT, OBJECTS_KEPT, STOP_SETTLES};
use super::lost_found::LostFound;
use super::objects::Engine;
use super::records::{Records, RecordsError};
use super::room::Room;
use super::second_chance::SecondChance;
use super::settle::Due;
use super::superblock::Superblock;
use super::table::Table;
use super::unsettled::Unsettled;
use gupfs_platform::{Disk, DiskError, DiskLock, Platform, Task};
use gupfs_proto::cluster::{OwnerMark, TargetIdentity};
use gupfs_proto::refusal::ObjectDamage;
use gupfs_proto::{Incarnation, MapEpoch, ObjectId, OstId, OstLife, Refusal};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use tokio::sync::watch;

pub(super) struct Target {
    pub ost: OstId,
    pub incarnation: Incarnation,
    life: AtomicU64,
    pub disk: Disk,
    pub platform: Platform,
    pub table: Table,
    pub dirs: Dirs,
    pub room: Room,
    pub counters: Counters,
    pub damage: DamageList,
    pub records: Records,
    /// Dirty regions in memory.
    pub dirty: Arc<AtomicUsize>,
    pub unsettled: Unsettled,
    /// Clean regions in memory.
    pub clean: Mutex<SecondChance<(ObjectId, u64)>>,
    pub chores: Mutex<Vec<Task<()>>>,
    /// Objects there are, once they were counted.
    pub objects: AtomicU64,
    superblock: Arc<tokio::sync::Mutex<Superblock>>,
    /// As the superblock on disk says, and what was heard since.
    identity: Mutex<TargetIdentity>,
    /// The number of this opening.
    pub opening: u64,
    adopted: AtomicBool,
    /// Its identity stays what it was found: a tool has opened it.
    keeps_stamp: AtomicBool,
    /// It was stopped in order before this opening.
    pub was_stopped: bool,
    pub lost_found: Mutex<LostFound>,
    map_epoch: AtomicU64,
    /// Operations that changed something, at the last stamp.
    changes_stamped: AtomicU64,
    /// Why it serves no more.
    down: OnceLock<String>,
    /// That its life is over has been written down, or could not be.
    over: OnceLock<watch::Receiver<bool>>,
    /// Held by who syncs so that files can be closed.
    pub closing: tokio::sync::Mutex<()>,
    /// Held by who syncs the whole file system.
    pub syncing_whole: tokio::sync::Mutex<()>,
    /// Closed because of what it is, not because something failed.
    refused: AtomicBool,
    _lock: DiskLock,
}

impl Target {
    pub async fn start(
        disk: Disk,
        platform: Platform,
        lock: DiskLock,
        found: Superblock,
        engine: Engine,
    ) -> Result<Target, OpenError> {
        let open_files = engine.open_files;
        let was_stopped = found.clean_stop;
        let found = found.started(disk.memory()?);
        let records = Records::open(&disk, &platform, &found, engine).await?;
        let opening = opening_number(&platform, found.run);
        let identity = TargetIdentity {
            cluster: found.cluster,
            incarnation: found.incarnation,
            stamp: found.stamp,
            run: found.run,
            opening,
            stopped: was_stopped,
            owner: found.owner,
        };
        let dirty: Arc<AtomicUsize> = Arc::default();
        let target = Target {
            ost: found.ost,
            incarnation: found.incarnation,
            life: AtomicU64::new(found.life.0),
            table: Table::new(OBJECTS_KEPT, open_files, Arc::clone(&dirty)),
            records,
            dirty,
            unsettled: Unsettled::default(),
            clean: Mutex::new(SecondChance::new(CLEAN_KEPT)),
            chores: Mutex::default(),
            dirs: Dirs::new(disk.clone()),
            room: Room::new(disk.clone(), platform.clock.clone()),
            counters: Counters::default(),
            damage: DamageList::default(),
            objects: AtomicU64::new(found.objects),
            identity: Mutex::new(identity),
            opening,
            adopted: AtomicBool::new(false),
            keeps_stamp: AtomicBool::new(false),
            was_stopped,
            lost_found: Mutex::default(),
            map_epoch: AtomicU64::new(found.map_epoch.0),
            changes_stamped: AtomicU64::new(0),
            superblock: Arc::new(tokio::sync::Mutex::new(found)),
            down: OnceLock::new(),
            over: OnceLock::new(),
            closing: tokio::sync::Mutex::new(()),
            syncing_whole: tokio::sync::Mutex::new(()),
            refused: AtomicBool::new(false),
            _lock: lock,
            disk,
            platform,
        };
        if !was_stopped {
            let count = super::list::count(&target.disk).await?;
            target.objects.store(count, Ordering::Relaxed);
        }
        Ok(target)
    }

    pub fn life(&self) -> OstLife {
        OstLife(self.life.load(Ordering::Acquire))
    }

    /// Somebody remembers that a life is over of which the disk says nothing: this is another.
    pub async fn begin_life_after(&self, over: OstLife) -> Result<(), Refusal> {
        let mut superblock = self.superblock.lock().await;
        if superblock.life > over {
            return Ok(());
        }
        superblock.life = OstLife(over.0 + 1);
        if let Err(error) = superblock.write(&self.disk).await {
            drop(superblock);
            return Err(self.sync_failed(&error));
        }
        self.life.store(superblock.life.0, Ordering::Release);
        Ok(())
    }

    /// A sync failed.
    pub fn is_life_over(&self) -> bool {
        self.over.get().is_some()
    }

    pub fn identity(&self) -> TargetIdentity {
        *self.identity.lock()
    }

    pub fn is_adopted(&self) -> bool {
        self.adopted.load(Ordering::Acquire)
    }

    /// False if it was already.
    pub fn set_adopted(&self) -> bool {
        !self.adopted.swap(true, Ordering::AcqRel)
    }

    /// From here on no writing of the superblock raises the stamp.
    pub fn keeps_stamp(&self) {
        self.keeps_stamp.store(true, Ordering::Release);
    }

    pub fn hear_durable(&self, owner: &OwnerMark) {
        let mut identity = self.identity.lock();
        if identity.owner.is_same_start(owner) {
            identity.owner.durable = identity.owner.durable.max(owner.durable);
        }
    }

    /// Refuses until it is adopted.
    pub fn check_adopted(&self) -> Result<(), Refusal> {
        match self.is_adopted() {
            true => Ok(()),
            false => Err(Refusal::TargetDown {
                ost: self.ost,
                why: "the metadata server has not said yet that it is who it was".into(),
            }),
        }
    }

    pub fn see_map_epoch(&self, epoch: MapEpoch) {
        self.map_epoch.fetch_max(epoch.0, Ordering::Relaxed);
    }

    pub fn map_epoch(&self) -> u64 {
        self.map_epoch.load(Ordering::Relaxed)
    }

    /// Refuses if the target serves no more.
    pub fn check(&self) -> Result<(), Refusal> {
        match self.down.get() {
            None => Ok(()),
            Some(why) => Err(Refusal::TargetDown {
                ost: self.ost,
                why: why.clone(),
            }),
        }
    }

    pub fn down(&self) -> Option<&str> {
        self.down.get().map(String::as_str)
    }

    /// Serves no more until it is opened again.
    pub fn fail(&self, why: impl Into<String>) {
        let why = why.into();
        tracing::error!(ost = self.ost.0, why, "target closed");
        // The first reason is the cause, later ones are its consequences.
        let _ = self.down.set(why);
    }

    /// Its bytes must not be believed.
    pub fn refuse(&self, why: impl Into<String>) {
        self.refused.store(true, Ordering::Relaxed);
        self.fail(why);
    }

    pub fn is_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }

    /// After a failed sync nothing that is only in memory can be relied on: the target closes, and its next start is
    /// another life.
    pub fn sync_failed(&self, error: &DiskError) -> Refusal {
        // First: whoever finds the target closed sees whether its life is over.
        self.over.get_or_init(|| self.end_life());
        self.fail(format!("a sync failed: {}", told(error)));
        self.check().expect_err("it was closed just now")
    }

    /// Writes down that the next start is another life, in a task of its own: the disk may not answer.
    fn end_life(&self) -> watch::Receiver<bool> {
        let (done, over) = watch::channel(false);
        let (superblock, disk) = (self.superblock.clone(), self.disk.clone());
        self.platform.tasks.spawn("end a life", async move {
            let mut superblock = superblock.lock().await;
            superblock.memory = 0;
            if let Err(error) = superblock.write(&disk).await {
                tracing::error!(%error, "that a sync failed could not be written down: who wrote before may not hear of it");
            }
            done.send_replace(true);
        });
        over
    }

    /// Returns when it is written down that the life is over, or could not be; at once if it is not.
    pub async fn life_is_noted(&self) {
        if let Some(over) = self.over.get() {
            // Its writer is gone: nothing is written any more.
            let _ = over.clone().wait_for(|done| *done).await;
        }
    }

    /// Without its records a target does not know what it may believe: it closes, unless only room is missing.
    pub fn records_failed(&self, error: &RecordsError) -> Refusal {
        if matches!(error, RecordsError::Full) {
            return Refusal::NoSpace;
        }
        // The objects lie on the same disk.
        if error.is_of_the_disk() {
            self.over.get_or_init(|| self.end_life());
        }
        self.fail(format!("its records failed: {}", told(error)));
        self.check().expect_err("it was closed just now")
    }

    /// Counts, lists and reports damage.
    pub fn damaged(&self, object: ObjectId, what: ObjectDamage) -> Refusal {
        if self.damage.add(object, what) {
            tracing::error!(ost = self.ost.0, %object, %what, "damaged object");
        }
        Refusal::ObjectDamaged {
            ost: self.ost,
            object,
            what,
        }
    }

    /// How the disk's refusal is told to who wanted something of this object.
    pub fn refused(&self, object: ObjectId, error: &DiskError) -> Refusal {
        match super::error::refusal(self.ost, object, error) {
            Refusal::ObjectDamaged { what, .. } => self.damaged(object, what),
            other => other,
        }
    }

    pub async fn raise_stamp(&self) -> Result<(), Refusal> {
        let changes = self.counters.writes.get() + self.counters.changes.get();
        if self.changes_stamped.swap(changes, Ordering::Relaxed) == changes {
            return Ok(());
        }
        self.raise_stamp_now().await
    }

    pub async fn raise_stamp_now(&self) -> Result<(), Refusal> {
        self.write_superblock(Write::stamp(false))
            .await
            .map_err(|error| self.sync_failed(&error))
    }

    pub async fn stop(&self) -> Result<(), Refusal> {
        for chore in self.chores.lock().drain(..) {
            chore.stop();
        }
        // What is not settled in time stays marked.
        let settled = tokio::select! {
            biased;
            settled = self.settle_due(Due::Now) => settled,
            () = self.platform.clock.sleep(STOP_SETTLES) => Ok(0),
        };
        if let Err(refusal @ Refusal::TargetDown { .. }) = settled {
            return Err(refusal);
        }
        self.sync_all().await?;
        let stopped = self.records.stop().await;
        stopped.map_err(|error| self.records_failed(&error))?;
        let written = self.write_superblock(Write::stamp(true)).await;
        let _ = self.down.set("the target was stopped".to_owned());
        written.map_err(|error| Refusal::StoreFailed(told(&error)))
    }

    /// Durable when this returns.
    pub async fn write_superblock(&self, write: Write) -> Result<(), DiskError> {
        let mut superblock = self.superblock.lock().await;
        let mut next = *superblock;
        next.stamp += u64::from(write.raise && !self.keeps_stamp.load(Ordering::Acquire));
        next.run = write.run.unwrap_or(next.run);
        next.owner = match write.owner {
            Some(owner) => owner,
            // What was heard of the same one.
            None => self.identity().owner,
        };
        next.map_epoch = MapEpoch(self.map_epoch());
        next.clean_stop = write.clean_stop;
        next.objects = self.objects.load(Ordering::Relaxed);
        next.write(&self.disk).await?;
        *superblock = next;
        let mut identity = self.identity.lock();
        identity.stamp = next.stamp;
        identity.run = next.run;
        identity.stopped = next.clean_stop;
        if !identity.owner.is_same_start(&next.owner) {
            identity.owner = next.owner;
        }
        Ok(())
    }
}

/// What a writing of the superblock changes.
#[derive(Clone, Copy)]
pub(super) struct Write {
    pub run: Option<u64>,
    pub owner: Option<OwnerMark>,
    pub raise: bool,
    pub clean_stop: bool,
}

impl Write {
    fn stamp(clean_stop: bool) -> Write {
        Write {
            run: None,
            owner: None,
            raise: true,
            clean_stop,
        }
    }
}

/// Never 0, which is no opening, and never the one that was found.
fn opening_number(platform: &Platform, found: u64) -> u64 {
    loop {
        let number = platform.dice.u64();
        if number != 0 && number != found {
            return number;
        }
    }
}

/// Dropped without a stop it just ends, as if its process had been killed.
impl Drop for Target {
    fn drop(&mut self) {
        for chore in self.chores.get_mut().drain(..) {
            chore.stop();
        }
    }
}
