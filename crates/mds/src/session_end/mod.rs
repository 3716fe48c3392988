//! # session_end: what happens after a session has ended
//!
//! Owns   the order of it: the end is recorded, the OSTs fence the session, its orphans are forgotten, its files recovered, its
//!        locks released; and the expiry of sessions that do not renew.
//! Never  waits for an OST that is down beyond the end of the session's last capability: work that the OST delays stays recorded, and a
//!        background task finishes it.
//! Enter  at `SessionEnd::end_by_server`, `SessionEnd::clean_up_session`; at the start at `SessionEnd::clean_up`.

mod cleanup;
mod expiry;

pub use cleanup::{CleanupCounts, DeadSessions};

use crate::callback::CallbackTable;
use crate::grace::Grace;
use crate::locks::LockService;
use crate::origin::RequestOrigin;
use crate::osts::Targets;
use crate::pending_work::UnfinishedWork;
use crate::session_registry::SessionRegistry;
use crate::shard_driver::ShardDriver;
use crate::store::MetadataStore;
use crate::writer_recovery::WriterRecovery;
use gupfs_namespace::RecordKey;
use gupfs_platform::Clock;
use gupfs_proto::SessionId;
use std::sync::Arc;

pub struct SessionEnd {
    store: Arc<MetadataStore>,
    registry: Arc<SessionRegistry>,
    driver: Arc<ShardDriver>,
    targets: Arc<Targets>,
    recovery: Arc<WriterRecovery>,
    callbacks: Arc<CallbackTable>,
    locks: Arc<LockService>,
    grace: Arc<Grace>,
    unfinished: Arc<UnfinishedWork>,
    clock: Clock,
}

/// What `SessionEnd` uses of the server.
pub struct SessionEndParts {
    pub store: Arc<MetadataStore>,
    pub registry: Arc<SessionRegistry>,
    pub driver: Arc<ShardDriver>,
    pub targets: Arc<Targets>,
    pub recovery: Arc<WriterRecovery>,
    pub callbacks: Arc<CallbackTable>,
    pub locks: Arc<LockService>,
    pub grace: Arc<Grace>,
    pub unfinished: Arc<UnfinishedWork>,
    pub clock: Clock,
}

impl SessionEnd {
    pub fn new(parts: SessionEndParts) -> SessionEnd {
        SessionEnd {
            store: parts.store,
            registry: parts.registry,
            driver: parts.driver,
            targets: parts.targets,
            recovery: parts.recovery,
            callbacks: parts.callbacks,
            locks: parts.locks,
            grace: parts.grace,
            unfinished: parts.unfinished,
            clock: parts.clock,
        }
    }

    /// Ends a session that its client did not close.
    pub async fn end_by_server(&self, session: SessionId) {
        if self.registry.unregister_if_registered(session) {
            self.evict(session).await;
        }
    }

    /// Cleans up after a session whose client may be alive and not know that the session ended. Removes its registration first,
    /// and durably: a start must not count a session as alive that its client has given up. The rest of the cleanup does not need
    /// the registration.
    pub async fn evict(&self, session: SessionId) {
        let recorded = match self
            .driver
            .stage_server_records(vec![(RecordKey::session(session), None)])
        {
            Ok(seq) => {
                self.store
                    .durable(RequestOrigin::server("end session"), seq)
                    .await
            }
            Err(error) => Err(error),
        };
        match recorded {
            Ok(_) => self.registry.may_announce_end(session),
            // The next start may find the session alive, so this server gives its leases and locks to no other session before a
            // later attempt records its end.
            Err(error) => {
                tracing::warn!(%session, %error, "the end of a session could not be recorded; the server tries again");
                self.unfinished.add(session, &error);
                return;
            }
        }
        self.targets.fence(session).await;
        self.clean_up_session(session).await;
    }

    /// Cleans up after one session that ended. A background task tries again what cannot be done now.
    pub async fn clean_up_session(&self, session: SessionId) {
        if let Err(error) = self.clean_up(DeadSessions::One(session)).await {
            tracing::warn!(%session, %error, "the cleanup of a session failed; the server tries again");
            self.unfinished.add(session, &error);
        }
        self.callbacks.finish_cleanup(session);
        self.locks.release_all(session);
        self.grace.recheck();
    }
}
