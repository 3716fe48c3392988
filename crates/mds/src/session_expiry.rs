//! Expiry of sessions: each session renews now and then, and the server ends it when it has not renewed for its term.
//!
//! Only where sessions outlive the server (`MdsOptions::keep_sessions`). After a start all sessions count as renewed just now:
//! the `grace` in which they reconnect lasts so long.

use crate::core::Core;
use crate::limits::{EXPIRY_CHECK_EVERY, OST_CALLS, STALL_MIN};
use crate::records::damaged_record;
use crate::shard::{SessionInfo, Shard};
use crate::waits::RequestOrigin;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use gupfs_namespace::{KeyRange, ParsedKey, Record, RecordKey, RecordKind, SessionRecord};
use gupfs_proto::capability::SessionCapability;
use gupfs_proto::limits::SERVER_TERM;
use gupfs_proto::{FsError, SessionId, VirtualShard};
use std::collections::{BTreeSet, VecDeque};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

impl Core {
    /// Keeps the recorded sessions from before this start registered.
    pub async fn register_recorded(&self) -> Result<BTreeSet<SessionId>, FsError> {
        let now = self.platform.clock.boot();
        let mut found = Vec::new();
        let range = KeyRange::of_kind(VirtualShard(0), RecordKind::Session);
        self.each_record(range, |key, value| {
            if let Some(ParsedKey::Session(session)) = key.parse() {
                let record =
                    SessionRecord::decode(value).map_err(|error| damaged_record(key, error))?;
                found.push((session, record));
            }
            Ok(())
        })
        .await?;
        let mut shard = self.shard.lock();
        for (session, record) in found {
            let info = SessionInfo {
                client: record.client,
                since: record.created,
            };
            shard.register(session, info, now);
        }
        Ok(shard.sessions.keys().copied().collect())
    }

    /// Renews the session's term; returns the session capability that the client shows to OSTs.
    ///
    /// # Errors
    /// `SessionEnded`.
    pub fn renew(&self, session: SessionId) -> Result<Option<SessionCapability>, FsError> {
        let now = self.platform.clock.boot();
        let mut shard = self.shard.lock();
        let last_heard = shard.last_heard.get_mut(&session);
        *last_heard.ok_or(FsError::SessionEnded)? = now;
        // Under the lock: a task that ends the session knows of this session capability.
        Ok((self.targets.issuer()).map(|issuer| issuer.session_capability(session)))
    }

    /// Unregisters the session; the caller cleans up after it.
    pub fn unregister(&self, shard: &mut Shard, session: SessionId) {
        shard.sessions.remove(&session);
        shard.last_heard.remove(&session);
        self.callbacks.begin_cleanup(session);
        self.locks.stop_waiting(session);
        self.grace.remove_missing(session);
        if let Some(issuer) = self.targets.issuer() {
            issuer.session_ended(session);
        }
    }

    /// Allows to announce the session's end to OSTs: its client has closed it, or no later owner can count it as alive.
    pub fn may_announce_end(&self, session: SessionId) {
        if let Some(issuer) = self.targets.issuer() {
            issuer.may_announce_end(session);
        }
    }

    /// Ends a session that its client did not close.
    pub async fn end_by_server(&self, session: SessionId) {
        {
            let mut shard = self.shard.lock();
            if !shard.sessions.contains_key(&session) {
                return;
            }
            self.unregister(&mut shard, session);
        }
        self.evict(session).await;
    }

    /// Cleans up after a session whose client may be alive and not know that the session ended. Removes its registration first,
    /// and durably: a start must not count a session as alive that its client has given up. The rest of the cleanup does not need
    /// the registration.
    pub async fn evict(&self, session: SessionId) {
        let recorded = match self.stage_server_records(vec![(RecordKey::session(session), None)]) {
            Ok(seq) => {
                self.durable(RequestOrigin::server("end session"), seq)
                    .await
            }
            Err(error) => Err(error),
        };
        match recorded {
            Ok(_) => self.may_announce_end(session),
            // The next start may find the session alive, so this server gives its leases and locks to no other session before a
            // later attempt records its end.
            Err(error) => {
                tracing::warn!(%session, %error, "the end of a session could not be recorded; the server tries again");
                self.unfinished.add(session, &error);
                return;
            }
        }
        self.fence(session).await;
        self.clean_up_session(session).await;
    }

    /// Ends the sessions whose term is over, until the server fails. The cleanup of one session may wait for an OST that is down;
    /// the others end in time all the same.
    pub async fn run_session_expiry(self: Arc<Self>) {
        let mut ended = VecDeque::new();
        let mut clearing = FuturesUnordered::new();
        while self.failure().is_none() {
            let due = self.platform.clock.boot() + EXPIRY_CHECK_EVERY;
            let mut pause = pin!(self.platform.clock.sleep_until(due));
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
            let late = self.platform.clock.boot().since(due);
            if late > STALL_MIN {
                tracing::warn!(
                    ?late,
                    "this server did not run for a while; the terms of all sessions are extended by that time"
                );
                self.extend_terms(late);
            }
            for session in self.unregister_expired() {
                tracing::warn!(%session, "a session did not renew within its term; the server ends it");
                ended.push_back(session);
            }
        }
    }

    /// A session that renewed while the server did not run is not silent: the server reads its request next.
    fn extend_terms(&self, time: Duration) {
        let mut shard = self.shard.lock();
        for last_heard in shard.last_heard.values_mut() {
            *last_heard = *last_heard + time;
        }
    }

    fn unregister_expired(&self) -> Vec<SessionId> {
        let now = self.platform.clock.boot();
        let mut shard = self.shard.lock();
        let overdue = |last_heard| now.since(last_heard) > SERVER_TERM;
        let sessions: Vec<SessionId> = (shard.last_heard.iter())
            .filter(|(_, last_heard)| overdue(**last_heard))
            .map(|(session, _)| *session)
            .collect();
        for session in &sessions {
            self.unregister(&mut shard, *session);
        }
        sessions
    }
}
