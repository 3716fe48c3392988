//! The queue of objects to remove.
//!
//! The records `P` are the truth; the queue holds what is known of them without a scan. Requests fill it when they stage a
//! removal; the task fills it from the records at the start and whenever the queue had to drop some. Objects queue per OST.
//!
//! Jobs of several OSTs begin together, in rounds, so that one sync of the log serves them all, and rounds have a least distance, so
//! that the syncs of a job serve many objects.

use crate::limits::{OST_SILENT_AFTER, PURGE_QUEUE_MAX, PURGE_ROUND_EVERY, RETRY};
use gupfs_namespace::PurgeId;
use gupfs_platform::BootTime;
use gupfs_proto::limits::BACKGROUND_BATCH;
use gupfs_proto::{ObjectId, OstId, Seq};
use parking_lot::Mutex;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use tokio::sync::Notify;

pub struct PurgeQueue {
    queued: Mutex<QueuedPurges>,
    wake: Notify,
}

#[derive(Default)]
struct QueuedPurges {
    /// Removed files in the queue.
    files: BTreeMap<PurgeId, PurgeFile>,
    osts: BTreeMap<OstId, OstQueue>,
    /// The next round of jobs begins no earlier.
    next_round: BootTime,
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
pub struct ObjectRemoval {
    pub id: PurgeId,
    pub object: ObjectId,
    /// The batch that dropped the object, or a later one.
    pub seq: Seq,
}

/// A removed file with its objects.
pub struct PurgeRequest {
    pub id: PurgeId,
    pub seq: Seq,
    pub objects: Vec<(OstId, ObjectId)>,
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
            queued: Mutex::new(QueuedPurges {
                incomplete: true, // there may be records of earlier starts
                ..QueuedPurges::default()
            }),
            wake: Notify::new(),
        }
    }
}

impl OstQueue {
    /// When a job may begin, if there is nothing else to wait for: with the next round, or before it if there is enough for a job.
    fn next_job(&self, next_round: BootTime) -> Option<BootTime> {
        match self.waiting.len() {
            _ if self.job_since.is_some() => None,
            0 => None,
            BACKGROUND_BATCH.. => Some(self.retry_at),
            _ => Some(self.retry_at.max(next_round)),
        }
    }
}

impl QueuedPurges {
    /// Returns whether the task may have something to do that it does not know of.
    fn push(&mut self, request: PurgeRequest) -> bool {
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
            return true;
        }
        let mut is_news = !is_known;
        for (ost, object) in objects {
            let queue = self.osts.entry(ost).or_default();
            if is_known || queue.waiting.len() < PURGE_QUEUE_MAX {
                queue.waiting.push_back(ObjectRemoval { id, object, seq });
                is_news |= matches!(queue.waiting.len(), 1 | BACKGROUND_BATCH);
            }
        }
        is_news
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
        if self.queued.lock().push(PurgeRequest { id, seq, objects }) {
            self.wake.notify_one();
        }
    }

    /// Queues a file that the task found in the records.
    pub fn add_recorded(&self, request: PurgeRequest) {
        self.queued.lock().push(request);
    }

    /// Returns when objects were queued that may change `next_job`.
    pub async fn wait(&self) {
        self.wake.notified().await;
    }

    pub fn status(&self) -> PurgeStatus {
        let queue = self.queued.lock();
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

    /// When `take` returns a job if nothing changes until then; None if that depends on a job or on another object.
    pub fn next_job(&self) -> Option<BootTime> {
        let queue = self.queued.lock();
        let jobs = queue.osts.values();
        jobs.filter_map(|ost| ost.next_job(queue.next_round)).min()
    }

    /// The next objects for each OST without a job, oldest first; failed removals come again at their retry time.
    pub fn take(&self, now: BootTime) -> Vec<(OstId, Vec<ObjectRemoval>)> {
        let mut queue = self.queued.lock();
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
        let next_round = queue.next_round;
        let due = queue
            .osts
            .iter_mut()
            .filter(|(_, ost)| ost.next_job(next_round).is_some_and(|begins| now >= begins));
        let taken = due.map(|(ost, ost_queue)| {
            ost_queue.job_since = Some(now);
            let count = ost_queue.waiting.len().min(BACKGROUND_BATCH);
            (*ost, ost_queue.waiting.drain(..count).collect())
        });
        let taken: Vec<_> = taken.collect();
        if !taken.is_empty() && now >= next_round {
            queue.next_round = now + PURGE_ROUND_EVERY;
        }
        taken
    }

    /// Ends a job: the rest is tried again later. Returns the files of which no object is left.
    pub fn end_job(
        &self,
        ost: OstId,
        gone: &[ObjectRemoval],
        left: Vec<ObjectRemoval>,
        (why, now): (Option<String>, BootTime),
    ) -> Vec<PurgeId> {
        let mut guard = self.queued.lock();
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
    pub fn done(&self, id: PurgeId) -> u64 {
        let mut queue = self.queued.lock();
        let objects = queue.files.remove(&id).unwrap_or_default().of as u64;
        queue.done += 1;
        queue.objects += objects;
        objects
    }

    /// Drops these files from the queue: their records stay, and the task finds them when it reads the records again.
    pub fn forget(&self, ids: impl Iterator<Item = PurgeId>) {
        let mut queue = self.queued.lock();
        for id in ids {
            queue.files.remove(&id);
        }
    }

    /// Whether to read the records; if so, the queue counts as complete from here on, and the returned files are in it already.
    ///
    /// Not while the queue is half full: reading would find mostly the same files again. But once while that is because of an OST
    /// that does not reply.
    pub fn must_load(&self) -> Option<BTreeSet<PurgeId>> {
        let mut queue = self.queued.lock();
        let reads_past = queue.held_up && !queue.read_past;
        if !queue.incomplete || (queue.files.len() >= PURGE_QUEUE_MAX / 2 && !reads_past) {
            return None;
        }
        queue.incomplete = false;
        queue.read_past = queue.held_up;
        Some(queue.files.keys().copied().collect())
    }

    /// The records could not be read, or not be changed.
    pub fn must_load_again(&self) {
        let mut queue = self.queued.lock();
        queue.incomplete = true;
        queue.read_past = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gupfs_proto::{Generation, InodeId};
    use std::time::Duration;

    const START: BootTime = BootTime(1_000_000_000);
    const OSTS: [OstId; 2] = [OstId(0), OstId(1)];

    /// A removed file with one object on each of `osts`.
    fn removed_file(ino: u64, osts: &[OstId]) -> PurgeRequest {
        let ino = InodeId(ino);
        let object = ObjectId {
            ino,
            generation: Generation(1),
            stripe: 0,
        };
        PurgeRequest {
            id: PurgeId { ino, number: 1 },
            seq: Seq(ino.0),
            objects: osts.iter().map(|ost| (*ost, object)).collect(),
        }
    }

    fn add(queue: &PurgeQueue, ino: u64, osts: &[OstId]) {
        queue.add_recorded(removed_file(ino, osts));
    }

    /// The jobs that begin: OST and number of objects.
    fn begin_jobs(queue: &PurgeQueue, now: BootTime) -> Vec<(u16, usize)> {
        let jobs = queue.take(now).into_iter();
        jobs.map(|(ost, batch)| (ost.0, batch.len())).collect()
    }

    fn end_job(queue: &PurgeQueue, ost: OstId, now: BootTime) {
        queue.end_job(ost, &[], Vec::new(), (None, now));
    }

    #[test]
    fn the_first_removal_begins_at_once_and_those_after_it_share_a_round() {
        let queue = PurgeQueue::default();
        assert_eq!(queue.next_job(), None);
        add(&queue, 1, &OSTS[..1]);
        assert!(queue.next_job().unwrap() <= START);
        assert_eq!(begin_jobs(&queue, START), [(0, 1)]);
        end_job(&queue, OSTS[0], START);
        let round = START + PURGE_ROUND_EVERY;
        for ino in 2..40 {
            add(&queue, ino, &OSTS);
            assert_eq!(queue.next_job(), Some(round));
            let before = START + Duration::from_millis(ino);
            assert_eq!(begin_jobs(&queue, before), []);
        }
        assert_eq!(begin_jobs(&queue, round), [(0, 38), (1, 38)]);
        assert_eq!(queue.next_job(), None, "both OSTs have a job");
    }

    #[test]
    fn an_ost_with_enough_objects_for_a_job_does_not_wait_for_the_round() {
        let queue = PurgeQueue::default();
        add(&queue, 1, &OSTS[..1]);
        begin_jobs(&queue, START);
        add(&queue, 2, &OSTS[1..]);
        for ino in 3..3 + BACKGROUND_BATCH as u64 {
            add(&queue, ino, &OSTS[..1]);
        }
        assert_eq!(begin_jobs(&queue, START), [], "ost0 has a job, ost1 waits");
        end_job(&queue, OSTS[0], START);
        assert_eq!(begin_jobs(&queue, START), [(0, BACKGROUND_BATCH)]);
        // This job delays no round.
        assert_eq!(queue.next_job(), Some(START + PURGE_ROUND_EVERY));
    }

    #[test]
    fn the_task_wakes_when_a_removal_may_begin_a_job() {
        let queue = PurgeQueue::default();
        let push = |ino: u64| queue.queued.lock().push(removed_file(ino, &OSTS[..1]));
        let wakes: Vec<u64> = (1..=2 * BACKGROUND_BATCH as u64)
            .filter(|ino| push(*ino))
            .collect();
        assert_eq!(wakes, [1, BACKGROUND_BATCH as u64]);
    }
}
