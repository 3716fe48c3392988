//! Telling those who waited that they have their lock.

use super::Locks;
use crate::core::Core;
use crate::limits::DEADLINE;
use gupfs_namespace::locks::Grant;
use gupfs_proto::recall::Request;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

impl Locks {
    pub(super) fn tell(&self, mut grants: Vec<Grant>) {
        if !grants.is_empty() {
            self.granted.lock().append(&mut grants);
            self.some_granted.notify_one();
        }
    }
}

impl Core {
    /// Each client on a task of its own: one that cannot be reached holds up no other.
    pub async fn tell_grants_for_ever(self: Arc<Self>) {
        loop {
            let grants = std::mem::take(&mut *self.locks.granted.lock());
            for grant in grants {
                let telling = self.clone().tell_grant(grant);
                self.platform.tasks.spawn("tell of a lock", telling);
            }
            self.locks.some_granted.notified().await;
        }
    }

    /// Until the client has heard, or is no more: nobody else will ask for it.
    async fn tell_grant(self: Arc<Self>, grant: Grant) {
        let question = Request::Granted {
            session: grant.session,
            life: self.owner_epoch,
            take: grant.take,
            turn: grant.turn,
        };
        while !self.stopping.load(SeqCst) && self.failure().is_none() {
            tokio::select! {
                biased;
                heard = self.ask_session(grant.session, &question) => {
                    if heard.is_ok() {
                        self.locks.table.lock().was_heard(&grant);
                        return;
                    }
                }
                () = self.platform.clock.sleep(DEADLINE) => {}
            }
        }
    }
}
