//! # locks: flock, fcntl and OFD locks over all mounts
//!
//! Owns   the table of locks (`gupfs_namespace::locks`) while the server lives; which sessions have not reclaimed their locks
//!        after a start; the grant callbacks to waiting sessions.
//! Never  keeps a request waiting for a lock: the reply says that it is queued. Writes anything to disk.
//! Enter  at `Core::lock`; at `LockService::stop_waiting` and `LockService::release_all` when a session ends.

mod grants;
mod reclaim;
mod status;

use crate::core::Core;
use crate::waits::{RequestOrigin, WaitReason};
use gupfs_namespace::locks::{LockGrant, LockTable};
use gupfs_proto::lock::LockRequest;
use gupfs_proto::meta::MetaReplyBody;
use gupfs_proto::{FsError, SessionId};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use tokio::sync::Notify;

/// Lock order: the shard's mutex, then the table's.
#[derive(Default)]
pub struct LockService {
    table: Mutex<LockTable>,
    /// Sessions from before the start that have not reclaimed their locks yet.
    missing: Mutex<BTreeSet<SessionId>>,
    /// Signals that one of them has, or has ended.
    reclaimed: Notify,
    /// Grants that no callback carries yet.
    granted: Mutex<Vec<LockGrant>>,
    some_granted: Notify,
}

impl Core {
    /// A client's lock request. It uses no slot and changes no record.
    pub async fn lock(
        &self,
        origin: RequestOrigin,
        request: &LockRequest,
    ) -> Result<MetaReplyBody, FsError> {
        if matches!(
            request,
            LockRequest::Acquire { .. } | LockRequest::Test { .. }
        ) {
            self.wait_for_reclaims(origin).await?;
        }
        let now = self.platform.clock.boot();
        let outcome = {
            // A session that ends now leaves no lock behind: the cleanup of a registered session runs later than this.
            let shard = self.shard.lock();
            if !shard.sessions.contains_key(&origin.session) {
                return Err(FsError::SessionEnded);
            }
            self.locks
                .table
                .lock()
                .request(origin.session, request, now.0)
        };
        let (reply, grants) = outcome?;
        self.locks.queue_grants(grants);
        Ok(MetaReplyBody::Lock(reply))
    }

    /// After a start, no session gets a lock before all sessions have reclaimed theirs.
    async fn wait_for_reclaims(&self, origin: RequestOrigin) -> Result<(), FsError> {
        let missing = self.locks.missing.lock().len();
        if missing == 0 {
            return Ok(());
        }
        let reclaimed = self.locks.all_reclaimed();
        self.waits
            .wait(origin, WaitReason::SessionReplays(missing), reclaimed)
            .await
    }
}

impl LockService {
    /// The session waits for no lock any more. Called at the moment when the server unregisters it.
    pub fn stop_waiting(&self, session: SessionId) {
        self.table.lock().stop_waiting(session);
    }

    /// Releases the session's locks, for it is fenced and its end is recorded: before that, a write that it began under a lock
    /// may still take effect, or a start may find the session alive and accept its reclaims.
    pub fn release_all(&self, session: SessionId) {
        let grants = self.table.lock().end_session(session);
        self.queue_grants(grants);
        self.finish_reclaim(session);
    }
}
