//! Registers, renews and unregisters sessions, under the shard's lock.
//!
//! What must happen at the moment when a session is unregistered happens here. The cleanup after it is in `session_end`.

use crate::callback::CallbackTable;
use crate::capabilities::CapabilityIssuer;
use crate::grace::Grace;
use crate::locks::LockService;
use crate::shard::{SessionInfo, Shard};
use crate::store::{MetadataStore, damaged_record};
use gupfs_namespace::{InterestSet, KeyRange, ParsedKey, Record, RecordKind, SessionRecord};
use gupfs_platform::Clock;
use gupfs_proto::capability::SessionCapability;
use gupfs_proto::limits::SERVER_TERM;
use gupfs_proto::{FsError, SessionId, Timestamp, VirtualShard};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

pub struct SessionRegistry {
    shard: Arc<Mutex<Shard>>,
    store: Arc<MetadataStore>,
    callbacks: Arc<CallbackTable>,
    locks: Arc<LockService>,
    grace: Arc<Grace>,
    issuer: Option<Arc<CapabilityIssuer>>,
    clock: Clock,
}

impl SessionRegistry {
    pub fn new(
        shard: Arc<Mutex<Shard>>,
        store: Arc<MetadataStore>,
        callbacks: Arc<CallbackTable>,
        locks: Arc<LockService>,
        grace: Arc<Grace>,
        issuer: Option<Arc<CapabilityIssuer>>,
        clock: Clock,
    ) -> SessionRegistry {
        SessionRegistry {
            shard,
            store,
            callbacks,
            locks,
            grace,
            issuer,
            clock,
        }
    }

    /// Keeps the recorded sessions from before this start registered.
    pub async fn register_recorded(&self) -> Result<BTreeSet<SessionId>, FsError> {
        let now = self.clock.boot();
        let mut recorded = Vec::new();
        let range = KeyRange::of_kind(VirtualShard(0), RecordKind::Session);
        self.store
            .each_record(range, |key, value| {
                if let Some(ParsedKey::Session(session)) = key.parse() {
                    let record =
                        SessionRecord::decode(value).map_err(|error| damaged_record(key, error))?;
                    recorded.push((session, record));
                }
                Ok(())
            })
            .await?;
        let mut shard = self.shard.lock();
        for (session, record) in recorded {
            let info = SessionInfo {
                client: record.client,
                since: record.created,
            };
            shard.register(session, info, now);
        }
        Ok(shard.sessions.keys().copied().collect())
    }

    /// Registers a session whose record is staged.
    pub fn register(&self, shard: &mut Shard, session: SessionId, client: &str, since: Timestamp) {
        let info = SessionInfo {
            client: client.to_owned(),
            since,
        };
        shard.register(session, info, self.clock.boot());
    }

    /// Renews the session's term; returns the session capability that the client shows to OSTs.
    ///
    /// # Errors
    /// `SessionEnded`.
    pub fn renew(&self, session: SessionId) -> Result<Option<SessionCapability>, FsError> {
        let now = self.clock.boot();
        let mut shard = self.shard.lock();
        let last_heard = shard.last_heard.get_mut(&session);
        *last_heard.ok_or(FsError::SessionEnded)? = now;
        // Under the lock: a task that ends the session knows of this session capability.
        Ok((self.issuer.as_ref()).map(|issuer| issuer.session_capability(session)))
    }

    /// Unregisters a session that its client has closed: it answers nothing by its leases any more.
    pub fn unregister_closed(&self, shard: &mut Shard, session: SessionId) {
        shard.leases.drop_session(session);
        self.unregister(shard, session);
    }

    /// Unregisters the session; the caller cleans up after it. Its client may not know yet: its leases end with its term.
    fn unregister(&self, shard: &mut Shard, session: SessionId) {
        shard.sessions.remove(&session);
        let now = self.clock.boot();
        let last_heard = shard.last_heard.remove(&session).unwrap_or(now);
        shard
            .leases
            .end_session(session, last_heard + SERVER_TERM, now);
        self.callbacks.begin_cleanup(session);
        self.locks.stop_waiting(session);
        self.grace.remove_missing(session);
        if let Some(issuer) = &self.issuer {
            issuer.session_ended(session);
        }
    }

    /// Unregisters the session if it is registered, and returns whether it was.
    pub fn unregister_if_registered(&self, session: SessionId) -> bool {
        let mut shard = self.shard.lock();
        let is_registered = shard.sessions.contains_key(&session);
        if is_registered {
            self.unregister(&mut shard, session);
        }
        is_registered
    }

    /// Unregisters the sessions whose term is over, and returns them.
    pub fn unregister_expired(&self) -> Vec<SessionId> {
        let now = self.clock.boot();
        let mut shard = self.shard.lock();
        let overdue = |last_heard| now.since(last_heard) > SERVER_TERM;
        let sessions: Vec<SessionId> = (shard.last_heard.iter())
            .filter(|(_, last_heard)| overdue(**last_heard))
            .map(|(session, _)| *session)
            .collect();
        for session in &sessions {
            self.unregister(&mut shard, *session);
        }
        shard.leases.drop_expired(now);
        sessions
    }

    /// Unregisters the sessions that renew and do not answer a revocation of leases, and returns them.
    pub fn unregister_overdue(&self) -> Vec<SessionId> {
        let mut shard = self.shard.lock();
        let mut sessions: Vec<SessionId> = shard.leases.take_overdue().into_iter().collect();
        sessions.retain(|session| shard.sessions.contains_key(session));
        for session in &sessions {
            self.unregister(&mut shard, *session);
        }
        sessions
    }

    /// These sessions may have leases that the former owner granted, as it has recorded.
    pub fn expect(&self, awaited: BTreeMap<SessionId, InterestSet>) {
        self.shard.lock().leases.expect(awaited);
    }

    /// The session has reconnected after a start.
    pub fn note_returned(&self, session: SessionId) {
        self.shard.lock().leases.note_returned(session);
    }

    /// Allows to announce the session's end to OSTs: its client has closed it, or no later owner can count it as alive.
    pub fn may_announce_end(&self, session: SessionId) {
        if let Some(issuer) = &self.issuer {
            issuer.may_announce_end(session);
        }
    }

    /// A session that renewed while the server did not run is not silent: the server reads its request next.
    pub fn extend_terms(&self, time: Duration) {
        let mut shard = self.shard.lock();
        for last_heard in shard.last_heard.values_mut() {
            *last_heard = *last_heard + time;
        }
    }
}
