//! Purge: removes the objects of removed files, then the record that promised their removal.
//!
//! The records `P` are the truth; the queue here holds what is known of them without a scan. Requests fill it when they stage a
//! removal; the task fills it from the records at the start and whenever the queue had to drop some. Objects queue per OST, and
//! each OST has a job of its own: an OST that does not reply, or is down, does not delay the objects of other OSTs.

use crate::core::Core;
use crate::join;
use crate::limits::{OST_CALLS_EACH, OST_SILENT_AFTER, PURGE_QUEUE_MAX, RETRY, SCAN_STEP};
use crate::osts::unexpected_reply;
use crate::waits::RequestOrigin;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use gupfs_namespace::{
    BackgroundOp, KeyRange, ParsedKey, Purge, PurgeAction, PurgeId, Record, RecordKey, RecordKind,
};
use gupfs_platform::BootTime;
use gupfs_proto::data::{DataOp, DataReplyBody};
use gupfs_proto::limits::BACKGROUND_BATCH;
use gupfs_proto::{FsError, ObjectId, OstId, Seq, WriteVerifier};
use parking_lot::Mutex;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use tokio::sync::Notify;

pub struct PurgeQueue {
    queue: Mutex<PurgeQueueState>,
    wake: Notify,
}

#[derive(Default)]
struct PurgeQueueState {
    /// Removed files in the queue.
    files: BTreeMap<PurgeId, PurgeFile>,
    osts: BTreeMap<OstId, OstQueue>,
    /// There are records that the queue does not hold.
    incomplete: bool,
    /// Some OST does not reply or is down: files wait in `files` although their other objects are gone.
    held_up: bool,
    /// Since `held_up`, the task has read the records once for objects on the other OSTs.
    read_past: bool,
    done: u64,
    objects: u64,
}

#[derive(Default)]
struct PurgeFile {
    /// Objects that are not removed yet, and how many it had.
    left: usize,
    of: usize,
}

/// The objects to remove at one OST.
#[derive(Default)]
struct OstQueue {
    waiting: VecDeque<ObjectRemoval>,
    /// Since when a job uses the OST.
    job_since: Option<BootTime>,
    /// When failed removals are tried again.
    retry_at: BootTime,
    /// Why the last job did not remove all.
    last_error: Option<String>,
}

/// One object to remove.
struct ObjectRemoval {
    id: PurgeId,
    object: ObjectId,
    /// The batch that dropped the object, or a later one.
    seq: Seq,
}

/// A removed file with its objects.
struct PurgeRequest {
    id: PurgeId,
    seq: Seq,
    objects: Vec<(OstId, ObjectId)>,
}

/// Progress of the purge, for `status`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct PurgeStatus {
    /// Removed files in the queue; `incomplete` if there are more.
    pub waiting: u64,
    pub incomplete: bool,
    /// Those among them that an OST could not remove yet, and the OST's last error.
    pub delayed: u64,
    pub last_error: Option<String>,
    /// Since the start.
    pub files_done: u64,
    pub objects_removed: u64,
}

impl Default for PurgeQueue {
    fn default() -> PurgeQueue {
        PurgeQueue {
            queue: Mutex::new(PurgeQueueState {
                incomplete: true, // there may be records of earlier starts
                ..PurgeQueueState::default()
            }),
            wake: Notify::new(),
        }
    }
}

impl PurgeQueueState {
    fn push(&mut self, request: PurgeRequest) {
        let PurgeRequest { id, seq, objects } = request;
        let is_known = self.files.len() < PURGE_QUEUE_MAX;
        if is_known {
            let (left, of) = (objects.len(), objects.len());
            self.files.insert(id, PurgeFile { left, of });
        } else {
            self.incomplete = true;
        }
        // The task finds excess files in the records later. But if the queue is full because files wait for an OST that does not
        // reply, the objects on the others are removed now: when the file is queued later, their removal is requested once more,
        // and finds them gone.
        if !is_known && !self.held_up {
            return;
        }
        for (ost, object) in objects {
            let queue = self.osts.entry(ost).or_default();
            if is_known || queue.waiting.len() < PURGE_QUEUE_MAX {
                queue.waiting.push_back(ObjectRemoval { id, object, seq });
            }
        }
    }

    /// Files with an object on an OST that could not remove it.
    fn delayed(&self) -> usize {
        let failing = self.osts.values().filter(|ost| ost.last_error.is_some());
        let delayed = failing.flat_map(|ost| ost.waiting.iter().map(|removal| removal.id));
        delayed.collect::<BTreeSet<_>>().len()
    }
}

impl PurgeQueue {
    /// Queues objects that a staged batch drops.
    pub fn add(&self, id: PurgeId, seq: Seq, objects: Vec<(OstId, ObjectId)>) {
        self.queue.lock().push(PurgeRequest { id, seq, objects });
        self.wake.notify_one();
    }

    pub fn status(&self) -> PurgeStatus {
        let queue = self.queue.lock();
        let mut errors = queue.osts.values().filter_map(|ost| ost.last_error.clone());
        PurgeStatus {
            waiting: queue.files.len() as u64,
            incomplete: queue.incomplete,
            delayed: queue.delayed() as u64,
            last_error: errors.next(),
            files_done: queue.done,
            objects_removed: queue.objects,
        }
    }

    /// The next objects for each OST without a job, oldest first; failed removals come again at their retry time.
    fn take(&self, now: BootTime) -> Vec<(OstId, Vec<ObjectRemoval>)> {
        let mut queue = self.queue.lock();
        let is_silent = |ost: &OstQueue| {
            ost.job_since
                .is_some_and(|since| now.since(since) > OST_SILENT_AFTER)
        };
        let held_up = queue.osts.values();
        queue.held_up = held_up
            .filter(|ost| is_silent(ost) || ost.last_error.is_some())
            .count()
            > 0;
        queue.read_past &= queue.held_up;
        let free = queue.osts.iter_mut().filter(|(_, ost)| {
            ost.job_since.is_none() && !ost.waiting.is_empty() && now >= ost.retry_at
        });
        let taken = free.map(|(ost, ost_queue)| {
            ost_queue.job_since = Some(now);
            let count = ost_queue.waiting.len().min(BACKGROUND_BATCH);
            (*ost, ost_queue.waiting.drain(..count).collect())
        });
        taken.collect()
    }

    /// Ends a job: the rest is tried again later. Returns the files of which no object is left.
    fn end_job(
        &self,
        ost: OstId,
        gone: &[ObjectRemoval],
        left: Vec<ObjectRemoval>,
        (why, now): (Option<String>, BootTime),
    ) -> Vec<PurgeId> {
        let mut guard = self.queue.lock();
        let queue = &mut *guard;
        let ost_queue = queue.osts.entry(ost).or_default();
        ost_queue.job_since = None;
        if !left.is_empty() {
            ost_queue.retry_at = now + RETRY;
        }
        ost_queue.waiting.extend(left);
        ost_queue.last_error = why;
        if ost_queue.waiting.is_empty() {
            queue.osts.remove(&ost);
        }
        let mut finished = Vec::new();
        for removal in gone {
            if let Some(file) = queue.files.get_mut(&removal.id) {
                file.left = file.left.saturating_sub(1);
                if file.left == 0 {
                    finished.push(removal.id);
                }
            }
        }
        finished
    }

    /// Notes that the record of this file is gone; returns how many objects it had.
    fn done(&self, id: PurgeId) -> u64 {
        let mut queue = self.queue.lock();
        let objects = queue.files.remove(&id).unwrap_or_default().of as u64;
        queue.done += 1;
        queue.objects += objects;
        objects
    }

    /// Drops these files from the queue: their records stay, and the task finds them when it reads the records again.
    fn forget(&self, ids: impl Iterator<Item = PurgeId>) {
        let mut queue = self.queue.lock();
        for id in ids {
            queue.files.remove(&id);
        }
    }

    /// Whether to read the records; if so, the queue counts as complete from here on, and the returned files are in it already.
    ///
    /// Not while the queue is half full: reading would find mostly the same files again. But once while that is because of an OST
    /// that does not reply.
    fn must_load(&self) -> Option<BTreeSet<PurgeId>> {
        let mut queue = self.queue.lock();
        let reads_past = queue.held_up && !queue.read_past;
        if !queue.incomplete || (queue.files.len() >= PURGE_QUEUE_MAX / 2 && !reads_past) {
            return None;
        }
        queue.incomplete = false;
        queue.read_past = queue.held_up;
        Some(queue.files.keys().copied().collect())
    }

    /// The records could not be read, or not be changed.
    fn must_load_again(&self) {
        let mut queue = self.queue.lock();
        queue.incomplete = true;
        queue.read_past = false;
    }
}

impl Core {
    pub(super) async fn run_purge(self: Arc<Self>) {
        let mut jobs = FuturesUnordered::new();
        while self.failure().is_none() {
            for (ost, batch) in self.purge_queue.take(self.platform.clock.boot()) {
                jobs.push(self.purge(ost, batch));
            }
            if let Some(known) = self.purge_queue.must_load() {
                if let Err(error) = self.load_purges(&known).await {
                    tracing::warn!(%error, "the purge failed; the server tries again");
                    self.purge_queue.must_load_again();
                    self.platform.clock.sleep(RETRY).await;
                }
                continue;
            }
            tokio::select! {
                biased;
                Some(outcome) = jobs.next() => if let Err(error) = outcome {
                    tracing::warn!(%error, "the purge failed; the server tries again");
                    self.purge_queue.must_load_again();
                    self.platform.clock.sleep(RETRY).await;
                },
                () = self.purge_queue.wake.notified() => {}
                () = self.platform.clock.sleep(RETRY) => {}
            }
        }
    }

    /// Reads from the records the files to purge, as many as the queue takes.
    async fn load_purges(&self, known: &BTreeSet<PurgeId>) -> Result<(), FsError> {
        // All records that a scan finds now are in batches up to here.
        let seq = self.kv.last_seq();
        for shard in self.all_shards() {
            let mut range = KeyRange::of_kind(shard, RecordKind::Purge);
            loop {
                let records = self.scan_now(&range, SCAN_STEP).await?;
                for (key, value) in &records {
                    match purge_request(key, value, seq)? {
                        Some(request) if !known.contains(&request.id) => {
                            self.purge_queue.queue.lock().push(request);
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
        if let Err(error) = self.durable(origin, newest.unwrap_or(Seq(0))).await {
            let now = self.platform.clock.boot();
            self.purge_queue.end_job(ost, &[], batch, (None, now));
            return Err(error);
        }
        let failed = self.remove_objects(ost, &batch).await;
        let why = failed.values().next().cloned();
        let (left, gone): (Vec<_>, Vec<_>) = batch
            .into_iter()
            .partition(|removal| failed.contains_key(&removal.object));
        let now = self.platform.clock.boot();
        let finished = self.purge_queue.end_job(ost, &gone, left, (why, now));
        // The objects before the record: the other way a power loss leaves objects that no record names.
        let mut finished = finished.into_iter();
        let mut seq = Seq(0);
        while let Some(id) = finished.next() {
            match self.background_op(&BackgroundOp::PurgeDone { id }).await {
                Ok(done) => seq = done,
                Err(error) => {
                    self.purge_queue.forget([id].into_iter().chain(finished));
                    return Err(error);
                }
            }
            let objects = self.purge_queue.done(id);
            self.stats.objects_removed.fetch_add(objects, Relaxed);
        }
        self.committed(origin, seq).await
    }

    /// Removes objects of one OST and syncs their removal; returns those that may still exist, and why.
    async fn remove_objects(
        &self,
        ost: OstId,
        batch: &[ObjectRemoval],
    ) -> BTreeMap<ObjectId, String> {
        let all: BTreeSet<ObjectId> = batch.iter().map(|removal| removal.object).collect();
        // An OST that does not reply gets no request for each of many objects.
        let down: Mutex<Option<String>> = Mutex::default();
        let down = &down;
        let removals = all.iter().map(|object| async move {
            if let Some(why) = &*down.lock() {
                return Err(why.clone());
            }
            self.remove_object(ost, *object).await.map_err(|error| {
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
        let synced = self.sync_objects(objects).await;
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

    pub(super) async fn remove_object(
        &self,
        ost: OstId,
        object: ObjectId,
    ) -> Result<WriteVerifier, FsError> {
        match self.targets.call(ost, DataOp::Remove { object }).await? {
            DataReplyBody::DoneWithVerifier(verifier) => Ok(verifier),
            other => Err(unexpected_reply(ost, &other)),
        }
    }
}

/// The removal that a record `P` promises; None for a truncate. It is in a batch up to `seq`.
fn purge_request(
    key: &RecordKey,
    value: &Bytes,
    seq: Seq,
) -> Result<Option<PurgeRequest>, FsError> {
    let damaged = |what: String| FsError::StoreFailed(format!("record {key:?}: {what}"));
    let Some(ParsedKey::Purge(id)) = key.parse() else {
        return Err(damaged("no key of a purge".into()));
    };
    let purge = Purge::decode(value).map_err(|error| damaged(error.to_string()))?;
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
