//! Purge: removes the objects of removed files, then the record that promised their removal.
//!
//! Each OST has a job of its own: an OST that does not reply, or is down, does not delay the objects of other OSTs.

use crate::join;
use crate::limits::{OST_CALLS_EACH, RETRY, SCAN_STEP};
use crate::origin::RequestOrigin;
use crate::osts::Targets;
use crate::pending_work::{ObjectRemoval, PurgeQueue, PurgeRequest};
use crate::shard_driver::ShardDriver;
use crate::stats::MdsStats;
use crate::store::{MetadataStore, damaged_record};
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use gupfs_namespace::{
    BackgroundOp, KeyRange, ParsedKey, Purge, PurgeAction, PurgeId, Record, RecordKey, RecordKind,
};
use gupfs_platform::Clock;
use gupfs_proto::{FsError, ObjectId, OstId, Seq, WriteVerifier};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

pub struct PurgeTask {
    pub store: Arc<MetadataStore>,
    pub driver: Arc<ShardDriver>,
    pub targets: Arc<Targets>,
    pub queue: Arc<PurgeQueue>,
    pub stats: Arc<MdsStats>,
    pub clock: Clock,
}

impl PurgeTask {
    pub async fn run(self) {
        let mut jobs = FuturesUnordered::new();
        while self.store.failure().is_none() {
            for (ost, batch) in self.queue.take(self.clock.boot()) {
                jobs.push(self.purge(ost, batch));
            }
            if let Some(known) = self.queue.must_load() {
                if let Err(error) = self.load_purges(&known).await {
                    tracing::warn!(%error, "the purge failed; the server tries again");
                    self.queue.must_load_again();
                    self.clock.sleep(RETRY).await;
                }
                continue;
            }
            let retry = self.clock.boot() + RETRY;
            let next = self.queue.next_job().unwrap_or(retry).min(retry);
            tokio::select! {
                biased;
                Some(outcome) = jobs.next() => if let Err(error) = outcome {
                    tracing::warn!(%error, "the purge failed; the server tries again");
                    self.queue.must_load_again();
                    self.clock.sleep(RETRY).await;
                },
                () = self.queue.wait() => {}
                () = self.clock.sleep_until(next) => {}
            }
        }
    }

    /// Reads from the records the files to purge, as many as the queue takes.
    async fn load_purges(&self, known: &BTreeSet<PurgeId>) -> Result<(), FsError> {
        // All records that a scan finds now are in batches up to here.
        let seq = self.store.last_seq();
        for shard in self.store.all_shards() {
            let mut range = KeyRange::of_kind(shard, RecordKind::Purge);
            loop {
                let records = self.store.scan_now(&range, SCAN_STEP).await?;
                for (key, value) in &records {
                    match purge_request(key, value, seq)? {
                        Some(request) if !known.contains(&request.id) => {
                            self.queue.add_recorded(request);
                        }
                        _ => {}
                    }
                }
                match records.last() {
                    Some((last, _)) if records.len() == SCAN_STEP => range.from = last.successor(),
                    _ => break,
                }
            }
        }
        Ok(())
    }

    /// One job: removes these objects of one OST, then the records of the files that have no object left on any OST.
    ///
    /// # Errors
    /// When records could not be changed; the task reads them again.
    async fn purge(&self, ost: OstId, batch: Vec<ObjectRemoval>) -> Result<(), FsError> {
        let origin = RequestOrigin::server("purge");
        let newest = batch.iter().map(|removal| removal.seq).max();
        // Promise first: if a power loss undoes the removal, the objects must still exist.
        if let Err(error) = self.store.durable(origin, newest.unwrap_or(Seq(0))).await {
            let now = self.clock.boot();
            self.queue.end_job(ost, &[], batch, (None, now));
            return Err(error);
        }
        let failed = self.remove_objects(ost, &batch).await;
        let why = failed.values().next().cloned();
        let (left, gone): (Vec<_>, Vec<_>) = batch
            .into_iter()
            .partition(|removal| failed.contains_key(&removal.object));
        let now = self.clock.boot();
        let finished = self.queue.end_job(ost, &gone, left, (why, now));
        // The objects before the record: the other way a power loss leaves objects that no record names.
        let mut finished = finished.into_iter();
        let mut seq = Seq(0);
        while let Some(id) = finished.next() {
            match self
                .driver
                .background_op(&BackgroundOp::PurgeDone { id })
                .await
            {
                Ok(done) => seq = done,
                Err(error) => {
                    self.queue.forget([id].into_iter().chain(finished));
                    return Err(error);
                }
            }
            let objects = self.queue.done(id);
            self.stats.objects_removed.fetch_add(objects, Relaxed);
        }
        self.store.committed(origin, seq).await
    }

    /// Removes objects of one OST and syncs their removal; returns those that may still exist, and why. The objects of a lost OST count as
    /// removed.
    async fn remove_objects(
        &self,
        ost: OstId,
        batch: &[ObjectRemoval],
    ) -> BTreeMap<ObjectId, String> {
        if self.targets.is_lost(ost) {
            return BTreeMap::new();
        }
        let all: BTreeSet<ObjectId> = batch.iter().map(|removal| removal.object).collect();
        // An OST that does not reply gets no request for each of many objects.
        let down: Mutex<Option<String>> = Mutex::default();
        let down = &down;
        let removals = all.iter().map(|object| async move {
            if let Some(why) = &*down.lock() {
                return Err(why.clone());
            }
            self.targets
                .remove_object(ost, *object)
                .await
                .map_err(|error| {
                    let why = error.to_string();
                    if matches!(error, FsError::TargetDown { .. } | FsError::TimedOut(_)) {
                        *down.lock() = Some(why.clone());
                    }
                    why
                })
        });
        let outcomes = join::all(removals.collect(), OST_CALLS_EACH).await;
        let mut failed = BTreeMap::new();
        let mut removed: Vec<(ObjectId, WriteVerifier)> = Vec::new();
        for (object, outcome) in all.into_iter().zip(outcomes) {
            match outcome {
                Ok(verifier) => removed.push((object, verifier)),
                Err(why) => {
                    failed.insert(object, why);
                }
            }
        }
        if removed.is_empty() {
            return failed;
        }
        let objects = removed.iter().map(|(object, _)| (ost, *object));
        let synced = self.targets.sync_objects(objects).await;
        failed.extend(removed.into_iter().filter_map(|(object, verifier)| {
            let why = match &synced {
                Ok(verifiers) if verifiers.get(&ost) == Some(&verifier) => return None,
                Ok(_) => "its server lost power in the meantime".to_owned(),
                Err(error) => error.to_string(),
            };
            Some((object, why))
        }));
        failed
    }
}

/// The removal that a record `P` promises; None for a truncate. It is in a batch up to `seq`.
fn purge_request(
    key: &RecordKey,
    value: &Bytes,
    seq: Seq,
) -> Result<Option<PurgeRequest>, FsError> {
    let Some(ParsedKey::Purge(id)) = key.parse() else {
        return Err(damaged_record(key, "no key of a purge"));
    };
    let purge = Purge::decode(value).map_err(|error| damaged_record(key, error))?;
    if purge.action != PurgeAction::Remove {
        return Ok(None);
    }
    let objects = purge
        .objects(id)
        .into_iter()
        .map(|(ost, object, _)| (ost, object));
    Ok(Some(PurgeRequest {
        id,
        seq,
        objects: objects.collect(),
    }))
}
