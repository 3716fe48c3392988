//! # metadata_leases: which sessions take leases on metadata, and having them revoked
//!
//! Owns   the callbacks that revoke leases, and their waits.
//! Never  decides what a change breaks or what a reply grants: `shard_driver` does, under the shard's lock, where the table of leases is.
//! Enter  at `LeaseService::accept`, `LeaseService::revoke`.
//!
//! A revocation waits until each session has answered, or until its term is over; the server ends a session that renews its term and does
//! not answer (`overdue`). A client drops leases whatever its own requests wait for: so operations of two sessions that need each other's
//! leases both end.

mod awaited;
mod excess;
mod overdue;
mod status;
mod stop;

pub use status::LeaseStatus;

use crate::callback::{CallbackOutcome, CallbackTable};
use crate::join;
use crate::limits::RETRY;
use crate::origin::RequestOrigin;
use crate::shard::Shard;
use crate::waits::{WaitList, WaitReason};
use excess::ExcessQueue;
use gupfs_namespace::leases::LeaseConflicts;
use gupfs_platform::{BootTime, Clock};
use gupfs_proto::callback::CallbackRequest;
use gupfs_proto::lease::LeaseRevocation;
use gupfs_proto::meta::MetaReplyBody;
use gupfs_proto::{FsError, OwnerEpoch, SessionId};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

pub struct LeaseService {
    shard: Arc<Mutex<Shard>>,
    callbacks: Arc<CallbackTable>,
    waits: Arc<WaitList>,
    clock: Clock,
    owner_epoch: OwnerEpoch,
    /// Sessions have a term. Without one, a client that does not answer would delay a change for ever.
    sessions_expire: bool,
    excess: ExcessQueue,
    counters: LeaseCounters,
}

#[derive(Default)]
struct LeaseCounters {
    /// Callbacks sent.
    revocations: AtomicU64,
    /// Operations that waited for revocations.
    delayed: AtomicU64,
}

/// What the lease service uses of the server.
pub struct LeaseServiceParts {
    pub shard: Arc<Mutex<Shard>>,
    pub callbacks: Arc<CallbackTable>,
    pub waits: Arc<WaitList>,
    pub clock: Clock,
    pub owner_epoch: OwnerEpoch,
    pub sessions_expire: bool,
}

impl LeaseService {
    pub fn new(parts: LeaseServiceParts) -> LeaseService {
        LeaseService {
            shard: parts.shard,
            callbacks: parts.callbacks,
            waits: parts.waits,
            clock: parts.clock,
            owner_epoch: parts.owner_epoch,
            sessions_expire: parts.sessions_expire,
            excess: ExcessQueue::default(),
            counters: LeaseCounters::default(),
        }
    }

    /// From now on the session gets leases with its replies.
    ///
    /// # Errors
    /// `SessionEnded`. `NotSupported`: sessions of this server have no term.
    pub fn accept(&self, session: SessionId) -> Result<MetaReplyBody, FsError> {
        if !self.sessions_expire {
            return Err(FsError::NotSupported);
        }
        let mut shard = self.shard.lock();
        if !shard.sessions.contains_key(&session) {
            return Err(FsError::SessionEnded);
        }
        shard.leases.accept(session);
        // The handler of the connection knows whether it squashes root.
        let root_squashed = false;
        Ok(MetaReplyBody::LeasesAccepted { root_squashed })
    }

    /// Has all these sessions give up leases, and returns when none of them can answer by these any more.
    ///
    /// # Errors
    /// `TimedOut`, with the session that has not answered or not reconnected.
    pub async fn revoke(
        &self,
        origin: RequestOrigin,
        conflicts: LeaseConflicts,
    ) -> Result<(), FsError> {
        tracing::trace!(target: "walk", file = file!(), "revoke");
        self.counters.delayed.fetch_add(1, Relaxed);
        self.wait_returned(origin, &conflicts).await?;
        let not_before = BootTime(conflicts.not_before.as_nanos() as u64);
        if self.clock.boot() < not_before {
            self.clock.sleep_until(not_before).await;
        }
        let revocations = conflicts.revocations.iter();
        let calls = revocations.map(|(session, revocation)| {
            let call = self.revoke_from(*session, revocation);
            self.waits
                .wait(origin, WaitReason::RevokeLeases(*session), call)
        });
        let calls: Vec<_> = calls.collect();
        let at_once = calls.len();
        join::all(calls, at_once).await.into_iter().collect()
    }

    /// Returns when the session has answered, or its term is over.
    async fn revoke_from(&self, session: SessionId, revocation: &LeaseRevocation) {
        tokio::select! {
            biased;
            () = self.call_until_answered(session, revocation) => {}
            never = self.watch_answer(session) => match never {},
        }
    }

    async fn call_until_answered(&self, session: SessionId, revocation: &LeaseRevocation) {
        let request = CallbackRequest::RevokeLeases {
            session,
            instance: self.owner_epoch,
            revocation: revocation.clone(),
        };
        self.counters.revocations.fetch_add(1, Relaxed);
        loop {
            match self
                .callbacks
                .send_while_registered(session, &request)
                .await
            {
                Ok(CallbackOutcome::Reply(_)) => {
                    return self.shard.lock().leases.revoked(session, revocation);
                }
                Ok(CallbackOutcome::SessionEnded) => return self.wait_term_over(session).await,
                // A client needs no server for this answer.
                Err(error) => {
                    tracing::info!(%session, %error, "a session failed the revocation of leases; the revocation is sent again");
                    self.clock.sleep(RETRY).await;
                }
            }
        }
    }

    /// The server has ended the session, and its client may not know.
    async fn wait_term_over(&self, session: SessionId) {
        let term_over = self.shard.lock().leases.term_of_ended(session);
        if let Some(term_over) = term_over {
            self.clock.sleep_until(term_over).await;
            let mut shard = self.shard.lock();
            let now = shard.boot();
            shard.leases.drop_expired(now);
        }
    }
}
