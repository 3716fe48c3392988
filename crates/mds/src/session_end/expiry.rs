//! Expiry of sessions: each session renews now and then, and the server ends it when it has not renewed for its term, or when it owes
//! the answer to a revocation of leases for too long.
//!
//! Only where sessions outlive the server (`MdsOptions::keep_sessions`). After a start all sessions count as renewed just now:
//! the `grace` in which they reconnect lasts so long.

use super::SessionEnd;
use crate::limits::{EXPIRY_CHECK_EVERY, OST_CALLS, STALL_MIN};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;

impl SessionEnd {
    /// Ends the sessions whose term is over, and those that do not answer, until the server fails. The cleanup of one session may wait for
    /// an OST that is down; the others end in time all the same.
    pub async fn run_session_expiry(self: Arc<Self>) {
        let mut ended = VecDeque::new();
        let mut clearing = FuturesUnordered::new();
        while self.store.failure().is_none() {
            let due = self.clock.boot() + EXPIRY_CHECK_EVERY;
            let mut pause = pin!(self.clock.sleep_until(due));
            loop {
                while clearing.len() < OST_CALLS
                    && let Some(session) = ended.pop_front()
                {
                    clearing.push(self.evict(session));
                }
                tokio::select! {
                    biased;
                    () = &mut pause => break,
                    Some(()) = clearing.next() => {}
                }
            }
            let late = self.clock.boot().since(due);
            if late > STALL_MIN {
                tracing::warn!(
                    ?late,
                    "this server did not run for a while; the terms of all sessions are extended by that time"
                );
                self.registry.extend_terms(late);
            }
            for session in self.registry.unregister_expired() {
                tracing::warn!(%session, "a session did not renew within its term; the server ends it");
                ended.push_back(session);
            }
            // The lease service has logged why.
            ended.extend(self.registry.unregister_overdue());
        }
    }
}
