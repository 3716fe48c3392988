//! # locks: flock, fcntl and OFD locks over all mounts
//!
//! Owns   the table of locks (`gupfs_namespace::locks`) while the server lives; which sessions have not reclaimed their locks
//!        after a start; the grant callbacks to waiting sessions.
//! Never  keeps a request waiting for a lock: the reply says that it is queued. Writes anything to disk.
//! Enter  at `LockService::lock`; at `LockService::stop_waiting` and `LockService::release_all` when a session ends.

mod grants;
mod reclaim;
mod status;

use reclaim::ExpectedLocks;
pub use reclaim::ReclaimRefused;

use crate::callback::CallbackTable;
use crate::origin::RequestOrigin;
use crate::serving::ServingState;
use crate::shard::SessionTable;
use crate::store::MetadataStore;
use crate::waits::WaitList;
use gupfs_namespace::locks::{LockGrant, LockTable};
use gupfs_platform::Platform;
use gupfs_proto::lock::LockRequest;
use gupfs_proto::meta::MetaReplyBody;
use gupfs_proto::{FsError, OwnerEpoch, SessionId};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::Notify;

/// Lock order: the shard's mutex, then the table's.
pub struct LockService {
    sessions: SessionTable,
    callbacks: Arc<CallbackTable>,
    waits: Arc<WaitList>,
    store: Arc<MetadataStore>,
    serving: Arc<ServingState>,
    platform: Platform,
    owner_epoch: OwnerEpoch,
    table: Mutex<LockTable>,
    /// Sessions from before the start that have not reclaimed their locks yet.
    missing: Mutex<BTreeMap<SessionId, ExpectedLocks>>,
    /// Signals that one of them has, or has ended.
    reclaimed: Notify,
    /// Grants that no callback carries yet.
    granted: Mutex<Vec<LockGrant>>,
    some_granted: Notify,
}

/// What the lock service uses of the server.
pub struct LockServiceParts {
    pub sessions: SessionTable,
    pub callbacks: Arc<CallbackTable>,
    pub waits: Arc<WaitList>,
    pub store: Arc<MetadataStore>,
    pub serving: Arc<ServingState>,
    pub platform: Platform,
    pub owner_epoch: OwnerEpoch,
}

impl LockService {
    pub fn new(parts: LockServiceParts) -> LockService {
        LockService {
            sessions: parts.sessions,
            callbacks: parts.callbacks,
            waits: parts.waits,
            store: parts.store,
            serving: parts.serving,
            platform: parts.platform,
            owner_epoch: parts.owner_epoch,
            table: Mutex::default(),
            missing: Mutex::default(),
            reclaimed: Notify::new(),
            granted: Mutex::default(),
            some_granted: Notify::new(),
        }
    }

    /// A client's lock request. It uses no slot and changes no record.
    pub async fn lock(
        &self,
        origin: RequestOrigin,
        request: &LockRequest,
    ) -> Result<MetaReplyBody, FsError> {
        if let LockRequest::Acquire { lock, .. } | LockRequest::Test { lock } = request {
            self.wait_for_reclaims(origin, lock.holder.ino).await?;
        }
        let now = self.platform.clock.boot();
        // A session that ends now leaves no lock behind: the cleanup of a registered session runs later than this.
        let outcome = self.sessions.while_registered(origin.session, || {
            self.table.lock().request(origin.session, request, now.0)
        })?;
        let (reply, grants) = outcome?;
        self.queue_grants(grants);
        Ok(MetaReplyBody::Lock(reply))
    }

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
