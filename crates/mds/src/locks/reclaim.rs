//! Reclaiming locks: after a start, only the clients know which locks they hold.

use super::LockService;
use crate::core::Core;
use gupfs_namespace::rights::{self, OpenRights};
use gupfs_proto::lock::AdvisoryLock;
use gupfs_proto::meta::MetaRequest;
use gupfs_proto::{FsError, SessionId};
use std::collections::BTreeSet;
use std::pin::pin;

impl LockService {
    /// These sessions may hold locks. Also after an orderly stop, which needs no other grace.
    pub fn expect(&self, sessions: &BTreeSet<SessionId>) {
        self.missing.lock().clone_from(sessions);
    }

    /// The session has reclaimed all of its locks, or has ended.
    pub(super) fn finish_reclaim(&self, session: SessionId) {
        if self.missing.lock().remove(&session) {
            self.reclaimed.notify_waiters();
        }
    }

    pub(super) async fn all_reclaimed(&self) {
        loop {
            let mut reclaimed = pin!(self.reclaimed.notified());
            reclaimed.as_mut().enable();
            if self.missing.lock().is_empty() {
                return;
            }
            reclaimed.await;
        }
    }
}

impl Core {
    /// Reclaims a part of the locks that a reconnecting session held. Does nothing once the session has reclaimed all: it may
    /// have released some since.
    ///
    /// # Errors
    /// `SessionEnded`: another session holds a lock that this one reclaims; the server ends this session. `Denied`: the session
    /// does not prove that it has the file open.
    pub async fn reclaim_locks(
        &self,
        request: &MetaRequest,
        opens: &OpenRights,
        locks: &[AdvisoryLock],
        last: bool,
    ) -> Result<(), FsError> {
        let session = request.session;
        if !self.locks.missing.lock().contains(&session) {
            return Ok(());
        }
        for lock in locks {
            let (ino, access) = (lock.holder.ino, rights::access_for_lock(lock));
            self.check_open(&request.caller, opens, ino, access).await?;
        }
        let claimed = {
            let shard = self.shard.lock();
            if !shard.sessions.contains_key(&session) {
                return Err(FsError::SessionEnded);
            }
            let mut table = self.locks.table.lock();
            locks.iter().try_for_each(|lock| {
                if !lock.range.is_valid() {
                    return Err(format!("{lock:?} covers no bytes"));
                }
                let claimed = table.reclaim(session, *lock);
                claimed.map_err(|why| why.to_string())
            })
        };
        if let Err(why) = claimed {
            tracing::error!(%session, why, "a session reclaims a lock that it cannot hold; the server ends the session");
            self.end_by_server(session).await;
            return Err(FsError::SessionEnded);
        }
        if last {
            self.locks.finish_reclaim(session);
        }
        Ok(())
    }
}
