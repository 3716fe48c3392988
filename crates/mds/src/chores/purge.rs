//! Purge: the objects of removed files go, then the record that promised it.
//!
//! The records `P` are the truth; the queue here is what is known of them without a scan. It is filled where a removal is
//! staged, and from the records at the start and whenever it had to let some go. Objects queue per OST, and each OST is asked by a job of
//! its own: one that does not answer, or is down, holds up nobody else's objects.

use crate::core::Core;
use crate::limits::{OST_CALLS_EACH, PURGES_KNOWN, RETRY, SCAN_STEP, SILENT};
use crate::targets::unexpected;
use crate::together;
use crate::waits::Who;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use gupfs_namespace::{ChoreOp, Key, KeyRange, Kind, Parsed, Purge, PurgeId, PurgeWhat, Record};
use gupfs_platform::BootTime;
use gupfs_proto::data::{Answer, Op};
use gupfs_proto::limits::CHORE_BATCH;
use gupfs_proto::{ObjectId, OstId, OstLife, Refusal, Seq};
use parking_lot::Mutex;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use tokio::sync::Notify;

pub struct Purges {
    queue: Mutex<Queue>,
    wake: Notify,
}

#[derive(Default)]
struct Queue {
    /// Removed files that are known to wait.
    files: BTreeMap<PurgeId, File>,
    osts: BTreeMap<OstId, OstQueue>,
    /// There are records that the queue does not know.
    incomplete: bool,
    /// Some OST does not answer or is down: files wait in `files` although their other objects are gone.
    held_up: bool,
    /// Since it is, the records were read for objects on the others.
    read_past: bool,
    done: u64,
    objects: u64,
}

#[derive(Default)]
struct File {
    /// Objects that are not gone, and how many it had.
    left: usize,
    of: usize,
}

/// What waits for one OST.
#[derive(Default)]
struct OstQueue {
    waiting: VecDeque<Removal>,
    /// Since when a job asks it.
    asked: Option<BootTime>,
    /// What it could not do is tried again from then on.
    retry_at: BootTime,
    /// Why the last job did not do all.
    last_error: Option<String>,
}

/// One object that is to go.
struct Removal {
    id: PurgeId,
    object: ObjectId,
    /// The batch that let go of it, or a later one.
    seq: Seq,
}

/// A removed file with its objects.
struct Waiting {
    id: PurgeId,
    seq: Seq,
    objects: Vec<(OstId, ObjectId)>,
}

/// How the purge goes, for `status`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct PurgeStatus {
    /// Removed files whose objects are known to wait; `incomplete` if there are more.
    pub waiting: u64,
    pub incomplete: bool,
    /// Of them, those that an OST could not do yet, and what it said last.
    pub delayed: u64,
    pub last_error: Option<String>,
    /// Since the start.
    pub files_done: u64,
    pub objects_removed: u64,
}

impl Default for Purges {
    fn default() -> Purges {
        Purges {
            queue: Mutex::new(Queue {
                incomplete: true, // what the records say of earlier times
                ..Queue::default()
            }),
            wake: Notify::new(),
        }
    }
}

impl Queue {
    fn push(&mut self, waiting: Waiting) {
        let Waiting { id, seq, objects } = waiting;
        let is_known = self.files.len() < PURGES_KNOWN;
        if is_known {
            let (left, of) = (objects.len(), objects.len());
            self.files.insert(id, File { left, of });
        } else {
            self.incomplete = true;
        }
        // What is too much is found again in the records. But if that is because files wait for an OST that does not answer, objects
        // on the others go now: with the file's turn they are asked for once more, and are gone.
        if !is_known && !self.held_up {
            return;
        }
        for (ost, object) in objects {
            let queue = self.osts.entry(ost).or_default();
            if is_known || queue.waiting.len() < PURGES_KNOWN {
                queue.waiting.push_back(Removal { id, object, seq });
            }
        }
    }

    /// Files with an object on an OST that could not do it.
    fn delayed(&self) -> usize {
        let failing = self.osts.values().filter(|ost| ost.last_error.is_some());
        let delayed = failing.flat_map(|ost| ost.waiting.iter().map(|removal| removal.id));
        delayed.collect::<BTreeSet<_>>().len()
    }
}

impl Purges {
    /// Notes objects that a staged batch lets go of.
    pub fn add(&self, id: PurgeId, seq: Seq, objects: Vec<(OstId, ObjectId)>) {
        self.queue.lock().push(Waiting { id, seq, objects });
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

    /// The next for each OST that nobody asks now, oldest first; what one could not do comes again when its time has come.
    fn take(&self, now: BootTime) -> Vec<(OstId, Vec<Removal>)> {
        let mut queue = self.queue.lock();
        let is_silent = |ost: &OstQueue| ost.asked.is_some_and(|since| now.since(since) > SILENT);
        let held_up = queue.osts.values();
        queue.held_up = held_up
            .filter(|ost| is_silent(ost) || ost.last_error.is_some())
            .count()
            > 0;
        queue.read_past &= queue.held_up;
        let free = queue.osts.iter_mut().filter(|(_, ost)| {
            ost.asked.is_none() && !ost.waiting.is_empty() && now >= ost.retry_at
        });
        let taken = free.map(|(ost, waits)| {
            waits.asked = Some(now);
            let count = waits.waiting.len().min(CHORE_BATCH);
            (*ost, waits.waiting.drain(..count).collect())
        });
        taken.collect()
    }

    /// A job has ended: what is left is tried again later. Returns the files of which no object is left.
    fn ended(
        &self,
        ost: OstId,
        gone: &[Removal],
        left: Vec<Removal>,
        (why, now): (Option<String>, BootTime),
    ) -> Vec<PurgeId> {
        let mut guard = self.queue.lock();
        let queue = &mut *guard;
        let waits = queue.osts.entry(ost).or_default();
        waits.asked = None;
        if !left.is_empty() {
            waits.retry_at = now + RETRY;
        }
        waits.waiting.extend(left);
        waits.last_error = why;
        if waits.waiting.is_empty() {
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

    /// The record of this file is gone; returns how many objects it had.
    fn done(&self, id: PurgeId) -> u64 {
        let mut queue = self.queue.lock();
        let objects = queue.files.remove(&id).unwrap_or_default().of as u64;
        queue.done += 1;
        queue.objects += objects;
        objects
    }

    /// The records of these files stay, and tell of them when they are read again.
    fn forget(&self, ids: impl Iterator<Item = PurgeId>) {
        let mut queue = self.queue.lock();
        for id in ids {
            queue.files.remove(&id);
        }
    }

    /// Whether the records should be read; if so, the queue counts as complete from here on, and these are known already.
    ///
    /// Not while half of what the queue takes waits: reading would find mostly the same again. But once while that is because of an OST that
    /// does not answer.
    fn must_load(&self) -> Option<BTreeSet<PurgeId>> {
        let mut queue = self.queue.lock();
        let reads_past = queue.held_up && !queue.read_past;
        if !queue.incomplete || (queue.files.len() >= PURGES_KNOWN / 2 && !reads_past) {
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
    pub(super) async fn purge_for_ever(self: Arc<Self>) {
        let mut jobs = FuturesUnordered::new();
        while self.failure().is_none() {
            for (ost, batch) in self.purges.take(self.platform.clock.boot()) {
                jobs.push(self.purge(ost, batch));
            }
            if let Some(known) = self.purges.must_load() {
                if let Err(refusal) = self.load_purges(&known).await {
                    tracing::warn!(%refusal, "the purge waits");
                    self.purges.must_load_again();
                    self.platform.clock.sleep(RETRY).await;
                }
                continue;
            }
            tokio::select! {
                biased;
                Some(outcome) = jobs.next() => if let Err(refusal) = outcome {
                    tracing::warn!(%refusal, "the purge waits");
                    self.purges.must_load_again();
                    self.platform.clock.sleep(RETRY).await;
                },
                () = self.purges.wake.notified() => {}
                () = self.platform.clock.sleep(RETRY) => {}
            }
        }
    }

    /// Reads from the records what is to be purged, as much as the queue takes.
    async fn load_purges(&self, known: &BTreeSet<PurgeId>) -> Result<(), Refusal> {
        // Everything that a scan finds now is in a batch up to here.
        let seq = self.kv.last_seq();
        for shard in self.all_shards() {
            let mut range = KeyRange::of_kind(shard, Kind::Purge);
            loop {
                let records = self.scan_now(&range, SCAN_STEP).await?;
                for (key, value) in &records {
                    match waiting_of(key, value, seq)? {
                        Some(waiting) if !known.contains(&waiting.id) => {
                            self.purges.queue.lock().push(waiting);
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

    /// One job: removes these objects of one OST, then the records of the files of which none is left anywhere.
    ///
    /// # Errors
    /// When records could not be changed; they are read again.
    async fn purge(&self, ost: OstId, batch: Vec<Removal>) -> Result<(), Refusal> {
        let who = Who::own("purge");
        let newest = batch.iter().map(|removal| removal.seq).max();
        // Promise before deed: a power cut that undoes the removal must find the objects.
        if let Err(refusal) = self.durable(who, newest.unwrap_or(Seq(0))).await {
            let now = self.platform.clock.boot();
            self.purges.ended(ost, &[], batch, (None, now));
            return Err(refusal);
        }
        let failed = self.remove_objects(ost, &batch).await;
        let why = failed.values().next().cloned();
        let (left, gone): (Vec<_>, Vec<_>) = batch
            .into_iter()
            .partition(|removal| failed.contains_key(&removal.object));
        let now = self.platform.clock.boot();
        let finished = self.purges.ended(ost, &gone, left, (why, now));
        // Deed before its record: the other way a power cut leaves objects that no record knows.
        let mut finished = finished.into_iter();
        let mut seq = Seq(0);
        while let Some(id) = finished.next() {
            match self.chore(&ChoreOp::PurgeDone { id }).await {
                Ok(done) => seq = done,
                Err(refusal) => {
                    self.purges.forget([id].into_iter().chain(finished));
                    return Err(refusal);
                }
            }
            let objects = self.purges.done(id);
            self.stats.objects_removed.fetch_add(objects, Relaxed);
        }
        self.committed(who, seq).await
    }

    /// Removes objects of one OST and syncs their removal; returns those that may still be there, and why.
    async fn remove_objects(&self, ost: OstId, batch: &[Removal]) -> BTreeMap<ObjectId, String> {
        let all: BTreeSet<ObjectId> = batch.iter().map(|removal| removal.object).collect();
        // An OST that does not answer is not asked for each of many objects.
        let down: Mutex<Option<String>> = Mutex::default();
        let down = &down;
        let removals = all.iter().map(|object| async move {
            if let Some(why) = &*down.lock() {
                return Err(why.clone());
            }
            self.remove_object(ost, *object).await.map_err(|refusal| {
                let why = refusal.to_string();
                if matches!(refusal, Refusal::TargetDown { .. } | Refusal::TimedOut(_)) {
                    *down.lock() = Some(why.clone());
                }
                why
            })
        });
        let outcomes = together::all(removals.collect(), OST_CALLS_EACH).await;
        let mut failed = BTreeMap::new();
        let mut removed: Vec<(ObjectId, OstLife)> = Vec::new();
        for (object, outcome) in all.into_iter().zip(outcomes) {
            match outcome {
                Ok(life) => removed.push((object, life)),
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
        failed.extend(removed.into_iter().filter_map(|(object, life)| {
            let why = match &synced {
                Ok(lives) if lives.get(&ost) == Some(&life) => return None,
                Ok(_) => "its server lost power meanwhile".to_owned(),
                Err(refusal) => refusal.to_string(),
            };
            Some((object, why))
        }));
        failed
    }

    pub(super) async fn remove_object(
        &self,
        ost: OstId,
        object: ObjectId,
    ) -> Result<OstLife, Refusal> {
        match self.targets.call(ost, Op::Remove { object }).await? {
            Answer::DoneIn(life) => Ok(life),
            other => Err(unexpected(ost, &other)),
        }
    }
}

/// What a record `P` promises to remove; None if it is a cut. It is in a batch up to `seq`.
fn waiting_of(key: &Key, value: &Bytes, seq: Seq) -> Result<Option<Waiting>, Refusal> {
    let damaged = |what: String| Refusal::StoreFailed(format!("record {key:?}: {what}"));
    let Some(Parsed::Purge(id)) = key.parse() else {
        return Err(damaged("no key of a purge".into()));
    };
    let purge = Purge::decode(value).map_err(|error| damaged(error.to_string()))?;
    if purge.what != PurgeWhat::Remove {
        return Ok(None);
    }
    let objects = purge
        .objects(id)
        .into_iter()
        .map(|(ost, object, _)| (ost, object));
    Ok(Some(Waiting {
        id,
        seq,
        objects: objects.collect(),
    }))
}
