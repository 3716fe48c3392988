//! What one operation has obtained of write leases so far.

use super::queue::QueueGuard;
use gupfs_namespace::CallbackResults;
use gupfs_proto::InodeId;

/// What one operation has obtained of other sessions' write leases: their attribute reports, and its position at the head of a lease
/// queue.
#[derive(Default)]
pub struct LeaseContext<'a> {
    pub results: CallbackResults,
    pub queue_guard: Option<QueueGuard<'a>>,
    /// Callbacks sent to lease holders so far.
    pub callbacks_sent: u32,
}

impl LeaseContext<'_> {
    pub fn is_first_in_queue(&self, ino: InodeId) -> bool {
        self.queue_guard
            .as_ref()
            .is_some_and(|guard| guard.ino() == ino)
    }

    pub fn has_sent_callbacks(&self) -> bool {
        self.callbacks_sent > 0
    }
}
