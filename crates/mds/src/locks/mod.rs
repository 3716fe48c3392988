//! # locks: flock, fcntl and OFD locks over all mounts
//!
//! Owns   the table of locks (`gupfs_namespace::locks`) while the server lives; who has not said his again after a start; telling
//!        who waited that he has it.
//! Never  keeps a request waiting for a lock: it is answered that it is in the queue. Has anything on the disk.
//! Enter  at `Core::lock`; at `Locks::ends` and `Locks::ended` when a session ends.

mod again;
mod grants;
mod status;

use crate::core::Core;
use crate::waits::{Awaited, Who};
use gupfs_namespace::locks::{Grant, Table};
use gupfs_proto::lock::Ask;
use gupfs_proto::meta::Answer;
use gupfs_proto::{Refusal, SessionId};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use tokio::sync::Notify;

/// Order of locks: the shard's, then the table's.
#[derive(Default)]
pub struct Locks {
    table: Mutex<Table>,
    /// Sessions from before the start that have not said which locks they hold.
    missing: Mutex<BTreeSet<SessionId>>,
    /// One of them has, or has ended.
    came_back: Notify,
    /// Of which nobody has been told yet.
    granted: Mutex<Vec<Grant>>,
    some_granted: Notify,
}

impl Core {
    /// What a client asks about locks. It takes no lane and changes no record.
    pub async fn lock(&self, who: Who, ask: &Ask) -> Result<Answer, Refusal> {
        if matches!(ask, Ask::Take { .. } | Ask::Test { .. }) {
            self.all_locks_said(who).await?;
        }
        let now = self.platform.clock.boot();
        let asked = {
            // A session that ends now leaves no lock behind: who is registered is cleared up after later than this.
            let shard = self.shard.lock();
            if !shard.sessions.contains_key(&who.session) {
                return Err(Refusal::SessionEnded);
            }
            self.locks.table.lock().ask(who.session, ask, now.0)
        };
        let (said, grants) = asked?;
        self.locks.tell(grants);
        Ok(Answer::Lock(said))
    }

    /// Nobody gets a lock after a start before everybody has said which he holds.
    async fn all_locks_said(&self, who: Who) -> Result<(), Refusal> {
        let missing = self.locks.missing.lock().len();
        if missing == 0 {
            return Ok(());
        }
        let said = self.locks.all_said();
        self.waits.wait(who, Awaited::Returns(missing), said).await
    }
}

impl Locks {
    /// It waits for nothing any more. Called in the moment when it is no longer registered.
    pub fn ends(&self, session: SessionId) {
        self.table.lock().stop_waiting(session);
    }

    /// Its locks are free, for it is fenced and its end is recorded: before that a write that it began under one may still be
    /// done, or a start may find that it lives and believe what it says again.
    pub fn ended(&self, session: SessionId) {
        let grants = self.table.lock().end(session);
        self.tell(grants);
        self.is_back(session);
    }
}
