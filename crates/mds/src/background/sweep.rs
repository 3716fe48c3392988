//! Sweep: finds objects without a file, which exist where a power loss undid records after an OST had created the object.
//!
//! A new file's layout is used before it is durable (`gupfs_namespace::generations`). If a power loss comes in between, the
//! objects exist and no record names them. No record ever will, since their generation is not given again; so the sweep looks for
//! them once after a start that followed no orderly stop, and removes them.
//!
//! A drain leaves objects where it has moved them from, since reads may be under way there, and half of one where it was ended. The targets are
//! swept some time after it was cancelled.
//!
//! After a loss was accepted there are others: objects that the lost state of the store had created. The sweep quarantines those.
//! And there are objects that are longer than their file's record says: the file then gets the size of its objects, or bytes of
//! the lost state would show where it grows again.

use crate::join;
use crate::limits::{OST_CALLS, RETRY, SWEEP_AFTER_DRAIN, SWEEP_PAUSE, SWEEP_STEP};
use crate::origin::RequestOrigin;
use crate::osts::Targets;
use crate::pending_work::SweepProgress;
use crate::store::{MetadataStore, damaged_record};
use crate::writer_recovery::WriterRecovery;
use gupfs_namespace::{Inode, InodeBody, Record, RecordKey};
use gupfs_platform::Clock;
use gupfs_proto::data::ObjectStat;
use gupfs_proto::{FsError, InodeId, ObjectId, OstId, OwnerEpoch, Presence};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Findings among the objects of one step.
#[derive(Default)]
struct SweepFindings {
    /// Objects without a file.
    unknown: Vec<ObjectId>,
    /// Files with objects that are longer than their records say.
    surplus: BTreeSet<InodeId>,
}

pub struct SweepTask {
    pub store: Arc<MetadataStore>,
    pub targets: Arc<Targets>,
    pub recovery: Arc<WriterRecovery>,
    pub progress: Arc<SweepProgress>,
    /// Objects of owners before this one that no record names belong to a later, lost state of the store: the sweep quarantines
    /// them instead of removing them. 0: no loss was accepted.
    pub lost_before: OwnerEpoch,
    /// This start accepted the loss.
    pub loss_accepted: bool,
    pub clock: Clock,
}

impl SweepTask {
    /// Examines every target once `at_start`, and after each cancelled drain.
    pub async fn run(mut self, at_start: bool) {
        if at_start {
            self.sweep_all().await;
        }
        // Later an object is longer than its file's record because a session is writing the file, and not because of the loss.
        self.loss_accepted = false;
        while self.store.failure().is_none() {
            self.progress.wait().await;
            self.clock.sleep(SWEEP_AFTER_DRAIN).await;
            self.sweep_all().await;
        }
    }

    async fn sweep_all(&self) {
        self.progress.expect(self.targets.all().len() as u64);
        for ost in self.targets.all() {
            let mut after = None;
            while self.store.failure().is_none() && !self.targets.is_lost(ost) {
                match self.sweep_some(ost, after).await {
                    Ok(None) => break,
                    Ok(Some(last)) => {
                        after = Some(last);
                        self.clock.sleep(SWEEP_PAUSE).await;
                    }
                    Err(error) => {
                        self.progress.failed(&error);
                        self.clock.sleep(RETRY).await;
                    }
                }
            }
            self.progress.end();
        }
    }

    /// Examines the next objects after `after`; returns the last one examined, None at the end.
    async fn sweep_some(
        &self,
        ost: OstId,
        after: Option<ObjectId>,
    ) -> Result<Option<ObjectId>, FsError> {
        // In this order: an object that exists belongs to a layout that was committed before, so a record read
        // later names the object, or has dropped it for good. Objects that move are the exception.
        let _no_moves = self.targets.unnamed_objects.write().await;
        let found = self.targets.list_objects(ost, after, SWEEP_STEP).await?;
        let Some(last) = found.last().copied() else {
            return Ok(None);
        };
        let SweepFindings {
            mut unknown,
            surplus,
        } = self.compare(ost, &found).await?;
        if self.targets.draining().contains_key(&ost) {
            // They were moved: a read may still be under way there.
            unknown.clear();
        }
        if self.loss_accepted {
            for ino in surplus {
                self.recovery.recover_from_objects(ino).await?;
            }
        }
        let last = last.0;
        if !unknown.is_empty() {
            // A power loss must not undo the records that dropped the objects once these are gone.
            self.store
                .durable(RequestOrigin::server("sweep"), self.store.last_seq())
                .await?;
            let (lost, left): (Vec<_>, Vec<_>) = unknown
                .into_iter()
                .partition(|object| object.generation.window() < self.lost_before.counter());
            self.remove_unknown(ost, &left).await?;
            self.quarantine(ost, &lost).await?;
            self.progress.removed(left.len() as u64);
            self.progress.quarantined(lost.len() as u64);
            if !left.is_empty() {
                tracing::info!(%ost, objects = left.len(), "removed objects that a power loss or a drain left without a file");
            }
            if !lost.is_empty() {
                tracing::warn!(%ost, objects = lost.len(), "quarantined objects of lost files in the OST's lost+found");
            }
        }
        Ok(Some(last))
    }

    async fn compare(
        &self,
        ost: OstId,
        found: &[(ObjectId, ObjectStat)],
    ) -> Result<SweepFindings, FsError> {
        let files: BTreeSet<InodeId> = found.iter().map(|(object, _)| object.ino).collect();
        let keys = files.iter().map(|ino| RecordKey::inode(*ino)).collect();
        let records = self.store.get_all_now(keys).await?;
        // The length that each object may have.
        let mut known: BTreeMap<ObjectId, u64> = BTreeMap::new();
        for (ino, record) in files.into_iter().zip(records) {
            let Some(record) = record else { continue };
            let inode = Inode::decode(&record)
                .map_err(|error| damaged_record(&RecordKey::inode(ino), error))?;
            if let InodeBody::File(file) = inode.body {
                for (component, stripe, on, object, presence) in file.layout.objects(ino) {
                    let reach = match presence {
                        Presence::Never => 0,
                        _ => file.layout.components[component].object_size(stripe, inode.size),
                    };
                    if on == ost {
                        known.insert(object, reach);
                    }
                }
            }
        }
        let mut findings = SweepFindings::default();
        for (object, stat) in found {
            match known.get(object) {
                None => findings.unknown.push(*object),
                Some(reach) if stat.size > *reach => drop(findings.surplus.insert(object.ino)),
                Some(_) => {}
            }
        }
        Ok(findings)
    }

    async fn quarantine(&self, ost: OstId, objects: &[ObjectId]) -> Result<(), FsError> {
        let moves = objects
            .iter()
            .map(|object| self.targets.quarantine_object(ost, *object));
        let outcomes = join::all(moves.collect(), OST_CALLS).await;
        outcomes.into_iter().collect()
    }

    async fn remove_unknown(&self, ost: OstId, objects: &[ObjectId]) -> Result<(), FsError> {
        let removals = objects
            .iter()
            .map(|object| self.targets.remove_object(ost, *object));
        let outcomes = join::all(removals.collect(), OST_CALLS).await;
        outcomes
            .into_iter()
            .try_for_each(|removed| removed.map(|_| ()))
    }
}
