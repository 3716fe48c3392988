//! The identity of an open target: its superblock, stamp, owner and write verifier.

use super::closing::ClosingState;
use super::counters::{NewestMapEpoch, ObjectCount};
use super::superblock::{Superblock, SuperblockFile};
use gupfs_platform::{DiskError, Platform};
use gupfs_proto::cluster::{OwnerMark, TargetIdentity};
use gupfs_proto::{FsError, Incarnation, OstId, WriteVerifier};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

pub(super) struct Identity {
    pub ost: OstId,
    pub incarnation: Incarnation,
    /// The number of this open instance.
    pub open_instance: u64,
    /// The previous open instance was stopped cleanly.
    pub was_stopped: bool,
    pub map_epoch: Arc<NewestMapEpoch>,
    superblock: SuperblockFile,
    write_verifier: AtomicU64,
    /// The identity in the superblock on disk, and what the owner reported since.
    known: Mutex<TargetIdentity>,
    adopted: AtomicBool,
    /// The identity stays as it was found, because a tool has opened the target.
    stamp_frozen: AtomicBool,
    /// Number of changing operations at the last stamp.
    changes_stamped: AtomicU64,
    objects: Arc<ObjectCount>,
    closing: Arc<ClosingState>,
}

/// The new values of one write of the superblock.
#[derive(Clone, Copy)]
pub(super) struct SuperblockUpdate {
    pub run: Option<u64>,
    pub owner: Option<OwnerMark>,
    pub raise_stamp: bool,
    pub clean_stop: bool,
}

impl SuperblockUpdate {
    pub fn stamp(clean_stop: bool) -> SuperblockUpdate {
        SuperblockUpdate {
            run: None,
            owner: None,
            raise_stamp: true,
            clean_stop,
        }
    }
}

impl Identity {
    /// The identity of a target in whose superblock a new open instance found `found`; `was_stopped`: the previous
    /// instance recorded a clean stop.
    pub fn new(
        found: &Superblock,
        was_stopped: bool,
        platform: &Platform,
        superblock: SuperblockFile,
        objects: Arc<ObjectCount>,
        closing: Arc<ClosingState>,
    ) -> Identity {
        let open_instance = new_instance_number(platform, found.run);
        let known = TargetIdentity {
            cluster: found.cluster,
            incarnation: found.incarnation,
            stamp: found.stamp,
            run: found.run,
            open_instance,
            stopped: was_stopped,
            owner: found.owner,
        };
        Identity {
            ost: found.ost,
            incarnation: found.incarnation,
            open_instance,
            was_stopped,
            map_epoch: Arc::new(NewestMapEpoch::new(found.map_epoch)),
            superblock,
            write_verifier: AtomicU64::new(found.write_verifier.0),
            known: Mutex::new(known),
            adopted: AtomicBool::new(false),
            stamp_frozen: AtomicBool::new(false),
            changes_stamped: AtomicU64::new(0),
            objects,
            closing,
        }
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
        if let Err(error) = self.superblock.write(&superblock).await {
            drop(superblock);
            return Err(self.closing.sync_failed(&error));
        }
        self.write_verifier
            .store(superblock.write_verifier.0, Ordering::Release);
        Ok(())
    }

    pub fn known(&self) -> TargetIdentity {
        *self.known.lock()
    }

    pub fn is_adopted(&self) -> bool {
        self.adopted.load(Ordering::Acquire)
    }

    /// Marks the target adopted; returns false if it was already.
    pub fn set_adopted(&self) -> bool {
        !self.adopted.swap(true, Ordering::AcqRel)
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

    /// From now on no write of the superblock raises the stamp.
    pub fn freeze_stamp(&self) {
        self.stamp_frozen.store(true, Ordering::Release);
    }

    pub fn note_owner_durable(&self, owner: &OwnerMark) {
        let mut known = self.known.lock();
        if known.owner.is_same_instance(owner) {
            known.owner.durable = known.owner.durable.max(owner.durable);
        }
    }

    /// Raises the stamp if there were changing operations since the last stamp; `changes` is their number so far.
    pub async fn raise_stamp(&self, changes: u64) -> Result<(), FsError> {
        if self.changes_stamped.swap(changes, Ordering::Relaxed) == changes {
            return Ok(());
        }
        self.raise_stamp_now().await
    }

    pub async fn raise_stamp_now(&self) -> Result<(), FsError> {
        self.write(SuperblockUpdate::stamp(false))
            .await
            .map_err(|error| self.closing.sync_failed(&error))
    }

    /// Writes the superblock; durable when this returns.
    pub async fn write(&self, update: SuperblockUpdate) -> Result<(), DiskError> {
        let mut superblock = self.superblock.lock().await;
        let mut next = *superblock;
        next.stamp += u64::from(update.raise_stamp && !self.stamp_frozen.load(Ordering::Acquire));
        next.run = update.run.unwrap_or(next.run);
        next.owner = match update.owner {
            Some(owner) => owner,
            // The same owner, with what it reported since.
            None => self.known().owner,
        };
        next.map_epoch = self.map_epoch.get();
        next.clean_stop = update.clean_stop;
        next.objects = self.objects.get();
        self.superblock.write(&next).await?;
        *superblock = next;
        let mut known = self.known.lock();
        known.stamp = next.stamp;
        known.run = next.run;
        known.stopped = next.clean_stop;
        if !known.owner.is_same_instance(&next.owner) {
            known.owner = next.owner;
        }
        Ok(())
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
