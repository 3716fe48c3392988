//! The end of all leases when the server stops.

use super::LeaseService;
use crate::join;
use crate::limits::STOP_REVOKE_TIMEOUT;

impl LeaseService {
    /// Grants no more leases, and has all sessions give up theirs: the next owner may change anything at once. Returns whether all have
    /// answered in time; if not, the next owner must wait for these sessions.
    pub async fn revoke_all(&self) -> bool {
        self.shard.lock().leases.begin_stop();
        let all = async {
            loop {
                let leases = self.shard.lock().leases.oldest();
                if leases.is_empty() {
                    return;
                }
                let calls = leases
                    .iter()
                    .map(|(session, revocation)| self.revoke_from(*session, revocation));
                let calls: Vec<_> = calls.collect();
                let at_once = calls.len();
                join::all(calls, at_once).await;
            }
        };
        let in_time = tokio::select! {
            biased;
            () = all => true,
            () = self.clock.sleep(STOP_REVOKE_TIMEOUT) => false,
        };
        if !in_time {
            let sessions: Vec<String> = (self.shard.lock().leases.oldest().keys())
                .map(ToString::to_string)
                .collect();
            tracing::warn!(
                sessions = sessions.join(", "),
                "sessions did not give up their leases; the next start waits until they have reconnected or expired"
            );
        }
        in_time
    }
}
