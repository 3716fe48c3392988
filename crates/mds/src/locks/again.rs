//! Locks said again: after a start their clients know them alone.

use super::Locks;
use crate::core::Core;
use gupfs_namespace::rights::{self, Opens};
use gupfs_proto::lock::Lock;
use gupfs_proto::meta::Request;
use gupfs_proto::{Refusal, SessionId};
use std::collections::BTreeSet;
use std::pin::pin;

impl Locks {
    /// These sessions may hold locks. Also after a stop in order, which needs no other grace.
    pub fn expect(&self, sessions: &BTreeSet<SessionId>) {
        self.missing.lock().clone_from(sessions);
    }

    /// It has said all of its locks, or has ended.
    pub(super) fn is_back(&self, session: SessionId) {
        if self.missing.lock().remove(&session) {
            self.came_back.notify_waiters();
        }
    }

    pub(super) async fn all_said(&self) {
        loop {
            let mut came_back = pin!(self.came_back.notified());
            came_back.as_mut().enable();
            if self.missing.lock().is_empty() {
                return;
            }
            came_back.await;
        }
    }
}

impl Core {
    /// A part of what a session held, as it comes back. Nothing once it has said all: it may have freed some since.
    ///
    /// # Errors
    /// `SessionEnded`: another holds what it counts on. It is ended. `Denied`: of a file that it does not prove to have open.
    pub async fn hear_locks(
        &self,
        request: &Request,
        opens: &Opens,
        locks: &[Lock],
        last: bool,
    ) -> Result<(), Refusal> {
        let session = request.session;
        if !self.locks.missing.lock().contains(&session) {
            return Ok(());
        }
        for lock in locks {
            let (ino, access) = (lock.holder.ino, rights::access_to_lock(lock));
            self.must_be_open(&request.caller, opens, ino, access)
                .await?;
        }
        let claimed = {
            let shard = self.shard.lock();
            if !shard.sessions.contains_key(&session) {
                return Err(Refusal::SessionEnded);
            }
            let mut table = self.locks.table.lock();
            locks.iter().try_for_each(|lock| {
                if !lock.extent.is_valid() {
                    return Err(format!("{lock:?} is of no bytes"));
                }
                let claimed = table.claim(session, *lock);
                claimed.map_err(|why| why.to_string())
            })
        };
        if let Err(why) = claimed {
            tracing::error!(%session, why, "a session says that it holds a lock that it cannot hold; it is ended");
            self.end_from_here(session).await;
            return Err(Refusal::SessionEnded);
        }
        if last {
            self.locks.is_back(session);
        }
        Ok(())
    }
}
