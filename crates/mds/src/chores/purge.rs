//! Purge: the objects of removed files go, then the record that promised it.
//!
//! The records `P` are the truth; the queue here is what is known of them without a scan. It is filled where a removal is
//! staged, and from the records at the start and whenever it had to let some go.

use crate::core::Core;
use crate::limits::{OST_CALLS, PURGES_KNOWN, RETRY, SCAN_STEP};
use crate::targets::unexpected;
use crate::together;
use crate::waits::Who;
use bytes::Bytes;
use gupfs_names::{ChoreOp, Key, KeyRange, Kind, Parsed, Purge, PurgeId, PurgeWhat, Record};
use gupfs_proto::data::{Answer, Op};
use gupfs_proto::limits::CHORE_BATCH;
use gupfs_proto::{ObjectId, OstId, OstLife, Refusal, Seq};
use gupfs_world::BootTime;
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
    waiting: VecDeque<Waiting>,
    /// Those an OST could not do, and when they are tried again.
    delayed: Vec<Waiting>,
    retry_at: BootTime,
    /// There are records that the queue does not know.
    incomplete: bool,
    done: u64,
    objects: u64,
    last_error: Option<String>,
}

struct Waiting {
    id: PurgeId,
    /// The batch that let go of the objects, or a later one.
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

impl Purges {
    /// Notes objects that a staged batch lets go of.
    pub fn add(&self, id: PurgeId, seq: Seq, objects: Vec<(OstId, ObjectId)>) {
        self.push(Waiting { id, seq, objects });
    }

    fn push(&self, waiting: Waiting) {
        let mut queue = self.queue.lock();
        if queue.waiting.len() + queue.delayed.len() >= PURGES_KNOWN {
            queue.incomplete = true;
        } else {
            queue.waiting.push_back(waiting);
        }
        drop(queue);
        self.wake.notify_one();
    }

    pub fn status(&self) -> PurgeStatus {
        let queue = self.queue.lock();
        PurgeStatus {
            waiting: (queue.waiting.len() + queue.delayed.len()) as u64,
            incomplete: queue.incomplete,
            delayed: queue.delayed.len() as u64,
            last_error: queue.last_error.clone(),
            files_done: queue.done,
            objects_removed: queue.objects,
        }
    }

    /// The next to do, oldest first; those that were delayed come again when their time has come.
    fn take(&self, now: BootTime) -> Vec<Waiting> {
        let mut queue = self.queue.lock();
        if now >= queue.retry_at {
            let again = std::mem::take(&mut queue.delayed);
            queue.waiting.extend(again);
        }
        let count = queue.waiting.len().min(CHORE_BATCH);
        queue.waiting.drain(..count).collect()
    }

    fn delay(&self, failed: Vec<Waiting>, until: BootTime, why: Option<String>) {
        let mut queue = self.queue.lock();
        queue.delayed.extend(failed);
        queue.retry_at = until;
        queue.last_error = why.or(queue.last_error.take());
    }

    fn count(&self, files: u64, objects: u64) {
        let mut queue = self.queue.lock();
        queue.done += files;
        queue.objects += objects;
    }

    /// Whether the records should be read; if so, the queue counts as complete from here on, and these are known already.
    ///
    /// Not while half of what the queue takes waits for an OST: reading would find mostly the same again.
    fn must_load(&self) -> Option<BTreeSet<PurgeId>> {
        let mut queue = self.queue.lock();
        if !queue.incomplete || queue.delayed.len() >= PURGES_KNOWN / 2 {
            return None;
        }
        queue.incomplete = false;
        let known = queue.waiting.iter().chain(&queue.delayed);
        Some(known.map(|waiting| waiting.id).collect())
    }
}

impl Core {
    pub(super) async fn purge_for_ever(self: Arc<Self>) {
        while self.failure().is_none() {
            let batch = self.purges.take(self.world.clock.boot());
            let outcome = if !batch.is_empty() {
                self.purge(batch).await
            } else if let Some(known) = self.purges.must_load() {
                self.load_purges(&known).await
            } else {
                tokio::select! {
                    biased;
                    () = self.purges.wake.notified() => {}
                    () = self.world.clock.sleep(RETRY) => {}
                }
                Ok(())
            };
            if let Err(refusal) = outcome {
                tracing::warn!(%refusal, "the purge waits");
                self.world.clock.sleep(RETRY).await;
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
                        Some(waiting) if !known.contains(&waiting.id) => self.purges.push(waiting),
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

    /// Removes the objects of these files, then the records of those of which none is left.
    async fn purge(&self, batch: Vec<Waiting>) -> Result<(), Refusal> {
        let who = Who::own("purge");
        let newest = batch
            .iter()
            .map(|waiting| waiting.seq)
            .max()
            .unwrap_or(Seq(0));
        // Promise before deed: a power cut that undoes the removal must find the objects.
        if let Err(refusal) = self.durable(who, newest).await {
            self.purges
                .delay(batch, self.world.clock.boot() + RETRY, None);
            return Err(refusal);
        }
        let failed = self.remove_objects(&batch).await;
        // Deed before its record: the other way a power cut leaves objects that no record knows.
        let (left, gone): (Vec<_>, Vec<_>) = batch.into_iter().partition(|waiting| {
            waiting
                .objects
                .iter()
                .any(|object| failed.contains_key(object))
        });
        if !left.is_empty() {
            let why = failed.into_values().next();
            self.purges
                .delay(left, self.world.clock.boot() + RETRY, why);
        }
        let mut seq = Seq(0);
        let mut objects = 0;
        for waiting in &gone {
            seq = self.chore(&ChoreOp::PurgeDone { id: waiting.id }).await?;
            objects += waiting.objects.len() as u64;
        }
        self.stats.objects_removed.fetch_add(objects, Relaxed);
        self.purges.count(gone.len() as u64, objects);
        self.committed(who, seq).await
    }

    /// Removes objects and syncs their removal; returns those that may still be there, and why.
    async fn remove_objects(&self, batch: &[Waiting]) -> BTreeMap<(OstId, ObjectId), String> {
        let all: BTreeSet<(OstId, ObjectId)> = batch
            .iter()
            .flat_map(|waiting| waiting.objects.iter().copied())
            .collect();
        // An OST that does not answer is not asked for each of a thousand objects.
        let down: Mutex<BTreeMap<OstId, String>> = Mutex::default();
        let down = &down;
        let removals = all.iter().map(|(ost, object)| async move {
            if let Some(why) = down.lock().get(ost) {
                return Err(why.clone());
            }
            self.remove_object(*ost, *object).await.map_err(|refusal| {
                let why = refusal.to_string();
                if matches!(refusal, Refusal::TargetDown { .. } | Refusal::TimedOut(_)) {
                    down.lock().insert(*ost, why.clone());
                }
                why
            })
        });
        let outcomes = together::all(removals.collect(), OST_CALLS).await;
        let mut failed = BTreeMap::new();
        let mut by_ost: BTreeMap<OstId, Vec<(ObjectId, OstLife)>> = BTreeMap::new();
        for ((ost, object), outcome) in all.into_iter().zip(outcomes) {
            match outcome {
                Ok(life) => by_ost.entry(ost).or_default().push((object, life)),
                Err(why) => {
                    failed.insert((ost, object), why);
                }
            }
        }
        for (ost, removed) in by_ost {
            let objects = removed.iter().map(|(object, _)| (ost, *object));
            let synced = self.sync_objects(objects).await;
            failed.extend(removed.into_iter().filter_map(|(object, life)| {
                let why = match &synced {
                    Ok(lives) if lives.get(&ost) == Some(&life) => return None,
                    Ok(_) => "its server lost power meanwhile".to_owned(),
                    Err(refusal) => refusal.to_string(),
                };
                Some(((ost, object), why))
            }));
        }
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
