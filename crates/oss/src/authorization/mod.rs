//! # authorization: whether a request's credentials allow it
//!
//! Owns   the capability keys of each shard group's owner, the verified session and object capabilities, the fenced sessions.
//! Never  sends a request, reads an object; computes an HMAC for a capability that was verified before.
//! Enter  at `Authorizer::authorize` for each request of another process; `Authorizer::update_keys` and `Authorizer::fence` for
//!        the metadata server's replies and requests.
//!
//! Nothing of this survives a restart: the server handles no request before the metadata server's next reply, which has the keys
//! and all ended sessions with capabilities that have not expired.

mod counts;
mod keys;
mod required_credentials;
mod session;

pub use counts::AuthorizerStatus;

use counts::RequestCounts;
use gupfs_platform::BootTime;
use gupfs_platform::hash::Map;
use gupfs_proto::capability::{
    CapabilityFault, CapabilityMac, CapabilityStatement, DataCredentials, ObjectCapability,
    SessionCapability,
};
use gupfs_proto::cluster::CapabilityKeys;
use gupfs_proto::data::{DataOp, DataRequest};
use gupfs_proto::limits::SERVER_TERM;
use gupfs_proto::{InodeId, OstId, OwnerEpoch, SessionId, ShardGroup};
use gupfs_rpc::ClusterKey;
use keys::EpochKeys;
use parking_lot::RwLock;
use required_credentials::RequiredCredentials;
use session::SessionState;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::time::Duration;

/// How long an unused or fenced session stays in memory: its last capability expires long before.
const SESSION_MEMORY: Duration = SERVER_TERM.saturating_mul(2);

#[derive(Default)]
pub struct Authorizer {
    keys: RwLock<EpochKeys>,
    /// Boot time of the request behind the last keys: the time base for dropping sessions.
    last_heard: AtomicU64,
    /// The verified credentials of each group's owner for each target.
    servers: RwLock<Map<(OstId, ShardGroup), (OwnerEpoch, CapabilityMac)>>,
    sessions: RwLock<Map<SessionId, Arc<SessionState>>>,
    counts: RequestCounts,
}

/// An authorized request; it counts as running until this is dropped.
pub struct AuthorizedRequest(Option<Arc<SessionState>>);

impl Drop for AuthorizedRequest {
    fn drop(&mut self) {
        if let Some(session) = &self.0 {
            session.end_request();
        }
    }
}

impl Authorizer {
    /// Sets the cluster key, one half of every capability key. Called before the first `update_keys`.
    pub fn set_cluster_key(&self, cluster: Option<ClusterKey>) {
        self.keys.write().set_cluster_key(cluster);
    }

    /// Takes keys and ended sessions from the metadata server's reply to a request sent at `requested_at` or later.
    pub fn update_keys(&self, capability_keys: &CapabilityKeys, requested_at: BootTime) {
        let epoch = capability_keys.epoch;
        let (is_current, newest) = {
            let mut keys = self.keys.write();
            let is_current = keys.update(capability_keys, requested_at);
            let newest = keys.newest(epoch.group());
            // What was verified of a former owner is refused from now on.
            (self.servers.write())
                .retain(|(_, group), (verified, _)| *group != epoch.group() || *verified == newest);
            (is_current, newest)
        };
        self.last_heard.fetch_max(requested_at.0, AcqRel);
        if !is_current {
            tracing::warn!(
                received = epoch.0,
                newest = newest.0,
                "ignored the keys of a former metadata server"
            );
            return;
        }
        // An owner ends its own sessions.
        let ended = capability_keys.ended_sessions.iter();
        for ended in ended.filter(|ended| ended.group() == epoch.group()) {
            self.session_or_new(*ended).fence(requested_at);
        }
        let since = BootTime(
            requested_at
                .0
                .saturating_sub(SESSION_MEMORY.as_nanos() as u64),
        );
        self.sessions.write().retain(|_, session| {
            Arc::strong_count(session) > 1 || !session.can_be_forgotten(since)
        });
    }

    /// Authorizes a request. Credentials that were verified before only need comparisons.
    ///
    /// # Errors
    /// The fault of the credentials, which this counts.
    pub fn authorize(
        &self,
        request: &DataRequest,
        now: BootTime,
    ) -> Result<AuthorizedRequest, CapabilityFault> {
        let authorized = self.check(request, now);
        if let Err(fault) = &authorized {
            self.counts.count_refused(*fault);
        }
        authorized
    }

    fn check(
        &self,
        request: &DataRequest,
        now: BootTime,
    ) -> Result<AuthorizedRequest, CapabilityFault> {
        let required = RequiredCredentials::of(&request.op);
        match (request.credentials, required) {
            (DataCredentials::None, _) => Err(CapabilityFault::Missing),
            (DataCredentials::Server { epoch, mac }, _) => {
                self.check_server(request.ost, epoch, mac)?;
                match request.op {
                    // An owner ends its own sessions.
                    DataOp::Fence { session } if session.group() != epoch.group() => {
                        Err(CapabilityFault::Rights)
                    }
                    _ => Ok(AuthorizedRequest(None)),
                }
            }
            (DataCredentials::Client { .. }, RequiredCredentials::Server) => {
                Err(CapabilityFault::Rights)
            }
            (
                DataCredentials::Client {
                    session_capability,
                    object_capability,
                },
                _,
            ) => {
                let session = self.check_session(request.session, &session_capability, now)?;
                session.begin_request();
                let authorized = AuthorizedRequest(Some(session.clone()));
                if session.is_fenced() {
                    return Err(CapabilityFault::Fenced);
                }
                if let RequiredCredentials::File(ino, rights) = required {
                    let object_capability = object_capability.ok_or(CapabilityFault::Missing)?;
                    self.check_object(request, &session, ino, object_capability)?;
                    if !object_capability.rights.contains(rights) {
                        return Err(CapabilityFault::Rights);
                    }
                }
                Ok(authorized)
            }
        }
    }

    fn check_server(
        &self,
        ost: OstId,
        epoch: OwnerEpoch,
        mac: CapabilityMac,
    ) -> Result<(), CapabilityFault> {
        let server = (ost, epoch.group());
        if self.servers.read().get(&server) == Some(&(epoch, mac)) {
            return Ok(());
        }
        let keys = self.keys.read();
        let statement = CapabilityStatement::Server { epoch, ost };
        let verified = keys.verify_for_ost(ost, epoch, &statement, &mac);
        self.counts.count_verified();
        match verified {
            Some(true) if keys.newest(epoch.group()).is_after(epoch) => {
                Err(CapabilityFault::Fenced)
            }
            Some(true) => {
                self.servers.write().insert(server, (epoch, mac));
                Ok(())
            }
            Some(false) => Err(CapabilityFault::Forged),
            None => Err(CapabilityFault::Expired),
        }
    }

    /// The state of the session, if its capability is valid. Only a session with a verified capability gets a state.
    fn check_session(
        &self,
        number: SessionId,
        session_capability: &SessionCapability,
        now: BootTime,
    ) -> Result<Arc<SessionState>, CapabilityFault> {
        if number.group() != session_capability.epoch.group() {
            return Err(CapabilityFault::Forged);
        }
        let known = self.sessions.read().get(&number).cloned();
        let verified_until = known
            .as_ref()
            .and_then(|session| session.verified_expiry(session_capability));
        if let (Some(session), Some(until)) = (&known, verified_until) {
            return match now < until {
                true => Ok(session.clone()),
                false => Err(CapabilityFault::Expired),
            };
        }
        let (verified, until) = {
            let keys = self.keys.read();
            let statement = CapabilityStatement::Session {
                epoch: session_capability.epoch,
                session: number,
                until: session_capability.until,
            };
            let verified = keys.verify_session(
                session_capability.epoch,
                &statement,
                &session_capability.mac,
            );
            (
                verified,
                keys.local_expiry(session_capability.epoch, session_capability.until),
            )
        };
        self.counts.count_verified();
        match (verified, until) {
            (Some(false), _) => Err(CapabilityFault::Forged),
            (Some(true), Some(until)) if now < until => {
                let session = self.session_or_new(number);
                session.remember_session(*session_capability, until);
                Ok(session)
            }
            _ => Err(CapabilityFault::Expired),
        }
    }

    fn check_object(
        &self,
        request: &DataRequest,
        session: &SessionState,
        ino: InodeId,
        object_capability: ObjectCapability,
    ) -> Result<(), CapabilityFault> {
        // The session's owner has issued it.
        if object_capability.epoch.group() != request.session.group() {
            return Err(CapabilityFault::Forged);
        }
        // Verified or not.
        if !self.keys.read().is_valid(object_capability.epoch) {
            return Err(CapabilityFault::Expired);
        }
        if session.is_verified(request.ost, ino, &object_capability) {
            return Ok(());
        }
        let statement = CapabilityStatement::File {
            epoch: object_capability.epoch,
            ost: request.ost,
            session: request.session,
            ino,
            rights: object_capability.rights,
        };
        let verified = (self.keys.read()).verify_for_ost(
            request.ost,
            object_capability.epoch,
            &statement,
            &object_capability.mac,
        );
        self.counts.count_verified();
        match verified {
            Some(true) => {
                session.remember_object(request.ost, ino, object_capability);
                Ok(())
            }
            Some(false) => Err(CapabilityFault::Forged),
            None => Err(CapabilityFault::Expired),
        }
    }

    fn session_or_new(&self, number: SessionId) -> Arc<SessionState> {
        if let Some(session) = self.sessions.read().get(&number) {
            return session.clone();
        }
        self.sessions.write().entry(number).or_default().clone()
    }

    /// Fences a session: when this returns, no request of it is running and all later ones are refused.
    pub async fn fence(&self, number: SessionId) {
        let session = self.session_or_new(number);
        session.fence(BootTime(self.last_heard.load(Acquire)));
        self.counts.fences.fetch_add(1, Relaxed);
        session.wait_idle().await;
    }

    /// Sets the text about the last refused request for the status.
    pub fn set_last_refused(&self, request: String) {
        self.counts.set_last_refused(request);
    }

    /// The counts of requests, and the newest epoch whose keys arrived.
    pub fn status(&self) -> AuthorizerStatus {
        let epoch = self.keys.read().newest(ShardGroup::FIRST);
        self.counts.status(epoch, self.sessions.read().len())
    }
}

#[cfg(test)]
mod tests;
