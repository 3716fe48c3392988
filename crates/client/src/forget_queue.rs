//! Queue of orphans that are neither looked up nor open here any more; the client sends them to the server in batches (`lookups`).

use crate::limits::FORGET_BATCH;
use crate::lookup_counts::ForgottenOrphan;
use gupfs_proto::InodeId;
use parking_lot::Mutex;

#[derive(Default)]
pub struct ForgetQueue(Mutex<QueuedForgets>);

#[derive(Default)]
struct QueuedForgets {
    inodes: Vec<InodeId>,
    /// A task is scheduled that sends them.
    send_is_scheduled: bool,
}

impl ForgetQueue {
    /// Returns whether the caller must schedule a task that sends them.
    #[must_use]
    pub fn add(&self, forgotten: impl IntoIterator<Item = ForgottenOrphan>) -> bool {
        let mut queue = self.0.lock();
        queue
            .inodes
            .extend(forgotten.into_iter().map(|forgotten| forgotten.0));
        let schedules = !queue.inodes.is_empty() && !queue.send_is_scheduled;
        queue.send_is_scheduled |= schedules;
        schedules
    }

    /// The scheduled task begins to send: what is added from here on needs another.
    pub fn start_send(&self) {
        self.0.lock().send_is_scheduled = false;
    }

    /// At most one batch; empty when nothing is queued.
    pub fn take_batch(&self) -> Vec<InodeId> {
        let mut queue = self.0.lock();
        let take = queue.inodes.len().min(FORGET_BATCH);
        queue.inodes.drain(..take).collect()
    }

    /// The server did not take this batch.
    pub fn put_back(&self, batch: Vec<InodeId>) {
        self.0.lock().inodes.extend(batch);
    }

    /// The session has ended, and the server gives up its orphans with it.
    pub fn clear(&self) {
        self.0.lock().inodes.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_task_at_a_time_is_scheduled_and_a_refused_batch_stays_queued() {
        let queue = ForgetQueue::default();
        assert!(!queue.add([]));
        assert!(queue.add([ForgottenOrphan(InodeId(3))]));
        assert!(!queue.add([ForgottenOrphan(InodeId(4))]));
        queue.start_send();
        let batch = queue.take_batch();
        assert_eq!(batch, [InodeId(3), InodeId(4)]);
        assert!(queue.take_batch().is_empty());
        queue.put_back(batch);
        assert!(queue.add([]), "the batch that was put back is queued");
        queue.clear();
        assert!(queue.take_batch().is_empty());
    }
}
