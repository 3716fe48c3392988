//! Queue of orphans that are neither looked up nor open here any more; the client sends them to the server in batches.

use crate::limits::{FORGET_BATCH, FORGET_DELAY};
use crate::lookup_counts::ForgottenOrphan;
use crate::reply;
use crate::service::Client;
use gupfs_proto::meta::MetaOp;
use gupfs_proto::{Caller, FsError, InodeId};
use parking_lot::Mutex;
use std::sync::Arc;

#[derive(Default)]
pub struct ForgetQueue(Mutex<QueuedForgets>);

#[derive(Default)]
struct QueuedForgets {
    inodes: Vec<InodeId>,
    /// A task is scheduled that sends them.
    send_is_scheduled: bool,
}

impl ForgetQueue {
    /// The session has ended, and the server gives up its orphans with it.
    pub fn clear(&self) {
        self.0.lock().inodes.clear();
    }
}

impl Client {
    /// The kernel (or another user of this library) drops lookups of inodes.
    pub fn forget(self: &Arc<Self>, given_back: impl IntoIterator<Item = (InodeId, u64)>) {
        let forgotten: Vec<ForgottenOrphan> = {
            let mut lookup_counts = self.lookup_counts.lock();
            let verdicts = given_back
                .into_iter()
                .map(|(ino, count)| lookup_counts.forget(ino, count));
            verdicts.flatten().collect()
        };
        self.queue_forgets(forgotten);
    }

    /// Adds one lookup for each of these inodes: entries of `readdir` with attributes that the caller has passed on.
    pub fn add_lookups(&self, inodes: impl IntoIterator<Item = InodeId>) {
        let mut lookup_counts = self.lookup_counts.lock();
        inodes
            .into_iter()
            .for_each(|ino| lookup_counts.add_lookup(ino));
    }

    /// Queues forgotten orphans, and schedules their sending.
    pub(crate) fn queue_forgets(
        self: &Arc<Self>,
        forgotten: impl IntoIterator<Item = ForgottenOrphan>,
    ) {
        let start = {
            let mut queue = self.forget_queue.0.lock();
            queue
                .inodes
                .extend(forgotten.into_iter().map(|forgotten| forgotten.0));
            let start = !queue.inodes.is_empty() && !queue.send_is_scheduled;
            queue.send_is_scheduled |= start;
            start
        };
        if start {
            let client = self.clone();
            self.platform.tasks.spawn("send forgotten inodes", async move {
                client.platform.clock.sleep(FORGET_DELAY).await;
                client.forget_queue.0.lock().send_is_scheduled = false;
                if let Err(error) = client.send_forgets().await {
                    tracing::warn!(%error, "the metadata server did not take the list of forgotten removed files; the client sends it again with the next one");
                }
            });
        }
    }

    /// Sends all that is queued; a batch that the server refuses stays queued.
    pub(crate) async fn send_forgets(&self) -> Result<(), FsError> {
        loop {
            let batch: Vec<InodeId> = {
                let mut queue = self.forget_queue.0.lock();
                let take = queue.inodes.len().min(FORGET_BATCH);
                queue.inodes.drain(..take).collect()
            };
            if batch.is_empty() {
                return Ok(());
            }
            self.inodes.closed_unsynced.lock().forget_files(&batch);
            let op = MetaOp::Forget {
                inodes: batch.clone(),
            };
            let sent = self.call_mds(&Caller::root(), op).await;
            if let Err(error) = sent.and_then(|reply| reply::done("forgotten", reply)) {
                self.forget_queue.0.lock().inodes.extend(batch);
                return Err(error);
            }
        }
    }
}
