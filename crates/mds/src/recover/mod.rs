//! # recover: what ended sessions left behind
//!
//! Owns   the start: all work that must be done before the first reply; and the cleanup of a session that ends.
//! Never  waits for an OST that is down: work that it delays stays recorded, and a background task finishes it.
//! Enter  at `Core::recover`, `Core::clean_up_session`.

mod cleanup;
mod writer;

use crate::core::Core;
use crate::limits::SCAN_STEP;
use crate::records::damaged_record;
use crate::survey::MetadataLoss;
use crate::waits::RequestOrigin;
use cleanup::DeadSessions;
use gupfs_namespace::{KeyRange, ParsedKey, Purge, PurgeAction, Record, RecordKey, RecordKind};
use gupfs_proto::{FsError, SessionId, VirtualShard};
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

/// Counts of a cleanup.
#[derive(Clone, Copy, Default)]
struct CleanupCounts {
    sessions: u64,
    sessions_left: u64,
    orphans: u64,
    writers: u64,
}

impl Core {
    /// Recovers what was left before this start. The server does not serve yet. Every session in the records is dead, unless
    /// sessions are kept: then the registered ones may reconnect. `in_order`: the former owner stopped in order, so every
    /// answered change is here.
    pub async fn recover(
        &self,
        keep_sessions: bool,
        in_order: bool,
    ) -> Result<RecoveryReport, FsError> {
        let begun = self.platform.clock.boot();
        let mut report = RecoveryReport::default();
        // Truncates first: bytes behind a file's end must not count when its writer is recovered.
        (report.cuts_resumed, report.cuts_left) = self.resume_truncates().await?;
        let cleared = if keep_sessions {
            let recorded = self.register_recorded().await?;
            report.kept_sessions = recorded.len() as u64;
            self.removed_files.expect();
            self.locks.expect(&recorded);
            let cleared = self.clean_up(DeadSessions::AllBut(&recorded)).await?;
            if !in_order {
                self.grace.expect(recorded);
            }
            cleared
        } else {
            self.clean_up(DeadSessions::All).await?
        };
        report.dead_sessions = cleared.sessions + cleared.sessions_left;
        report.sessions_left = cleared.sessions_left;
        report.orphans_forgotten = cleared.orphans;
        report.writers = cleared.writers;
        let shards: Vec<VirtualShard> = self.all_shards().collect();
        // One sync now instead of one at the first file in each shard. The rest of the former blocks stays unused.
        self.reserve_blocks(RequestOrigin::server("start"), &shards)
            .await?;
        report.millis = self.platform.clock.boot().since(begun).as_millis() as u64;
        Ok(report)
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

    /// Lists every promised truncate and runs it; returns how many are done, and how many an OST delays.
    async fn resume_truncates(&self) -> Result<(u64, u64), FsError> {
        let seq = self.kv.last_seq();
        for shard in self.all_shards() {
            let range = KeyRange::of_kind(shard, RecordKind::Purge);
            self.each_record(range, |key, value| {
                let Some(ParsedKey::Purge(id)) = key.parse() else {
                    return Err(damaged_record(key, "no key of a purge"));
                };
                let purge = Purge::decode(value).map_err(|error| damaged_record(key, error))?;
                if matches!(purge.action, PurgeAction::Truncate { .. }) {
                    self.pending_truncates.add(id, seq, purge.objects(id));
                }
                Ok(())
            })
            .await?;
        }
        let (mut resumed, mut left) = (0, 0);
        for truncate in self.pending_truncates.all() {
            match self
                .run_truncate(RequestOrigin::server("truncate"), truncate)
                .await
            {
                Ok(()) => resumed += 1,
                Err(error @ FsError::StoreFailed(_)) => return Err(error),
                Err(_) => left += 1,
            }
        }
        Ok((resumed, left))
    }

    /// Visits every record of a range, in order, read in steps.
    pub async fn each_record(
        &self,
        mut range: KeyRange,
        mut visit: impl FnMut(&RecordKey, &bytes::Bytes) -> Result<(), FsError>,
    ) -> Result<(), FsError> {
        loop {
            let records = self.scan_now(&range, SCAN_STEP).await?;
            for (key, value) in &records {
                visit(key, value)?;
            }
            match records.last() {
                Some((last, _)) if records.len() == SCAN_STEP => range.from = last.successor(),
                _ => return Ok(()),
            }
        }
    }
}
