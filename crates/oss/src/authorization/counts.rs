//! Counters of refused requests and of computed MACs.

use gupfs_proto::OwnerEpoch;
use gupfs_proto::capability::CapabilityFault;
use parking_lot::Mutex;
use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

#[derive(Default)]
pub struct RequestCounts {
    missing: AtomicU64,
    forged: AtomicU64,
    expired: AtomicU64,
    fenced: AtomicU64,
    rights: AtomicU64,
    verified: AtomicU64,
    pub fences: AtomicU64,
    last: Mutex<Option<String>>,
}

/// What the authorizer has done since the start.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct AuthorizerStatus {
    /// The newest owner epoch that the metadata server has sent.
    pub epoch: u64,
    /// Sessions in memory.
    pub sessions: usize,
    /// HMACs computed, for credentials that were not verified before.
    pub verified: u64,
    /// Sessions fenced at the metadata server's request.
    pub fences: u64,
    /// Refused requests, by the fault of their credentials.
    pub missing: u64,
    pub forged: u64,
    pub expired: u64,
    pub fenced: u64,
    pub rights: u64,
    /// The requester and the operation of the last refused request.
    pub last: Option<String>,
}

impl AuthorizerStatus {
    /// Requests refused because of invalid credentials. Expired ones do not count: a client renews them.
    pub fn refused(&self) -> u64 {
        self.missing + self.forged + self.fenced + self.rights
    }
}

impl RequestCounts {
    pub fn count_refused(&self, fault: CapabilityFault) {
        let counter = match fault {
            CapabilityFault::Missing => &self.missing,
            CapabilityFault::Forged => &self.forged,
            CapabilityFault::Expired => &self.expired,
            CapabilityFault::Fenced => &self.fenced,
            CapabilityFault::Rights => &self.rights,
        };
        counter.fetch_add(1, Relaxed);
    }

    pub fn set_last_refused(&self, request: String) {
        *self.last.lock() = Some(request);
    }

    pub fn count_verified(&self) {
        self.verified.fetch_add(1, Relaxed);
    }

    pub fn status(&self, epoch: OwnerEpoch, sessions: usize) -> AuthorizerStatus {
        AuthorizerStatus {
            epoch: epoch.0,
            sessions,
            verified: self.verified.load(Relaxed),
            fences: self.fences.load(Relaxed),
            missing: self.missing.load(Relaxed),
            forged: self.forged.load(Relaxed),
            expired: self.expired.load(Relaxed),
            fenced: self.fenced.load(Relaxed),
            rights: self.rights.load(Relaxed),
            last: self.last.lock().clone(),
        }
    }
}
