//! Clearing up after sessions: their orphans are forgotten, the files they wrote recovered, then their stored replies and
//! their registration go.

use super::Cleared;
use crate::core::Core;
use crate::limits::{OST_CALLS, SCAN_STEP};
use crate::together;
use crate::waits::Who;
use gupfs_namespace::{ChoreOp, Key, KeyRange, Kind, NOT_ASKED, Parsed};
use gupfs_proto::limits::CHORE_BATCH;
use gupfs_proto::{InodeId, Refusal, Seq, SessionId, VirtualShard};
use std::collections::{BTreeMap, BTreeSet};

/// Whose remains are to go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dead<'a> {
    /// Nobody is served yet: all.
    All,
    /// All but these, that may come back; what is kept until everybody was asked stays, too.
    AllBut(&'a BTreeSet<SessionId>),
    One(SessionId),
}

impl Dead<'_> {
    fn is(self, session: SessionId) -> bool {
        match self {
            Dead::All => true,
            Dead::AllBut(kept) => session != NOT_ASKED && !kept.contains(&session),
            Dead::One(one) => session == one,
        }
    }
}

impl Core {
    pub(super) async fn clear_up(&self, dead: Dead<'_>) -> Result<Cleared, Refusal> {
        let mut cleared = Cleared::default();
        let mut left = BTreeMap::new();
        for shard in self.all_shards() {
            cleared.orphans += self.forget_orphans(shard, dead).await?;
            let writers = self.writers(shard, dead).await?;
            cleared.writers += writers.len() as u64;
            self.recover_writers(&writers, &mut left).await?;
        }
        for session in self.recorded_sessions(dead).await? {
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
        self.committed(Who::own("clear up"), self.kv.last_seq())
            .await?;
        Ok(cleared)
    }

    /// Forgets orphans in batches, so that a crowd of them neither fills memory nor holds up others.
    async fn forget_orphans(&self, shard: VirtualShard, dead: Dead<'_>) -> Result<u64, Refusal> {
        let mut range = KeyRange::of_kind(shard, Kind::Orphan);
        let mut forgotten = 0;
        loop {
            let records = self.scan_now(&range, CHORE_BATCH).await?;
            let mut seq = Seq(0);
            for (key, _) in &records {
                match key.parse() {
                    Some(Parsed::Orphan { ino, session }) if dead.is(session) => {
                        seq = self.chore(&ChoreOp::ForgetOrphan { ino, session }).await?;
                        forgotten += 1;
                    }
                    _ => {}
                }
            }
            self.committed(Who::own("forget orphans"), seq).await?;
            match records.last() {
                Some((last, _)) if records.len() == CHORE_BATCH => range.from = last.successor(),
                _ => return Ok(forgotten),
            }
        }
    }

    async fn writers(
        &self,
        shard: VirtualShard,
        dead: Dead<'_>,
    ) -> Result<Vec<(InodeId, SessionId)>, Refusal> {
        let mut writers = Vec::new();
        self.each_record(KeyRange::of_kind(shard, Kind::Writer), |key, _| {
            match key.parse() {
                Some(Parsed::Writer { ino, session }) if dead.is(session) => {
                    writers.push((ino, session));
                }
                _ => {}
            }
            Ok(())
        })
        .await?;
        Ok(writers)
    }

    /// Recovers files from their objects, a few at a time. Sessions of which one must wait are put into `left`.
    async fn recover_writers(
        &self,
        writers: &[(InodeId, SessionId)],
        left: &mut BTreeMap<SessionId, Refusal>,
    ) -> Result<(), Refusal> {
        let all = writers.iter().map(|(ino, session)| async move {
            (*session, self.recover_writer(*ino, *session).await)
        });
        for (session, outcome) in together::all(all.collect(), OST_CALLS).await {
            match outcome {
                Ok(()) => {}
                Err(refusal @ Refusal::StoreFailed(_)) => return Err(refusal),
                Err(refusal) => {
                    left.insert(session, refusal);
                }
            }
        }
        Ok(())
    }

    /// Every session of which something is recorded: its registration, or a stored reply that outlived it.
    async fn recorded_sessions(&self, dead: Dead<'_>) -> Result<BTreeSet<SessionId>, Refusal> {
        if let Dead::One(session) = dead {
            return Ok(BTreeSet::from([session]));
        }
        let mut sessions = BTreeSet::new();
        let mut note = |key: &Key, _: &bytes::Bytes| {
            if let Some(Parsed::Session(session) | Parsed::Reply { session, .. }) = key.parse()
                && dead.is(session)
            {
                sessions.insert(session);
            }
            Ok(())
        };
        self.each_record(KeyRange::of_kind(VirtualShard(0), Kind::Session), &mut note)
            .await?;
        for shard in self.all_shards() {
            self.each_record(KeyRange::of_kind(shard, Kind::Reply), &mut note)
                .await?;
        }
        Ok(sessions)
    }

    /// The first shard last: with it the registration goes, and until then a restart finds the session again.
    async fn drop_session(&self, session: SessionId) -> Result<(), Refusal> {
        let mut shards: Vec<VirtualShard> = self.all_shards().collect();
        shards.reverse();
        for shard in shards {
            self.chore(&ChoreOp::DropSession { session, shard }).await?;
        }
        Ok(())
    }
}

const _: () = assert!(CHORE_BATCH <= SCAN_STEP);
