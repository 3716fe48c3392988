//! The queue of files that lost their last name while several sessions are registered.
//!
//! The records `O` of the session `UNASKED_SESSIONS` are the truth, and keep the file until all sessions have replied. The queue
//! here holds what is known of them without a scan.

use crate::limits::REMOVED_FILES_MAX;
use gupfs_proto::limits::BACKGROUND_BATCH;
use gupfs_proto::{InodeId, Seq, SessionId};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use tokio::sync::Notify;

#[derive(Default)]
pub struct RemovedFiles {
    queued: Mutex<QueuedRemovals>,
    wake: Notify,
}

#[derive(Default)]
struct QueuedRemovals {
    waiting: VecDeque<RemovedFile>,
    /// There are records that the queue does not hold.
    incomplete: bool,
    /// Requests without a reply yet.
    queries: BTreeMap<SessionId, OpenQuery>,
}

#[derive(Clone, Copy)]
pub struct RemovedFile {
    pub ino: InodeId,
    /// The session that removed the last name: it has an orphan record of its own.
    pub by: Option<SessionId>,
    /// The batch that removed the name, or a later one.
    pub seq: Seq,
}

#[derive(Default)]
struct OpenQuery {
    about: BTreeSet<InodeId>,
    /// Forgotten by the session already: its reply that the file is open is outdated.
    forgotten: BTreeSet<InodeId>,
}

impl RemovedFiles {
    /// Queues a file whose last name a staged batch removes.
    pub fn add(&self, ino: InodeId, by: SessionId, seq: Seq) {
        self.push(RemovedFile {
            ino,
            by: Some(by),
            seq,
        });
    }

    /// There may be records of earlier starts.
    pub fn expect(&self) {
        self.queued.lock().incomplete = true;
        self.wake.notify_one();
    }

    /// A session has forgotten these files; its reply that it has them open may still be on its way.
    pub fn forgotten(&self, session: SessionId, inodes: &[InodeId]) {
        let mut queue = self.queued.lock();
        if let Some(query) = queue.queries.get_mut(&session) {
            let known = inodes.iter().filter(|ino| query.about.contains(ino));
            query.forgotten.extend(known.copied());
        }
    }

    /// Queues a file; the task finds it in the records later if the queue is full.
    pub fn push(&self, file: RemovedFile) {
        let mut queue = self.queued.lock();
        if queue.waiting.len() >= REMOVED_FILES_MAX {
            queue.incomplete = true;
        } else {
            queue.waiting.push_back(file);
        }
        drop(queue);
        self.wake.notify_one();
    }

    /// Returns when files were queued.
    pub async fn wait(&self) {
        self.wake.notified().await;
    }

    /// The next files, oldest first.
    pub fn take(&self) -> Vec<RemovedFile> {
        let mut queue = self.queued.lock();
        let count = queue.waiting.len().min(BACKGROUND_BATCH);
        queue.waiting.drain(..count).collect()
    }

    /// Whether to read the records; if so, the queue counts as complete from here on.
    pub fn must_load(&self) -> bool {
        std::mem::take(&mut self.queued.lock().incomplete)
    }

    /// The session is asked about these files now.
    pub fn begin_query(&self, session: SessionId, inodes: &[InodeId]) {
        let query = OpenQuery {
            about: inodes.iter().copied().collect(),
            ..OpenQuery::default()
        };
        self.queued.lock().queries.insert(session, query);
    }

    /// The reply is recorded; returns the files that the session forgot in the meantime.
    pub fn end_query(&self, session: SessionId) -> BTreeSet<InodeId> {
        let query = self.queued.lock().queries.remove(&session);
        query.unwrap_or_default().forgotten
    }
}
