//! Work that an OST delays.

use super::PendingTruncates;
use gupfs_proto::{FsError, SessionId};
use parking_lot::Mutex;
use serde::Serialize;
use std::collections::BTreeSet;

/// Sessions whose cleanup is not complete, and what delayed the last work of a background task.
#[derive(Default)]
pub struct UnfinishedWork(Mutex<DelayedCleanups>);

#[derive(Default)]
struct DelayedCleanups {
    sessions: BTreeSet<SessionId>,
    last_error: Option<String>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct UnfinishedStatus {
    /// Files that were truncated and whose objects are not truncated yet: their bytes cannot be used.
    pub cuts: u64,
    /// Sessions that ended and whose cleanup is not complete.
    pub sessions: u64,
    /// What delayed the last of them.
    pub last_error: Option<String>,
}

impl UnfinishedWork {
    /// The cleanup of this session is not complete.
    pub fn add(&self, session: SessionId, why: &FsError) {
        let mut list = self.0.lock();
        list.sessions.insert(session);
        list.last_error = Some(why.to_string());
    }

    /// The next session to clean up.
    pub fn take_session(&self) -> Option<SessionId> {
        self.0.lock().sessions.pop_first()
    }

    /// Notes what delays a truncate.
    pub fn note_error(&self, why: &FsError) {
        self.0.lock().last_error = Some(why.to_string());
    }

    pub fn status(&self, truncates: &PendingTruncates) -> UnfinishedStatus {
        let list = self.0.lock();
        UnfinishedStatus {
            cuts: truncates.len() as u64,
            sessions: list.sessions.len() as u64,
            last_error: list.last_error.clone(),
        }
    }
}
