//! Records on what a session is about to have leases or locks, where another server may go on at any moment.

use super::ShardDriver;
use crate::origin::RequestOrigin;
use crate::shard::Shard;
use bytes::Bytes;
use gupfs_namespace::{Interest, KeyRange, Record, RecordBatch, RecordKey, RecordedInterest};
use gupfs_proto::limits::BACKGROUND_BATCH;
use gupfs_proto::{FsError, InodeId, Seq, SessionId};

impl ShardDriver {
    /// Stages what is not recorded yet; returns the newest batch on which the reply with these leases or locks depends.
    ///
    /// # Errors
    /// When the log refuses the batch: then the session gets none of them.
    pub(super) fn record_interests(
        &self,
        shard: &mut Shard,
        session: SessionId,
        wanted: impl IntoIterator<Item = Interest>,
    ) -> Result<Seq, FsError> {
        let Some(interests) = &shard.interests else {
            return Ok(Seq(0));
        };
        let (unrecorded, newest) = interests.unrecorded(session, wanted);
        if unrecorded.is_empty() {
            return Ok(newest);
        }
        let value = Some(RecordedInterest.encode());
        let seq = self.stage_batch(shard, changes(session, &unrecorded, value.as_ref()))?;
        let Some(interests) = &mut shard.interests else {
            return Ok(seq);
        };
        interests.note(session, &unrecorded, seq);
        let stale = interests.collect(session, shard.leases.keys_of(session));
        for part in stale.chunks(BACKGROUND_BATCH) {
            self.stage_batch(shard, changes(session, part, None))?;
        }
        Ok(seq)
    }

    /// Records that the session may have locks on this file. Returns when the record survives this process.
    ///
    /// # Errors
    /// `SessionEnded`, or the error of the store.
    pub async fn record_lock(&self, origin: RequestOrigin, ino: InodeId) -> Result<(), FsError> {
        let seq = {
            let mut guard = self.shard.lock();
            let shard = &mut *guard;
            if !shard.sessions.contains_key(&origin.session) {
                return Err(FsError::SessionEnded);
            }
            let Some(interests) = &shard.interests else {
                return Ok(());
            };
            let wanted = interests.of_lock(origin.session, ino);
            self.record_interests(shard, origin.session, [wanted])?
        };
        self.store.committed(origin, seq).await
    }

    /// Removes the interests of a session that has ended.
    ///
    /// # Errors
    /// `StoreFailed`.
    pub async fn remove_interests(&self, session: SessionId) -> Result<(), FsError> {
        if let Some(interests) = &mut self.shard.lock().interests {
            interests.drop_session(session);
        }
        let mut range = KeyRange::interests(session);
        loop {
            let records = self.store.scan_now(&range, BACKGROUND_BATCH).await?;
            let Some((last, _)) = records.last() else {
                return Ok(());
            };
            range.from = last.successor();
            let is_last = records.len() < BACKGROUND_BATCH;
            let removed = records.into_iter().map(|(key, _)| (key, None));
            self.stage_server_records(removed.collect())?;
            if is_last {
                return Ok(());
            }
        }
    }
}

fn changes<'a>(
    session: SessionId,
    interests: impl IntoIterator<Item = &'a Interest>,
    value: Option<&Bytes>,
) -> RecordBatch {
    let keys = interests.into_iter();
    let keys = keys.map(|interest| RecordKey::interest(session, *interest));
    keys.map(|key| (key, value.cloned())).collect()
}
