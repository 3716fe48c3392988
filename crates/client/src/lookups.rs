//! # lookups: what the kernel knows of inodes, reported to the metadata server
//!
//! Owns   the changes of lookup counts and open counts, and sending orphans that are forgotten here (`forget_queue`).
//! Never  looks a name up.
//! Enter  at `Lookups::forget`.

use crate::forget_queue::ForgetQueue;
use crate::inodes::ClosedUnsynced;
use crate::limits::FORGET_DELAY;
use crate::lookup_counts::{ForgottenOrphan, LookupCounts};
use crate::reply;
use crate::session::MdsSession;
use gupfs_platform::Platform;
use gupfs_proto::meta::MetaOp;
use gupfs_proto::{Caller, FsError, InodeId};
use parking_lot::Mutex;
use std::sync::Arc;

pub struct Lookups {
    mds: Arc<MdsSession>,
    counts: Arc<Mutex<LookupCounts>>,
    queue: Arc<ForgetQueue>,
    /// The objects of a removed file need no sync.
    closed_unsynced: Arc<Mutex<ClosedUnsynced>>,
    platform: Platform,
}

impl Lookups {
    pub fn new(
        mds: Arc<MdsSession>,
        counts: Arc<Mutex<LookupCounts>>,
        queue: Arc<ForgetQueue>,
        closed_unsynced: Arc<Mutex<ClosedUnsynced>>,
        platform: Platform,
    ) -> Arc<Lookups> {
        Arc::new(Lookups {
            mds,
            counts,
            queue,
            closed_unsynced,
            platform,
        })
    }

    /// An entry is given to the kernel.
    pub fn add(&self, ino: InodeId) {
        self.counts.lock().add_lookup(ino);
    }

    pub fn add_all(&self, inodes: impl IntoIterator<Item = InodeId>) {
        let mut counts = self.counts.lock();
        inodes.into_iter().for_each(|ino| counts.add_lookup(ino));
    }

    /// A file without a name is given to the kernel.
    pub fn add_orphan(&self, ino: InodeId) {
        let mut counts = self.counts.lock();
        counts.add_lookup(ino);
        let forgotten = counts.set_orphan(ino);
        debug_assert_eq!(forgotten, None, "a lookup was added above");
    }

    pub fn forget(self: &Arc<Self>, given_back: impl IntoIterator<Item = (InodeId, u64)>) {
        let forgotten: Vec<ForgottenOrphan> = {
            let mut counts = self.counts.lock();
            let verdicts = given_back.into_iter().map(|(ino, count)| {
                let forgotten = counts.forget(ino, count);
                self.forget_bytes(&counts, ino);
                forgotten
            });
            verdicts.flatten().collect()
        };
        self.queue_forgets(forgotten);
    }

    pub fn add_open(&self, ino: InodeId) {
        self.counts.lock().add_open(ino);
    }

    pub fn remove_open(self: &Arc<Self>, ino: InodeId) {
        let forgotten = {
            let mut counts = self.counts.lock();
            let forgotten = counts.remove_open(ino);
            self.forget_bytes(&counts, ino);
            forgotten
        };
        self.queue_forgets(forgotten);
    }

    /// The kernel has no pages of an inode that it does not know; another lookup, and so another page, waits for the lock of the counts. It forgets
    /// inodes when memory is short, and when an administrator has it drop its caches: so this client's bytes go, too.
    fn forget_bytes(&self, counts: &LookupCounts, ino: InodeId) {
        if !counts.is_known(ino) {
            self.mds.kernel_pages().forget(ino);
            self.mds.data_cache().forget_file(ino);
        }
    }

    /// The inode has lost its last name.
    pub fn set_orphan(self: &Arc<Self>, ino: InodeId) {
        let forgotten = self.counts.lock().set_orphan(ino);
        self.queue_forgets(forgotten);
    }

    /// The inode has a name (again).
    pub fn clear_orphan(&self, ino: InodeId) {
        self.counts.lock().clear_orphan(ino);
    }

    /// Another client removed the last name of these files. Returns which are open here: their last close makes them forgotten
    /// orphans.
    pub fn set_removed_elsewhere(&self, inodes: &[InodeId]) -> Vec<bool> {
        let mut counts = self.counts.lock();
        inodes
            .iter()
            .map(|ino| counts.set_removed_elsewhere(*ino))
            .collect()
    }

    /// The session ends: sends all orphans.
    pub async fn forget_orphans(self: &Arc<Self>) -> Result<(), FsError> {
        let forgotten = self.counts.lock().drain_orphans();
        self.queue_forgets(forgotten);
        self.send_forgets().await
    }

    /// Known inodes, and how many of them are orphans.
    pub fn count(&self) -> (usize, usize) {
        self.counts.lock().counts()
    }

    /// Queues forgotten orphans, and schedules their sending.
    fn queue_forgets(self: &Arc<Self>, forgotten: impl IntoIterator<Item = ForgottenOrphan>) {
        if !self.queue.add(forgotten) {
            return;
        }
        let lookups = self.clone();
        self.platform.tasks.spawn("send forgotten inodes", async move {
            lookups.platform.clock.sleep(FORGET_DELAY).await;
            lookups.queue.start_send();
            if let Err(error) = lookups.send_forgets().await {
                tracing::warn!(%error, "the metadata server did not take the list of forgotten removed files; the client sends it again with the next one");
            }
        });
    }

    /// Sends all that is queued; a batch that the server refuses stays queued.
    async fn send_forgets(&self) -> Result<(), FsError> {
        loop {
            let mut batch = self.queue.take_batch();
            if batch.is_empty() {
                return Ok(());
            }
            {
                let mut counts = self.counts.lock();
                batch.retain(|ino| !counts.keep_if_open_again(*ino));
            }
            self.closed_unsynced.lock().forget_files(&batch);
            if batch.is_empty() {
                continue;
            }
            let op = MetaOp::Forget {
                inodes: batch.clone(),
            };
            let sent = self.mds.call(&Caller::root(), op).await;
            if let Err(error) = sent.and_then(|reply| reply::done("forgotten", reply)) {
                self.queue.put_back(batch);
                return Err(error);
            }
        }
    }
}
