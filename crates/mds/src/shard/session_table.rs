//! The registered sessions, read only.

use super::{SessionInfo, Shard};
use gupfs_proto::{FsError, SessionId};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Reads which sessions are registered; `SessionRegistry` registers and unregisters them.
#[derive(Clone)]
pub struct SessionTable {
    shard: Arc<Mutex<Shard>>,
}

impl SessionTable {
    pub fn new(shard: Arc<Mutex<Shard>>) -> SessionTable {
        SessionTable { shard }
    }

    pub fn is_registered(&self, session: SessionId) -> bool {
        self.shard.lock().sessions.contains_key(&session)
    }

    /// Runs `act` at a moment when the session is registered: the cleanup of the session runs later than this.
    ///
    /// # Errors
    /// `SessionEnded`.
    pub fn while_registered<T>(
        &self,
        session: SessionId,
        act: impl FnOnce() -> T,
    ) -> Result<T, FsError> {
        let shard = self.shard.lock();
        match shard.sessions.contains_key(&session) {
            true => Ok(act()),
            false => Err(FsError::SessionEnded),
        }
    }

    /// The name that the session's client gave itself; None if the session is not registered.
    pub fn client_of(&self, session: SessionId) -> Option<String> {
        let shard = self.shard.lock();
        let info = shard.sessions.get(&session);
        info.map(|session| session.client.clone())
    }

    pub fn ids(&self) -> Vec<SessionId> {
        self.shard.lock().sessions.keys().copied().collect()
    }

    pub fn infos(&self) -> BTreeMap<SessionId, SessionInfo> {
        self.shard.lock().sessions.clone()
    }
}
