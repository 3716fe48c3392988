//! Cleanup of ended sessions: forgets their orphans, recovers the files they wrote, then removes their stored replies and
//! their registration.

use super::SessionEnd;
use crate::join;
use crate::limits::{OST_CALLS, SCAN_STEP};
use crate::origin::RequestOrigin;
use gupfs_namespace::{BackgroundOp, KeyRange, ParsedKey, RecordKey, RecordKind, UNASKED_SESSIONS};
use gupfs_proto::limits::BACKGROUND_BATCH;
use gupfs_proto::{FsError, InodeId, Seq, SessionId, VirtualShard};
use std::collections::{BTreeMap, BTreeSet};

/// The sessions to clean up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeadSessions<'a> {
    /// The server does not serve yet: all sessions.
    All,
    /// All but these, which may reconnect; records that wait for the replies of all sessions stay, too.
    AllBut(&'a BTreeSet<SessionId>),
    One(SessionId),
}

/// Counts of a cleanup.
#[derive(Clone, Copy, Default)]
pub struct CleanupCounts {
    pub sessions: u64,
    pub sessions_left: u64,
    pub orphans: u64,
    pub writers: u64,
}

impl DeadSessions<'_> {
    fn contains(self, session: SessionId) -> bool {
        match self {
            DeadSessions::All => true,
            DeadSessions::AllBut(excepted) => {
                session != UNASKED_SESSIONS && !excepted.contains(&session)
            }
            DeadSessions::One(one) => session == one,
        }
    }
}

impl SessionEnd {
    /// Cleans up after these sessions, as far as the OSTs that store their files allow.
    ///
    /// # Errors
    /// `StoreFailed`.
    pub async fn clean_up(&self, ended: DeadSessions<'_>) -> Result<CleanupCounts, FsError> {
        let mut cleared = CleanupCounts::default();
        let mut left = BTreeMap::new();
        for shard in self.store.all_shards() {
            cleared.orphans += self.forget_orphans(shard, ended).await?;
            let writers = self.writers(shard, ended).await?;
            cleared.writers += writers.len() as u64;
            self.recover_writers(&writers, &mut left).await?;
        }
        let kinds = [RecordKind::Session, RecordKind::Interest];
        for session in self.recorded_sessions(ended, &kinds).await? {
            if !left.contains_key(&session) {
                self.drop_session(session).await?;
                cleared.sessions += 1;
            }
        }
        // A session stays registered as long as a file that it wrote is not recovered.
        cleared.sessions_left = left.len() as u64;
        for (session, why) in left {
            self.unfinished.add(session, &why);
        }
        self.store
            .committed(RequestOrigin::server("clear up"), self.store.last_seq())
            .await?;
        Ok(cleared)
    }

    /// Whether sessions of a former owner have left anything to clean up, besides those that may reconnect.
    ///
    /// # Errors
    /// `StoreFailed`.
    pub async fn has_leftovers(&self, kept: &BTreeSet<SessionId>) -> Result<bool, FsError> {
        let ended = DeadSessions::AllBut(kept);
        // Interests alone delay nothing, and there may be many.
        let recorded = self.recorded_sessions(ended, &[RecordKind::Session]);
        let mut found = !recorded.await?.is_empty();
        for shard in self.store.all_shards() {
            for kind in [RecordKind::Orphan, RecordKind::WriteLease] {
                let range = KeyRange::of_kind(shard, kind);
                let note = |key: &RecordKey, _: &bytes::Bytes| {
                    if let Some(
                        ParsedKey::Orphan { session, .. } | ParsedKey::WriteLease { session, .. },
                    ) = key.parse()
                    {
                        found |= ended.contains(session);
                    }
                    Ok(())
                };
                self.store.each_record(range, note).await?;
            }
        }
        Ok(found)
    }

    /// Forgets orphans in batches, so that many of them neither fill memory nor block requests.
    async fn forget_orphans(
        &self,
        shard: VirtualShard,
        ended: DeadSessions<'_>,
    ) -> Result<u64, FsError> {
        let mut range = KeyRange::of_kind(shard, RecordKind::Orphan);
        let mut forgotten = 0;
        loop {
            let records = self.store.scan_now(&range, BACKGROUND_BATCH).await?;
            let mut seq = Seq(0);
            for (key, _) in &records {
                match key.parse() {
                    Some(ParsedKey::Orphan { ino, session }) if ended.contains(session) => {
                        seq = self
                            .driver
                            .background_op(&BackgroundOp::ForgetOrphan { ino, session })
                            .await?;
                        forgotten += 1;
                    }
                    _ => {}
                }
            }
            self.store
                .committed(RequestOrigin::server("forget orphans"), seq)
                .await?;
            match records.last() {
                Some((last, _)) if records.len() == BACKGROUND_BATCH => {
                    range.from = last.successor()
                }
                _ => return Ok(forgotten),
            }
        }
    }

    async fn writers(
        &self,
        shard: VirtualShard,
        ended: DeadSessions<'_>,
    ) -> Result<Vec<(InodeId, SessionId)>, FsError> {
        let mut writers = Vec::new();
        self.store
            .each_record(
                KeyRange::of_kind(shard, RecordKind::WriteLease),
                |key, _| {
                    match key.parse() {
                        Some(ParsedKey::WriteLease { ino, session }) if ended.contains(session) => {
                            writers.push((ino, session));
                        }
                        _ => {}
                    }
                    Ok(())
                },
            )
            .await?;
        Ok(writers)
    }

    /// Recovers files from their objects, a few at a time. Puts sessions with a file that must wait into `left`.
    async fn recover_writers(
        &self,
        writers: &[(InodeId, SessionId)],
        left: &mut BTreeMap<SessionId, FsError>,
    ) -> Result<(), FsError> {
        let all = writers.iter().map(|(ino, session)| async move {
            (*session, self.recovery.recover_writer(*ino, *session).await)
        });
        for (session, outcome) in join::all(all.collect(), OST_CALLS).await {
            match outcome {
                Ok(()) => {}
                Err(error @ FsError::StoreFailed(_)) => return Err(error),
                Err(error) => {
                    left.insert(session, error);
                }
            }
        }
        Ok(())
    }

    /// Every session with a record of one of these kinds, or with a stored reply that outlived its registration.
    async fn recorded_sessions(
        &self,
        ended: DeadSessions<'_>,
        kinds: &[RecordKind],
    ) -> Result<BTreeSet<SessionId>, FsError> {
        if let DeadSessions::One(session) = ended {
            return Ok(BTreeSet::from([session]));
        }
        let mut sessions = BTreeSet::new();
        let mut note = |key: &RecordKey, _: &bytes::Bytes| {
            if let Some(
                ParsedKey::Session(session)
                | ParsedKey::Interest { session, .. }
                | ParsedKey::Reply { session, .. },
            ) = key.parse()
                && ended.contains(session)
            {
                sessions.insert(session);
            }
            Ok(())
        };
        for kind in kinds {
            let range = KeyRange::of_kind(VirtualShard(0), *kind);
            self.store.each_record(range, &mut note).await?;
        }
        for shard in self.store.all_shards() {
            self.store
                .each_record(KeyRange::of_kind(shard, RecordKind::Reply), &mut note)
                .await?;
        }
        Ok(sessions)
    }

    /// The first shard comes last: with it the registration goes, and until then a restart finds the session again.
    async fn drop_session(&self, session: SessionId) -> Result<(), FsError> {
        self.driver.remove_interests(session).await?;
        let mut shards: Vec<VirtualShard> = self.store.all_shards().collect();
        shards.reverse();
        for shard in shards {
            self.driver
                .background_op(&BackgroundOp::DropSession { session, shard })
                .await?;
        }
        Ok(())
    }
}

const _: () = assert!(BACKGROUND_BATCH <= SCAN_STEP);
