//! What an OST kept from being finished: cuts, and clearing up after sessions whose files it holds. Tried again until done.

use crate::core::Core;
use crate::limits::RETRY;
use crate::waits::Who;
use gupfs_proto::{Refusal, SessionId};
use parking_lot::Mutex;
use serde::Serialize;
use std::collections::BTreeSet;
use std::sync::Arc;

#[derive(Default)]
pub struct Unfinished(Mutex<List>);

#[derive(Default)]
struct List {
    sessions: BTreeSet<SessionId>,
    last_error: Option<String>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct UnfinishedStatus {
    /// Files that were truncated and not cut yet: their bytes cannot be used.
    pub cuts: u64,
    /// Sessions that ended and are not cleared up after.
    pub sessions: u64,
    /// What kept the last of them from being finished.
    pub last_error: Option<String>,
}

impl Unfinished {
    pub fn add(&self, session: SessionId, why: &Refusal) {
        let mut list = self.0.lock();
        list.sessions.insert(session);
        list.last_error = Some(why.to_string());
    }
}

impl Core {
    pub(super) async fn finish_for_ever(self: Arc<Self>) {
        while self.failure().is_none() {
            self.world.clock.sleep(RETRY).await;
            self.finish_cuts().await;
            let sessions = std::mem::take(&mut self.unfinished.0.lock().sessions);
            for session in sessions {
                self.evict(session).await;
            }
        }
    }

    pub fn unfinished_status(&self) -> UnfinishedStatus {
        let list = self.unfinished.0.lock();
        UnfinishedStatus {
            cuts: self.cuts.len() as u64,
            sessions: list.sessions.len() as u64,
            last_error: list.last_error.clone(),
        }
    }

    /// Cuts that nobody is carrying out now: whoever promised them gave up or is dead.
    async fn finish_cuts(&self) {
        for cut in self.cuts.all() {
            let idle = cut.done.try_lock().is_ok();
            if idle && let Err(refusal) = self.carry_out(Who::own("cut"), cut).await {
                self.unfinished.0.lock().last_error = Some(refusal.to_string());
            }
        }
    }
}
