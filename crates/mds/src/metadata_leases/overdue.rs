//! Sessions that renew their terms and do not answer: without an end, one of them would delay every change of what it has read.

use super::LeaseService;
use crate::limits::{REVOKE_ANSWER_MAX, REVOKE_ANSWER_STEP};
use gupfs_proto::SessionId;
use std::convert::Infallible;
use std::future::pending;
use std::time::Duration;

impl LeaseService {
    /// Has the session ended if it has been connected for `REVOKE_ANSWER_MAX` since this call. Drop it when the session has answered.
    pub(super) async fn watch_answer(&self, session: SessionId) -> Infallible {
        let mut connected = Duration::ZERO;
        while connected < REVOKE_ANSWER_MAX {
            // Step by step: if this process did not run for a while, that counts as one step.
            self.clock.sleep(REVOKE_ANSWER_STEP).await;
            if self.callbacks.is_connected(session) {
                connected += REVOKE_ANSWER_STEP;
            }
        }
        tracing::warn!(
            %session,
            "a session is connected and has not answered the revocation of leases for {REVOKE_ANSWER_MAX:?}; the server ends it"
        );
        self.shard.lock().leases.note_overdue(session);
        pending().await
    }
}
