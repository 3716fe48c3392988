//! fsync(2), syncfs(2): first the objects, then the attribute report, then the server's log.

use super::leases::FileLeases;
use super::objects::ObjectIo;
use crate::inodes::{ActiveInode, InodeTable, OpenFile};
use crate::join;
use crate::limits::SYNC_FILES_MAX;
use crate::metrics::Counters;
use crate::session::MdsSession;
use gupfs_platform::Tasks;
use gupfs_proto::FsError;
use std::sync::Arc;

pub struct FileSync {
    mds: Arc<MdsSession>,
    inodes: Arc<InodeTable>,
    leases: Arc<FileLeases>,
    objects: Arc<ObjectIo>,
    tasks: Tasks,
    counters: Arc<Counters>,
}

impl FileSync {
    pub fn new(
        mds: Arc<MdsSession>,
        inodes: Arc<InodeTable>,
        leases: Arc<FileLeases>,
        objects: Arc<ObjectIo>,
        tasks: Tasks,
        counters: Arc<Counters>,
    ) -> Arc<FileSync> {
        Arc::new(FileSync {
            mds,
            inodes,
            leases,
            objects,
            tasks,
            counters,
        })
    }

    /// fsync(2), as `Client::fsync` promises.
    pub async fn fsync(&self, file: &OpenFile, data_only: bool) -> Result<(), FsError> {
        tracing::trace!(target: "walk", file = file!(), "fsync");
        Counters::add(&self.counters.fsyncs, 1);
        self.mds.check_opened_in(file.session())?;
        let synced = self.sync_file(&file.inode, data_only).await;
        file.take_error(synced.err())
    }

    /// Syncs the open files, the unsynced objects of closed files, and the log. Continues after an error.
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
        let left = self.objects.sync_closed().await;
        self.mds.sync_log().await?;
        let before = self.objects.take_loss();
        result.and(left).and(before)
    }

    async fn sync_file(&self, inode: &ActiveInode, data_only: bool) -> Result<(), FsError> {
        // Other clients' writes must survive too, so the file's objects must be known.
        self.leases.load(inode).await?;
        self.sync_known(inode, data_only).await?;
        self.mds.sync_log().await
    }

    async fn sync_known(&self, inode: &ActiveInode, data_only: bool) -> Result<(), FsError> {
        // First: a write that moves inline data from here on syncs it itself, and data moved before is in objects that are
        // synced here.
        inode.state().set_inline_may_be_durable();
        self.leases.release_if_small(inode).await?;
        self.objects.sync(inode).await?;
        inode.state().unsent.set_failed(false);
        if !data_only {
            let _reporting = inode.reporting.lock().await;
            self.leases.report_attrs(inode).await?;
        }
        Ok(())
    }

    /// Syncs objects of closed files in the background when there are many.
    pub fn sync_closed_if_many(&self) {
        if !self.objects.must_sync_closed() {
            return;
        }
        let objects = self.objects.clone();
        self.tasks.spawn("sync closed files", async move {
            if let Err(error) = objects.sync_closed().await {
                tracing::warn!(%error, "objects of closed files could not be synced");
                // Objects whose sync failed are still on the list; lost objects are not.
                objects.keep_loss(error);
            }
        });
    }
}
