//! The recovery of a start: all work that must be done before the first reply.
//!
//! It does not wait for an OST that is down: work that it delays stays recorded, and a background task finishes it.

use crate::grace::Grace;
use crate::inode_numbers::InodeNumbers;
use crate::interest_records::InterestRecords;
use crate::locks::LockService;
use crate::origin::RequestOrigin;
use crate::pending_work::RemovedFiles;
use crate::session_end::{CleanupCounts, DeadSessions, SessionEnd};
use crate::session_registry::SessionRegistry;
use crate::store::MetadataStore;
use crate::survey::MetadataLoss;
use crate::truncates::TruncateRunner;
use gupfs_platform::Clock;
use gupfs_proto::{FsError, VirtualShard};
use serde::Serialize;
use std::collections::BTreeSet;

/// What a start found and did.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct RecoveryReport {
    /// The store was empty and has been formatted.
    pub formatted: bool,
    /// Changes that the log replayed into the index.
    pub replayed: u64,
    /// The log ended in a change that was written in part: no reply depended on it.
    pub log_was_torn: bool,
    pub dead_sessions: u64,
    /// Sessions that may reconnect.
    pub kept_sessions: u64,
    /// Among the dead sessions: those with a file whose objects an OST could not report; a background task goes on.
    pub sessions_left: u64,
    /// Files without a name that only dead sessions had open.
    pub orphans_forgotten: u64,
    /// Files with a write lease of a dead session: size and objects are as the OSTs report.
    pub writers: u64,
    pub cuts_resumed: u64,
    pub cuts_left: u64,
    pub millis: u64,
    /// The store was an older copy, and the operator accepted the loss.
    pub loss: Option<MetadataLoss>,
}

/// What a start may assume of the answers of the former owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FormerOwner {
    /// Every change that it answered is in the store, and no session has a lease.
    StoppedInOrder,
    /// Every change that it answered is in the store.
    KeptMemory,
    /// Clients may have to replay changes that were answered and not synced.
    LostMemory,
}

/// What recovery uses of the server.
pub struct StartRecovery<'a> {
    pub store: &'a MetadataStore,
    pub truncates: &'a TruncateRunner,
    pub registry: &'a SessionRegistry,
    pub removed_files: &'a RemovedFiles,
    pub locks: &'a LockService,
    pub grace: &'a Grace,
    pub session_end: &'a SessionEnd,
    pub interests: &'a InterestRecords,
    pub numbers: &'a InodeNumbers,
    pub clock: &'a Clock,
}

impl StartRecovery<'_> {
    /// Recovers what was left before this start. The server does not serve yet. Every session in the records is dead, unless
    /// sessions are kept: then the registered ones may reconnect.
    ///
    /// # Errors
    /// `StoreFailed`, or the error of a background operation.
    pub async fn recover(
        &self,
        keep_sessions: bool,
        former: FormerOwner,
    ) -> Result<RecoveryReport, FsError> {
        let begun = self.clock.boot();
        let mut report = RecoveryReport::default();
        let mut cleared = CleanupCounts::default();
        let recorded = match keep_sessions {
            true => self.registry.register_recorded().await?,
            false => BTreeSet::new(),
        };
        let interests = match keep_sessions {
            true => self.interests.restore(&recorded).await?,
            false => None,
        };
        if keep_sessions {
            report.kept_sessions = recorded.len() as u64;
            self.removed_files.expect();
            // Where the former owner's memory is lost, so may be the last of them.
            let reliable = former != FormerOwner::LostMemory;
            let known = interests.as_ref().filter(|_| reliable);
            self.locks.expect(&recorded, known);
        }
        match interests {
            // A change waits for those sessions alone that may have leases on what it changes. The truncates are such changes, so nothing
            // is truncated or cleaned up before sessions can reconnect.
            Some(interests)
                if former == FormerOwner::KeptMemory
                    && !self.session_end.has_leftovers(&recorded).await? =>
            {
                report.cuts_left = self.truncates.list_truncates().await?;
                self.registry.expect(interests);
            }
            _ => {
                // Truncates first: bytes behind a file's end must not count when its writer is recovered.
                (report.cuts_resumed, report.cuts_left) = self.truncates.resume_truncates().await?;
                let dead = match keep_sessions {
                    true => DeadSessions::AllBut(&recorded),
                    false => DeadSessions::All,
                };
                cleared = self.session_end.clean_up(dead).await?;
                if keep_sessions && former != FormerOwner::StoppedInOrder {
                    self.grace.expect(recorded);
                }
            }
        }
        report.dead_sessions = cleared.sessions + cleared.sessions_left;
        report.sessions_left = cleared.sessions_left;
        report.orphans_forgotten = cleared.orphans;
        report.writers = cleared.writers;
        self.interests.begin().await?;
        let shards: Vec<VirtualShard> = self.store.all_shards().collect();
        // One sync now instead of one at the first file in each shard. The rest of the former blocks stays unused.
        self.numbers
            .reserve_blocks(RequestOrigin::server("start"), &shards)
            .await?;
        report.millis = self.clock.boot().since(begun).as_millis() as u64;
        Ok(report)
    }
}
