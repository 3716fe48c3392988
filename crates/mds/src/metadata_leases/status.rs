//! What `gupfs status` shows of leases on metadata.

use super::LeaseService;
use crate::waits::WaitReason;
use gupfs_proto::SessionId;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

/// Leases on metadata.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct LeaseStatus {
    /// Leases of all sessions.
    pub leases: u64,
    /// The number of leases of each session that takes some.
    pub sessions: BTreeMap<SessionId, u64>,
    /// Keys that a change under way has closed to grants.
    pub closed_keys: u64,
    /// Directories that several sessions change by turns: the server grants no leases on them.
    pub shared_directories: u64,
    /// Since the start: revocations sent, and operations that waited for some.
    pub revocations: u64,
    pub delayed: u64,
    /// Sessions for whose answer to a revocation an operation waits now.
    pub waiting_for: u64,
}

impl LeaseService {
    pub fn status(&self) -> LeaseStatus {
        let (counts, sessions) = {
            let shard = self.shard.lock();
            (
                shard.leases.counts(shard.boot()),
                shard.leases.of_sessions(),
            )
        };
        let is_revocation = |reason: &WaitReason| matches!(reason, WaitReason::RevokeLeases(_));
        LeaseStatus {
            leases: counts.leases as u64,
            sessions: (sessions.into_iter())
                .map(|(session, leases)| (session, leases as u64))
                .collect(),
            closed_keys: counts.closed_keys as u64,
            shared_directories: counts.shared_directories as u64,
            revocations: self.counters.revocations.load(Relaxed),
            delayed: self.counters.delayed.load(Relaxed),
            waiting_for: self.waits.count(is_revocation) as u64,
        }
    }
}
