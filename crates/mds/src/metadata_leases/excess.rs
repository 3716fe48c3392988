//! Revocation of leases because there are too many: no operation waits for it.

use super::LeaseService;
use gupfs_platform::Tasks;
use gupfs_proto::SessionId;
use gupfs_proto::lease::LeaseRevocation;
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::sync::Notify;

/// Revocations that no task carries yet: at most one for each session.
#[derive(Default)]
pub(super) struct ExcessQueue {
    revocations: Mutex<Vec<(SessionId, LeaseRevocation)>>,
    some: Notify,
}

impl LeaseService {
    /// Has a session give up leases in the background.
    pub fn revoke_later(&self, session: SessionId, revocation: LeaseRevocation) {
        self.excess.revocations.lock().push((session, revocation));
        self.excess.some.notify_one();
    }

    /// Calls each session in a task of its own: one that cannot be reached does not delay the others.
    pub async fn run_excess(self: Arc<Self>, tasks: Tasks) {
        loop {
            let revocations = std::mem::take(&mut *self.excess.revocations.lock());
            for (session, revocation) in revocations {
                let service = self.clone();
                tasks.spawn("lease excess", async move {
                    service.revoke_from(session, &revocation).await;
                    service.shard.lock().leases.excess_answered(session);
                });
            }
            self.excess.some.notified().await;
        }
    }
}
