//! The recovery of a start: all work that must be done before the first reply.
//!
//! It does not wait for an OST that is down: work that it delays stays recorded, and a background task finishes it.

use crate::grace::Grace;
use crate::inode_numbers::InodeNumbers;
use crate::locks::LockService;
use crate::origin::RequestOrigin;
use crate::pending_work::RemovedFiles;
use crate::session_end::{DeadSessions, SessionEnd};
use crate::session_registry::SessionRegistry;
use crate::store::MetadataStore;
use crate::survey::MetadataLoss;
use crate::truncates::TruncateRunner;
use gupfs_platform::Clock;
use gupfs_proto::{FsError, VirtualShard};
use serde::Serialize;

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

/// What recovery uses of the server.
pub struct StartRecovery<'a> {
    pub store: &'a MetadataStore,
    pub truncates: &'a TruncateRunner,
    pub registry: &'a SessionRegistry,
    pub removed_files: &'a RemovedFiles,
    pub locks: &'a LockService,
    pub grace: &'a Grace,
    pub session_end: &'a SessionEnd,
    pub numbers: &'a InodeNumbers,
    pub clock: &'a Clock,
}

impl StartRecovery<'_> {
    /// Recovers what was left before this start. The server does not serve yet. Every session in the records is dead, unless
    /// sessions are kept: then the registered ones may reconnect. `in_order`: the former owner stopped in order, so every
    /// answered change is here.
    ///
    /// # Errors
    /// `StoreFailed`, or the error of a background operation.
    pub async fn recover(
        &self,
        keep_sessions: bool,
        in_order: bool,
    ) -> Result<RecoveryReport, FsError> {
        let begun = self.clock.boot();
        let mut report = RecoveryReport::default();
        // Truncates first: bytes behind a file's end must not count when its writer is recovered.
        (report.cuts_resumed, report.cuts_left) = self.truncates.resume_truncates().await?;
        let cleared = if keep_sessions {
            let recorded = self.registry.register_recorded().await?;
            report.kept_sessions = recorded.len() as u64;
            self.removed_files.expect();
            self.locks.expect(&recorded);
            let cleared = self
                .session_end
                .clean_up(DeadSessions::AllBut(&recorded))
                .await?;
            if !in_order {
                self.grace.expect(recorded);
            }
            cleared
        } else {
            self.session_end.clean_up(DeadSessions::All).await?
        };
        report.dead_sessions = cleared.sessions + cleared.sessions_left;
        report.sessions_left = cleared.sessions_left;
        report.orphans_forgotten = cleared.orphans;
        report.writers = cleared.writers;
        let shards: Vec<VirtualShard> = self.store.all_shards().collect();
        // One sync now instead of one at the first file in each shard. The rest of the former blocks stays unused.
        self.numbers
            .reserve_blocks(RequestOrigin::server("start"), &shards)
            .await?;
        report.millis = self.clock.boot().since(begun).as_millis() as u64;
        Ok(report)
    }
}
