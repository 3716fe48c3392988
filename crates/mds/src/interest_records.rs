//! # interest_records: what sessions may have leases and locks on, from one owner of the metadata to the next
//!
//! Owns   the record that says that interests are recorded, and reading them at a start.
//! Never  records an interest (`ShardDriver` does, with the lease or before the lock), or waits for a session.
//! Enter  at `InterestRecords::restore`, then `InterestRecords::begin`.

use crate::origin::RequestOrigin;
use crate::shard::{RecordedInterests, Shard};
use crate::shard_driver::ShardDriver;
use crate::store::MetadataStore;
use gupfs_namespace::{
    InterestSet, KeyRange, ParsedKey, Record, RecordBatch, RecordKey, RecordKind, RecordedInterest,
};
use gupfs_proto::limits::BACKGROUND_BATCH;
use gupfs_proto::{FsError, Seq, SessionId, VirtualShard};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub struct InterestRecords {
    pub store: Arc<MetadataStore>,
    pub driver: Arc<ShardDriver>,
    pub shard: Arc<Mutex<Shard>>,
    /// Another server may go on at any moment.
    pub records: bool,
}

impl InterestRecords {
    /// The interests of these sessions, each of which has an entry; None if the former owner did not record any.
    ///
    /// # Errors
    /// `StoreFailed`.
    pub async fn restore(
        &self,
        sessions: &BTreeSet<SessionId>,
    ) -> Result<Option<BTreeMap<SessionId, InterestSet>>, FsError> {
        let mut was_recording = false;
        let mut interests: BTreeMap<SessionId, InterestSet> = BTreeMap::new();
        for session in sessions {
            interests.insert(*session, InterestSet::default());
        }
        let range = KeyRange::of_kind(VirtualShard(0), RecordKind::Interest);
        self.store
            .each_record(range, |key, _| {
                match key.parse() {
                    Some(ParsedKey::InterestsRecorded) => was_recording = true,
                    Some(ParsedKey::Interest { session, interest }) => {
                        if let Some(of) = interests.get_mut(&session) {
                            of.insert(interest);
                        }
                    }
                    _ => {}
                }
                Ok(())
            })
            .await?;
        if !was_recording {
            return Ok(None);
        }
        if self.records {
            let mut recorded = RecordedInterests::default();
            for (session, of) in &interests {
                recorded.restore(*session, of);
            }
            self.shard.lock().interests = Some(recorded);
        }
        Ok(Some(interests))
    }

    /// This server records interests from now on, or none: then a later one must not rely on those of before. The caller syncs the log before it serves.
    ///
    /// # Errors
    /// `StoreFailed`.
    pub async fn begin(&self) -> Result<(), FsError> {
        if self.records {
            self.shard.lock().interests.get_or_insert_default();
            let begin = (
                RecordKey::interests_recorded(),
                Some(RecordedInterest.encode()),
            );
            self.driver.stage_server_records(vec![begin])?;
            return Ok(());
        }
        let mut range = KeyRange::of_kind(VirtualShard(0), RecordKind::Interest);
        let mut last = Seq(0);
        loop {
            let records = self.store.scan_now(&range, BACKGROUND_BATCH).await?;
            let Some((key, _)) = records.last() else {
                break;
            };
            range.from = key.successor();
            let removed: RecordBatch = records.into_iter().map(|(key, _)| (key, None)).collect();
            last = self.driver.stage_server_records(removed)?;
        }
        let origin = RequestOrigin::server("interests");
        self.store.durable(origin, last).await
    }
}
