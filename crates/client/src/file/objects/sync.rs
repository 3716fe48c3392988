//! Syncing objects, and detecting that a target has lost unsynced writes.

use super::ObjectIo;
use super::members::{TargetsDone, has_ended};
use crate::inodes::{ActiveInode, ClosedUnsynced, MemberObject, UnsyncedObject};
use crate::join;
use crate::limits::{CLOSED_UNSYNCED_MAX, SYNC_BATCH};
use crate::reply;
use gupfs_proto::error::ObjectDamage;
use gupfs_proto::meta::{MetaOp, OpenMode};
use gupfs_proto::{Caller, FsError, ObjectId, OstId, data};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};

/// Objects whose sync is in progress; if it is dropped half way, they become unsynced again.
struct ObjectsBeingSynced<'a> {
    inode: &'a ActiveInode,
    unsynced: Vec<UnsyncedObject>,
    succeeded: bool,
}

impl Drop for ObjectsBeingSynced<'_> {
    fn drop(&mut self) {
        self.inode.state().objects.sync_finished(self.succeeded);
    }
}

/// The same for objects of closed files.
struct ClosedObjectsBeingSynced<'a> {
    left: &'a Mutex<ClosedUnsynced>,
    objects: Vec<UnsyncedObject>,
}

impl Drop for ClosedObjectsBeingSynced<'_> {
    fn drop(&mut self) {
        self.left.lock().add(self.objects.drain(..));
    }
}

/// What a sync of several targets has not made durable.
#[derive(Default)]
struct SyncOutcome {
    /// Objects whose target has not executed the sync, and the error.
    failed: Vec<(UnsyncedObject, FsError)>,
    /// Objects of which a target may have lost answered writes; what they have now is synced.
    lost: Vec<UnsyncedObject>,
    /// Why the metadata server has not recorded that members are stale that were not synced.
    unrecorded: Option<FsError>,
}

impl SyncOutcome {
    /// # Errors
    /// The one that kept members from being recorded as stale, or else the first target's that has not executed the sync.
    fn check_answered(&self) -> Result<(), FsError> {
        let of_target = self.failed.first().map(|(_, error)| error);
        let error = self.unrecorded.as_ref().or(of_target);
        error.map_or(Ok(()), |error| Err(error.clone()))
    }

    /// What members lack that have become stale meanwhile does not count.
    fn forgive_stale(&mut self, is_stale: impl Fn(&ObjectId) -> bool) {
        self.failed.retain(|(failed, _)| !is_stale(&failed.object));
        self.lost.retain(|lost| !is_stale(&lost.object));
    }

    /// Of these objects those do not count any more of which another copy was synced.
    fn forgive_copies(&mut self, all: &[UnsyncedObject]) {
        let failed = self.failed.iter().map(|(failed, _)| failed.object);
        let unsynced: BTreeSet<ObjectId> = failed
            .chain(self.lost.iter().map(|lost| lost.object))
            .collect();
        let synced = all.iter().filter(|one| !unsynced.contains(&one.object));
        let synced: BTreeSet<ObjectId> = synced.map(|one| one.object.first_copy()).collect();
        let counts = |one: &UnsyncedObject| !synced.contains(&one.object.first_copy());
        self.failed.retain(|(failed, _)| counts(failed));
        self.lost.retain(counts);
    }

    /// These objects do not count any more.
    fn forgive(&mut self, members: &[MemberObject]) {
        let counts = |unsynced: &UnsyncedObject| {
            let mut forgiven = members.iter();
            !forgiven.any(|member| member.object == unsynced.object)
        };
        self.failed.retain(|(failed, _)| counts(failed));
        self.lost.retain(counts);
    }
}

impl ObjectIo {
    /// Syncs the unsynced objects of an inode, and of its former opens.
    pub async fn sync(&self, inode: &ActiveInode) -> Result<(), FsError> {
        tracing::trace!(target: "walk", file = file!(), "sync");
        let flushed = self.flush(inode).await;
        self.learn_stale_members(inode).await?;
        // A concurrent sync waits for this one: the objects that this one has taken are part of that sync, too.
        let _syncing = inode.syncing.lock().await;
        loop {
            if let Some(synced) = self.sync_once(inode).await {
                return synced.and(flushed);
            }
        }
    }

    /// None: members that were synced are stale, as this client has learnt now, and others were not waited for.
    async fn sync_once(&self, inode: &ActiveInode) -> Option<Result<(), FsError>> {
        let mut taken = ObjectsBeingSynced {
            unsynced: inode.state().take_unsynced(inode.ino),
            inode,
            succeeded: false,
        };
        let mut from_before = ClosedObjectsBeingSynced {
            left: &self.closed_unsynced,
            objects: self.closed_unsynced.lock().take_over(&mut taken.unsynced),
        };
        let partners = |unsynced: &UnsyncedObject| inode.state().objects.partners(&unsynced.object);
        let mut outcome = self.sync_objects(&taken.unsynced, partners).await;
        // A target that has lost writes serves only after this client was told of its stale members.
        if !outcome.lost.is_empty()
            && let Err(error) = self.learn_stale_members(inode).await
        {
            return Some(Err(error));
        }
        if self.leave_out_unsynced_members(inode, &mut outcome).await {
            return None;
        }
        if let Err(error) = outcome.check_answered() {
            return Some(Err(error));
        }
        from_before.objects.clear();
        taken.succeeded = true;
        inode.state().objects.lost(inode.ino, &outcome.lost);
        Some(check_lost(&outcome.lost))
    }

    /// Members of mirrored stripes that were not synced are stale from now on, where another full member was synced. Those whose targets have lost
    /// writes and that are still recorded as full have been made equal since, or had been synced before: they count as synced then.
    /// Returns whether the others turn out to be stale themselves: these count then.
    async fn leave_out_unsynced_members(
        &self,
        inode: &ActiveInode,
        outcome: &mut SyncOutcome,
    ) -> bool {
        let (missed, intact): (Vec<MemberObject>, Vec<MemberObject>) = {
            let state = inode.state();
            outcome.forgive_stale(|object| state.objects.is_stale(object));
            let outcome = &*outcome;
            let is_unsynced = |object: &ObjectId| {
                let mut failed = outcome.failed.iter().map(|(failed, _)| failed);
                failed.any(|failed| failed.object == *object)
                    || outcome.lost.iter().any(|lost| lost.object == *object)
            };
            let with_partner = |unsynced: &UnsyncedObject| {
                let (component, index) = state.objects.position_of(&unsynced.object)?;
                let members = state.objects.members(inode.ino, component, index);
                let has_partner = members.iter().any(|member| !is_unsynced(&member.object));
                let missed = members.into_iter().find(|member| member.index == index);
                missed.filter(|_| has_partner)
            };
            let failed = outcome.failed.iter().map(|(failed, _)| failed);
            let lost = outcome.lost.iter();
            (
                failed.filter_map(with_partner).collect(),
                lost.filter_map(with_partner).collect(),
            )
        };
        outcome.forgive(&intact);
        if missed.is_empty() {
            return false;
        }
        // Without the write lease the metadata server has been told that these objects are unsynced: it has them synced, or leaves them out if their
        // target is restarted.
        let lease = inode.state().any_lease_number();
        if !inode.state().has_exclusive_write_lease() {
            outcome.forgive(&missed);
            return false;
        }
        match self.mark_stale(inode, &missed).await {
            Ok(()) => outcome.forgive(&missed),
            Err(_) if has_ended(inode, lease).await => outcome.forgive(&missed),
            Err(FsError::Invalid) if self.mark_stale(inode, &[]).await.is_ok() => return true,
            Err(error) => {
                tracing::warn!(ino = %inode.ino, %error, "members of mirrored stripes are not synced, and are not recorded as stale");
                outcome.unrecorded = Some(error);
            }
        }
        false
    }

    /// Syncs all targets concurrently. `partners`: the targets of other full members, which have the same bytes.
    async fn sync_objects(
        &self,
        objects: &[UnsyncedObject],
        partners: impl Fn(&UnsyncedObject) -> Vec<OstId>,
    ) -> SyncOutcome {
        let partners = &partners;
        let mut by_target: BTreeMap<OstId, Vec<UnsyncedObject>> = BTreeMap::new();
        for unsynced in objects {
            by_target.entry(unsynced.ost).or_default().push(*unsynced);
        }
        let targets_done = &TargetsDone::default();
        let running = by_target.into_iter().map(|(ost, objects)| async move {
            let synced = self.sync_target(ost, &objects);
            // Once another member of each object is synced, the sync does not wait for a silent target.
            let partners_done = targets_done.wait_until(|done| {
                let mut objects = objects.iter().map(partners);
                objects.all(|partners| partners.iter().any(|partner| done.contains(partner)))
            });
            let synced = self.call_until_silent(ost, partners_done, synced).await;
            if matches!(&synced, Ok(lost) if lost.is_empty()) {
                targets_done.note(ost);
            }
            (objects, synced)
        });
        let mut outcome = SyncOutcome::default();
        for (objects, synced) in join::all(running.collect()).await {
            match synced {
                Ok(lost) => outcome.lost.extend(lost),
                Err(error) => {
                    let failed = objects.into_iter().map(|object| (object, error.clone()));
                    outcome.failed.extend(failed);
                }
            }
        }
        outcome
    }

    /// Syncs objects of one target; returns those of which it may have lost answered writes.
    async fn sync_target(
        &self,
        ost: OstId,
        objects: &[UnsyncedObject],
    ) -> Result<Vec<UnsyncedObject>, FsError> {
        if !self.osts.is_gone(ost) {
            match self.sync_known_target(ost, objects).await {
                // The map that was fetched for the call does not list it any more.
                Err(FsError::TargetDown { .. }) if self.osts.is_gone(ost) => {}
                synced => return synced,
            }
        }
        // It was declared lost, or removed from the cluster. Before a removal objects move, and a move makes them durable.
        let mut lost = Vec::new();
        for unsynced in objects {
            if !self.is_elsewhere(unsynced).await? {
                lost.push(*unsynced);
            }
        }
        Ok(lost)
    }

    async fn sync_known_target(
        &self,
        ost: OstId,
        objects: &[UnsyncedObject],
    ) -> Result<Vec<UnsyncedObject>, FsError> {
        let mut lost = Vec::new();
        for batch in objects.chunks(SYNC_BATCH) {
            let objects = batch.iter().map(|unsynced| unsynced.object).collect();
            match self.osts.call(ost, data::DataOp::Sync { objects }).await? {
                data::DataReplyBody::DoneWithVerifier(verifier) => {
                    lost.extend(batch.iter().filter(|one| one.since.is_voided_by(verifier)));
                }
                _ => return reply::unexpected("sync"),
            }
        }
        Ok(lost)
    }

    /// Whether the object has moved to another OST, or its file is gone.
    async fn is_elsewhere(&self, unsynced: &UnsyncedObject) -> Result<bool, FsError> {
        let op = MetaOp::Open {
            ino: unsynced.object.ino,
            open: OpenMode::REOPEN,
        };
        // So that ESTALE is about the file.
        self.osts.wait_for_valid_session().await?;
        let opened = match self.mds.call(&Caller::root(), op).await {
            Err(FsError::NotFound | FsError::Stale) => return Ok(true),
            reply => reply::opened("open", reply?)?,
        };
        let mut objects = opened.layout.objects(unsynced.object.ino);
        let former = (unsynced.ost, unsynced.object);
        Ok(!objects.any(|(_, _, ost, object, _)| (ost, object) == former))
    }

    /// Syncs objects of files that were closed without fsync. Those whose sync fails stay on the list, unless another copy was synced: the metadata
    /// server knows since the close that they are unsynced, has them synced, or leaves them out if their target is restarted.
    pub async fn sync_closed(&self) -> Result<(), FsError> {
        // As for one file: a caller that finds the list empty waits for the task that took it.
        let _syncing = self.syncing_closed.lock().await;
        let mut taken = ClosedObjectsBeingSynced {
            left: &self.closed_unsynced,
            objects: self.closed_unsynced.lock().take(),
        };
        let mut copies: BTreeMap<ObjectId, Vec<UnsyncedObject>> = BTreeMap::new();
        for unsynced in &taken.objects {
            let same = copies.entry(unsynced.object.first_copy()).or_default();
            same.push(*unsynced);
        }
        let partners = |unsynced: &UnsyncedObject| {
            let same = copies.get(&unsynced.object.first_copy());
            let others = (same.into_iter().flatten()).filter(|it| it.object != unsynced.object);
            others.map(|other| other.ost).collect()
        };
        let mut outcome = self.sync_objects(&taken.objects, partners).await;
        outcome.forgive_copies(&taken.objects);
        outcome.check_answered()?;
        taken.objects.clear();
        check_lost(&outcome.lost)
    }

    /// Whether there are so many unsynced objects of closed files that they must be synced in the background, and no task does.
    pub fn must_sync_closed(&self) -> bool {
        self.closed_unsynced.lock().len() >= CLOSED_UNSYNCED_MAX
            && self.syncing_closed.try_lock().is_ok()
    }

    /// Keeps the error of a background sync for the next `take_loss`.
    pub fn keep_loss(&self, error: FsError) {
        self.closed_unsynced.lock().set_loss(error);
    }

    /// Returns the kept error, once.
    pub fn take_loss(&self) -> Result<(), FsError> {
        self.closed_unsynced.lock().take_loss()
    }
}

/// The error for lost objects: the first stands for all, each is logged.
fn check_lost(lost: &[UnsyncedObject]) -> Result<(), FsError> {
    let errors = lost.iter().map(|lost| FsError::ObjectDamaged {
        ost: lost.ost,
        object: lost.object,
        damage: ObjectDamage::Unsynced,
    });
    let errors: Vec<FsError> = errors.collect();
    for error in &errors {
        tracing::error!(%error, "the OST may have lost written bytes that were not synced");
    }
    errors.into_iter().next().map_or(Ok(()), Err)
}
