//! Grant callbacks: tells sessions that their waiting lock requests were granted.

use super::LockService;
use crate::limits::DEADLINE;
use gupfs_namespace::locks::LockGrant;
use gupfs_proto::callback::CallbackRequest;
use std::sync::Arc;

impl LockService {
    pub(super) fn queue_grants(&self, mut grants: Vec<LockGrant>) {
        if !grants.is_empty() {
            self.granted.lock().append(&mut grants);
            self.some_granted.notify_one();
        }
    }

    /// Calls each session in a task of its own: one that cannot be reached does not delay the others.
    pub async fn run_lock_grants(self: Arc<Self>) {
        loop {
            let grants = std::mem::take(&mut *self.granted.lock());
            for grant in grants {
                let sending = self.clone().send_grant(grant);
                self.platform.tasks.spawn("lock grant", sending);
            }
            self.some_granted.notified().await;
        }
    }

    /// Calls until the client has replied, or has ended: nothing else sends this grant.
    async fn send_grant(self: Arc<Self>, grant: LockGrant) {
        let request = CallbackRequest::LockGranted {
            session: grant.session,
            instance: self.owner_epoch,
            acquire: grant.acquire_number,
            grant_seq: grant.grant_seq,
        };
        while !self.serving.is_stopping() && self.store.failure().is_none() {
            tokio::select! {
                biased;
                reply = self.callbacks.send_callback(grant.session, &request) => {
                    if reply.is_ok() {
                        self.table.lock().grant_delivered(&grant);
                        return;
                    }
                }
                () = self.platform.clock.sleep(DEADLINE) => {}
            }
        }
    }
}
