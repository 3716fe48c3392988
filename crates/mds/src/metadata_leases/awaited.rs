//! Sessions from before a take-over: a change of what one of them may have leases on waits until it has reconnected, or ended.

use super::LeaseService;
use crate::origin::RequestOrigin;
use crate::waits::WaitReason;
use gupfs_namespace::leases::LeaseConflicts;
use gupfs_proto::{FsError, SessionId};
use std::pin::pin;

impl LeaseService {
    /// Returns when the awaited sessions of these conflicts have reconnected, or cannot answer by their leases any more.
    pub(super) async fn wait_returned(
        &self,
        origin: RequestOrigin,
        conflicts: &LeaseConflicts,
    ) -> Result<(), FsError> {
        for session in &conflicts.awaited {
            let returned = self.session_returned(*session);
            self.waits
                .wait(origin, WaitReason::SessionReturn(*session), returned)
                .await?;
        }
        Ok(())
    }

    async fn session_returned(&self, session: SessionId) {
        let signal = self.shard.lock().leases.returned_signal();
        loop {
            let mut changed = pin!(signal.notified());
            changed.as_mut().enable();
            if !self.shard.lock().leases.is_awaited(session) {
                return;
            }
            changed.await;
        }
    }

    /// The sessions from before a take-over that have not reconnected yet.
    pub fn awaited(&self) -> Vec<SessionId> {
        self.shard.lock().leases.awaited()
    }
}
