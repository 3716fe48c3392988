//! How often somebody was refused, and how much was verified for it.

use gupfs_proto::OwnerEpoch;
use gupfs_proto::capability::Fault;
use parking_lot::Mutex;
use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

#[derive(Default)]
pub struct Counts {
    missing: AtomicU64,
    forged: AtomicU64,
    expired: AtomicU64,
    fenced: AtomicU64,
    rights: AtomicU64,
    verified: AtomicU64,
    pub fences: AtomicU64,
    last: Mutex<Option<String>>,
}

/// What the gate has done since the start.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct GateStatus {
    /// The owner whose word was heard last.
    pub epoch: u64,
    /// Sessions that are remembered.
    pub sessions: usize,
    /// HMACs computed: for what was not verified before.
    pub verified: u64,
    /// Sessions that were ended and that the metadata server asked to fence.
    pub fences: u64,
    /// Requests refused, by what was wrong with what they showed.
    pub missing: u64,
    pub forged: u64,
    pub expired: u64,
    pub fenced: u64,
    pub rights: u64,
    /// Who was refused last, and what.
    pub last: Option<String>,
}

impl GateStatus {
    /// Refused because somebody tried what is not his: expiry is no crime.
    pub fn refused(&self) -> u64 {
        self.missing + self.forged + self.fenced + self.rights
    }
}

impl Counts {
    pub fn refused(&self, fault: Fault) {
        let counter = match fault {
            Fault::Missing => &self.missing,
            Fault::Forged => &self.forged,
            Fault::Expired => &self.expired,
            Fault::Fenced => &self.fenced,
            Fault::Rights => &self.rights,
        };
        counter.fetch_add(1, Relaxed);
    }

    pub fn note(&self, who: String) {
        *self.last.lock() = Some(who);
    }

    pub fn verified(&self) {
        self.verified.fetch_add(1, Relaxed);
    }

    pub fn status(&self, epoch: OwnerEpoch, sessions: usize) -> GateStatus {
        GateStatus {
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
