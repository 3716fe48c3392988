//! # recover: what dead sessions left behind
//!
//! Owns   the start: everything that must be settled before the first answer; and clearing up after a session that ends.
//! Never  waits for an OST that is down: what cannot be settled stays recorded, and a chore settles it later.
//! Enter  at `Core::recover`, `Core::end_session`.

mod clear;
mod writer;

use crate::core::Core;
use crate::limits::SCAN_STEP;
use crate::records::damaged;
use crate::survey::Loss;
use crate::waits::Who;
use clear::Dead;
use gupfs_namespace::{Key, KeyRange, Kind, Parsed, Purge, PurgeWhat, Record};
use gupfs_proto::{Refusal, SessionId, VirtualShard};
use serde::Serialize;

/// What a start found and did.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct RecoveryReport {
    /// The store was empty and has been formatted.
    pub formatted: bool,
    /// Changes that the log gave the index again.
    pub replayed: u64,
    /// The log ended in a change that was written in part: nobody was answered by it.
    pub log_was_torn: bool,
    pub dead_sessions: u64,
    /// Sessions that may come back.
    pub kept_sessions: u64,
    /// Of those, the ones with a file whose objects an OST could not tell of; a chore goes on.
    pub sessions_left: u64,
    /// Files without a name that only dead sessions held.
    pub orphans_forgotten: u64,
    /// Files that dead sessions were writing: size and objects are as the OSTs say.
    pub writers: u64,
    pub cuts_resumed: u64,
    pub cuts_left: u64,
    pub millis: u64,
    /// The store was an older copy, and the operator went on with it.
    pub loss: Option<Loss>,
}

/// What clearing up after sessions did.
#[derive(Clone, Copy, Default)]
struct Cleared {
    sessions: u64,
    sessions_left: u64,
    orphans: u64,
    writers: u64,
}

impl Core {
    /// Settles what the time before this start left. Nobody is served yet. Every session in the records is dead, unless they
    /// are kept: then those that are registered may come back.
    /// `in_order`: the former owner stopped, and everything that was answered is here.
    pub async fn recover(
        &self,
        keep_sessions: bool,
        in_order: bool,
    ) -> Result<RecoveryReport, Refusal> {
        let begun = self.platform.clock.boot();
        let mut report = RecoveryReport::default();
        // Cuts first: what lies behind a file's end must not count when its writer is recovered.
        (report.cuts_resumed, report.cuts_left) = self.resume_cuts().await?;
        let cleared = if keep_sessions {
            let kept = self.register_recorded().await?;
            report.kept_sessions = kept.len() as u64;
            self.removals.expect();
            self.locks.expect(&kept);
            let cleared = self.clear_up(Dead::AllBut(&kept)).await?;
            if !in_order {
                self.grace.expect(kept);
            }
            cleared
        } else {
            self.clear_up(Dead::All).await?
        };
        report.dead_sessions = cleared.sessions + cleared.sessions_left;
        report.sessions_left = cleared.sessions_left;
        report.orphans_forgotten = cleared.orphans;
        report.writers = cleared.writers;
        let shards: Vec<VirtualShard> = self.all_shards().collect();
        // One sync now instead of one at the first file in each shard. What was left of the former blocks is a gap.
        self.give_numbers(Who::own("start"), &shards).await?;
        report.millis = self.platform.clock.boot().since(begun).as_millis() as u64;
        Ok(report)
    }

    /// Clears up after one session, that ended or was ended. What cannot be done now is tried again by a chore.
    pub async fn end_session(&self, session: SessionId) {
        if let Err(refusal) = self.clear_up(Dead::One(session)).await {
            tracing::warn!(%session, %refusal, "a session could not be cleared up after");
            self.unfinished.add(session, &refusal);
        }
        self.holders.ended(session);
        self.locks.ended(session);
        self.grace.looks_again();
    }

    /// Lists every promised cut and carries it out; returns how many were, and how many an OST kept from it.
    async fn resume_cuts(&self) -> Result<(u64, u64), Refusal> {
        let seq = self.kv.last_seq();
        for shard in self.all_shards() {
            let range = KeyRange::of_kind(shard, Kind::Purge);
            self.each_record(range, |key, value| {
                let Some(Parsed::Purge(id)) = key.parse() else {
                    return Err(damaged(key, "no key of a purge"));
                };
                let purge = Purge::decode(value).map_err(|error| damaged(key, error))?;
                if matches!(purge.what, PurgeWhat::Cut { .. }) {
                    self.cuts.add(id, seq, purge.objects(id));
                }
                Ok(())
            })
            .await?;
        }
        let (mut resumed, mut left) = (0, 0);
        for cut in self.cuts.all() {
            match self.carry_out(Who::own("cut"), cut).await {
                Ok(()) => resumed += 1,
                Err(refusal @ Refusal::StoreFailed(_)) => return Err(refusal),
                Err(_) => left += 1,
            }
        }
        Ok((resumed, left))
    }

    /// Every record of a range, in order, read in steps.
    pub async fn each_record(
        &self,
        mut range: KeyRange,
        mut visit: impl FnMut(&Key, &bytes::Bytes) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
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
