//! fsync(2), syncfs(2): first the objects, then the attribute report, then the server's log.

use super::closed_unsynced::ClosedUnsynced;
use super::inode_table::ActiveInode;
use super::object_state::UnsyncedObject;
use super::open_file::OpenFile;
use crate::join;
use crate::limits::{CLOSED_UNSYNCED_MAX, SYNC_BATCH, SYNC_FILES_MAX};
use crate::metrics::Counters;
use crate::reply;
use crate::service::Client;
use gupfs_proto::error::ObjectDamage;
use gupfs_proto::meta::MetaOp;
use gupfs_proto::{Caller, FsError, OstId, data};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Objects whose sync is in progress; if it is dropped half way, they become unsynced again.
struct ObjectsBeingSynced<'a> {
    inode: &'a ActiveInode,
    unsynced: Vec<UnsyncedObject>,
    succeeded: bool,
}

impl Drop for ObjectsBeingSynced<'_> {
    fn drop(&mut self) {
        self.inode.state().sync_finished(self.succeeded);
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

impl Client {
    /// fsync(2): everything written to the file survives a power loss; `data_only` (fdatasync) does not report times, and the
    /// objects hold the size.
    ///
    /// # Errors
    /// The error of the sync; that a target lost unsynced bytes; and, once for each open file, an earlier writeback error.
    pub async fn fsync(&self, file: &OpenFile, data_only: bool) -> Result<(), FsError> {
        Counters::add(&self.counters.fsyncs, 1);
        self.check_session(file)?;
        let synced = self.sync_file(&file.inode, data_only).await;
        let mut state = file.inode.state();
        if let Err(error) = &synced {
            state.errors.record(error.clone());
        }
        let mut seen = file.errors_seen.load(Ordering::Acquire);
        let error_to_return = state.errors.check_and_advance(&mut seen);
        file.errors_seen.store(seen, Ordering::Release);
        match error_to_return {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// close(2) of one descriptor: returns an earlier writeback error, once for each open file.
    pub fn flush(&self, file: &OpenFile) -> Result<(), FsError> {
        let mut state = file.inode.state();
        let mut seen = file.errors_seen.load(Ordering::Acquire);
        let error_to_return = state.errors.check_and_advance(&mut seen);
        file.errors_seen.store(seen, Ordering::Release);
        error_to_return.map_or(Ok(()), Err)
    }

    /// fsync(2) of a directory: every answered change of names survives a power loss.
    pub async fn fsync_dir(&self) -> Result<(), FsError> {
        self.sync_log().await
    }

    /// syncfs(2): everything that was answered survives a power loss, for open and closed files.
    pub async fn sync_all(&self) -> Result<(), FsError> {
        let mut result = Ok(());
        let open = self.inodes.all();
        for batch in open.chunks(SYNC_FILES_MAX) {
            let running = batch.iter().map(|inode| self.sync_known(inode, false));
            for (inode, synced) in batch.iter().zip(join::all(running.collect()).await) {
                if let Err(error) = synced {
                    inode.state().errors.record(error.clone());
                    result = Err(error);
                }
            }
        }
        drop(open);
        let left = self.sync_closed().await;
        self.sync_log().await?;
        let before = self.inodes.closed_unsynced.lock().take_loss();
        result.and(left).and(before)
    }

    async fn sync_file(&self, inode: &ActiveInode, data_only: bool) -> Result<(), FsError> {
        // Other clients' writes must survive too, so the file's objects must be known.
        self.load(inode).await?;
        self.sync_known(inode, data_only).await?;
        self.sync_log().await
    }

    async fn sync_known(&self, inode: &ActiveInode, data_only: bool) -> Result<(), FsError> {
        // First: a write that moves inline data from here on syncs it itself, and data moved before is in objects that are
        // synced here.
        inode.state().set_inline_may_be_durable();
        self.sync_unsynced(inode).await?;
        if !data_only {
            let _reporting = inode.reporting.lock().await;
            self.report_attrs(inode).await?;
        }
        Ok(())
    }

    pub(super) async fn sync_unsynced(&self, inode: &ActiveInode) -> Result<(), FsError> {
        // A concurrent sync waits for this one: the objects that this one has taken are part of that sync, too.
        let _syncing = inode.syncing.lock().await;
        let mut taken = ObjectsBeingSynced {
            unsynced: inode.state().take_unsynced(inode.ino),
            inode,
            succeeded: false,
        };
        let mut from_before = ClosedObjectsBeingSynced {
            left: &self.inodes.closed_unsynced,
            objects: self
                .inodes
                .closed_unsynced
                .lock()
                .take_over(&mut taken.unsynced),
        };
        let lost = self.sync_objects(&taken.unsynced).await?;
        from_before.objects.clear();
        taken.succeeded = true;
        inode.state().objects_lost(inode.ino, &lost);
        check_lost(&lost)
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
                match self.call_ost(ost, data::DataOp::Sync { objects }).await? {
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
    async fn sync_closed(&self) -> Result<(), FsError> {
        // As for one file: a caller that finds the list empty waits for the task that took it.
        let _syncing = self.syncing_closed.lock().await;
        let mut taken = ClosedObjectsBeingSynced {
            left: &self.inodes.closed_unsynced,
            objects: self.inodes.closed_unsynced.lock().take(),
        };
        let lost = self.sync_objects(&taken.objects).await?;
        taken.objects.clear();
        check_lost(&lost)
    }

    /// Syncs objects of closed files in the background when there are many.
    pub(super) fn sync_closed_if_many(self: &Arc<Self>) {
        if self.inodes.closed_unsynced.lock().len() < CLOSED_UNSYNCED_MAX
            || self.syncing_closed.try_lock().is_err()
        {
            return;
        }
        let client = self.clone();
        self.platform.tasks.spawn("sync closed files", async move {
            if let Err(error) = client.sync_closed().await {
                tracing::warn!(%error, "objects of closed files could not be synced");
                // Objects whose sync failed are still on the list; lost objects are not.
                client.inodes.closed_unsynced.lock().set_loss(error);
            }
        });
    }

    /// When this returns, every change seen so far survives a power loss.
    pub(crate) async fn sync_log(&self) -> Result<(), FsError> {
        let Some(upto) = self.replay_log.newest_not_durable() else {
            return Ok(());
        };
        reply::done(
            "sync",
            self.call_mds(&Caller::root(), MetaOp::Sync { upto })
                .await?,
        )
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
