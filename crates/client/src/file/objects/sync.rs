//! Syncing objects, and detecting that a target has lost unsynced writes.

use super::ObjectIo;
use crate::inodes::{ActiveInode, ClosedUnsynced, UnsyncedObject};
use crate::join;
use crate::limits::{CLOSED_UNSYNCED_MAX, SYNC_BATCH};
use crate::reply;
use gupfs_proto::error::ObjectDamage;
use gupfs_proto::{FsError, OstId, data};
use parking_lot::Mutex;
use std::collections::BTreeMap;

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

impl ObjectIo {
    /// Syncs the unsynced objects of an inode, and of its former opens.
    pub async fn sync(&self, inode: &ActiveInode) -> Result<(), FsError> {
        tracing::trace!(target: "walk", file = file!(), "sync");
        let flushed = self.flush(inode).await;
        // A concurrent sync waits for this one: the objects that this one has taken are part of that sync, too.
        let _syncing = inode.syncing.lock().await;
        let mut taken = ObjectsBeingSynced {
            unsynced: inode.state().take_unsynced(inode.ino),
            inode,
            succeeded: false,
        };
        let mut from_before = ClosedObjectsBeingSynced {
            left: &self.closed_unsynced,
            objects: self.closed_unsynced.lock().take_over(&mut taken.unsynced),
        };
        let lost = self.sync_objects(&taken.unsynced).await?;
        from_before.objects.clear();
        taken.succeeded = true;
        inode.state().objects.lost(inode.ino, &lost);
        check_lost(&lost).and(flushed)
    }

    /// Syncs all targets concurrently. When it returns, the objects' present bytes are synced; the result lists the objects of
    /// which a target may have lost answered writes.
    async fn sync_objects(
        &self,
        objects: &[UnsyncedObject],
    ) -> Result<Vec<UnsyncedObject>, FsError> {
        let mut by_target: BTreeMap<OstId, Vec<UnsyncedObject>> = BTreeMap::new();
        for unsynced in objects {
            by_target.entry(unsynced.ost).or_default().push(*unsynced);
        }
        let running = by_target.into_iter().map(|(ost, objects)| async move {
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
        });
        let synced = join::all(running.collect()).await;
        let lost: Result<Vec<Vec<UnsyncedObject>>, FsError> = synced.into_iter().collect();
        Ok(lost?.concat())
    }

    /// Syncs objects of files that were closed without fsync. Those whose sync fails stay on the list.
    pub async fn sync_closed(&self) -> Result<(), FsError> {
        // As for one file: a caller that finds the list empty waits for the task that took it.
        let _syncing = self.syncing_closed.lock().await;
        let mut taken = ClosedObjectsBeingSynced {
            left: &self.closed_unsynced,
            objects: self.closed_unsynced.lock().take(),
        };
        let lost = self.sync_objects(&taken.objects).await?;
        taken.objects.clear();
        check_lost(&lost)
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
