//! Files that lost their last name while several sessions are registered: the server asks every session whether it has them open.
//!
//! The records `O` of the session `UNASKED_SESSIONS` are the truth, and keep the file until all sessions have replied. The queue
//! here holds what is known of them without a scan.

use crate::callback::CallbackOutcome;
use crate::core::Core;
use crate::join;
use crate::limits::{OST_CALLS, REMOVED_FILES_MAX, RETRY, SCAN_STEP};
use crate::waits::{RequestOrigin, WaitReason};
use gupfs_namespace::{BackgroundOp, KeyRange, ParsedKey, RecordKey, RecordKind, UNASKED_SESSIONS};
use gupfs_proto::callback::{CallbackReplyBody, CallbackRequest};
use gupfs_proto::limits::BACKGROUND_BATCH;
use gupfs_proto::{FsError, InodeId, Seq, SessionId};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use tokio::sync::Notify;

#[derive(Default)]
pub struct RemovedFiles {
    queue: Mutex<RemovedFilesState>,
    wake: Notify,
}

#[derive(Default)]
struct RemovedFilesState {
    waiting: VecDeque<RemovedFile>,
    /// There are records that the queue does not hold.
    incomplete: bool,
    /// Requests without a reply yet.
    queries: BTreeMap<SessionId, OpenQuery>,
}

#[derive(Clone, Copy)]
struct RemovedFile {
    ino: InodeId,
    /// The session that removed the last name: it has an orphan record of its own.
    by: Option<SessionId>,
    /// The batch that removed the name, or a later one.
    seq: Seq,
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
        self.queue.lock().incomplete = true;
        self.wake.notify_one();
    }

    /// A session has forgotten these files; its reply that it has them open may still be on its way.
    pub fn forgotten(&self, session: SessionId, inodes: &[InodeId]) {
        let mut queue = self.queue.lock();
        if let Some(query) = queue.queries.get_mut(&session) {
            let known = inodes.iter().filter(|ino| query.about.contains(ino));
            query.forgotten.extend(known.copied());
        }
    }

    fn push(&self, file: RemovedFile) {
        let mut queue = self.queue.lock();
        if queue.waiting.len() >= REMOVED_FILES_MAX {
            queue.incomplete = true;
        } else {
            queue.waiting.push_back(file);
        }
        drop(queue);
        self.wake.notify_one();
    }

    fn take(&self) -> Vec<RemovedFile> {
        let mut queue = self.queue.lock();
        let count = queue.waiting.len().min(BACKGROUND_BATCH);
        queue.waiting.drain(..count).collect()
    }

    fn must_load(&self) -> bool {
        std::mem::take(&mut self.queue.lock().incomplete)
    }

    fn begin_query(&self, session: SessionId, inodes: &[InodeId]) {
        let query = OpenQuery {
            about: inodes.iter().copied().collect(),
            ..OpenQuery::default()
        };
        self.queue.lock().queries.insert(session, query);
    }

    /// The reply is recorded; returns the files that the session forgot in the meantime.
    fn end_query(&self, session: SessionId) -> BTreeSet<InodeId> {
        let query = self.queue.lock().queries.remove(&session);
        query.unwrap_or_default().forgotten
    }
}

impl Core {
    pub(super) async fn run_open_queries(self: Arc<Self>) {
        while self.failure().is_none() {
            let batch = self.removed_files.take();
            let outcome = if !batch.is_empty() {
                self.query_all_sessions(batch).await
            } else if self.removed_files.must_load() {
                self.load_removals().await
            } else {
                self.removed_files.wake.notified().await;
                Ok(())
            };
            if let Err(error) = outcome {
                tracing::warn!(%error, "asking the sessions about removed files failed; the server tries again");
                self.platform.clock.sleep(RETRY).await;
                self.removed_files.expect();
            }
        }
    }

    /// Reads from the records the files that are kept until every session was asked.
    async fn load_removals(&self) -> Result<(), FsError> {
        let seq = self.kv.last_seq();
        for shard in self.all_shards() {
            let mut range = KeyRange::of_kind(shard, RecordKind::Orphan);
            loop {
                let records = self.scan_now(&range, SCAN_STEP).await?;
                for (key, _) in &records {
                    if let Some(ino) = unqueried_inode(key) {
                        let by = None;
                        self.removed_files.push(RemovedFile { ino, by, seq });
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

    /// Asks every session about these files, keeps them for the sessions that have them open, and drops the others.
    async fn query_all_sessions(&self, batch: Vec<RemovedFile>) -> Result<(), FsError> {
        let origin = RequestOrigin::server("ask about removed files");
        let newest = batch.iter().map(|file| file.seq).max();
        self.committed(origin, newest.unwrap_or(Seq(0))).await?;
        // A session that is registered later finds no name of the file.
        let sessions: Vec<SessionId> = self.shard.lock().sessions.keys().copied().collect();
        let queries = sessions
            .into_iter()
            .map(|session| self.query_session(session, &batch));
        for outcome in join::all(queries.collect(), OST_CALLS).await {
            outcome?;
        }
        let mut seq = Seq(0);
        for file in &batch {
            let (ino, session) = (file.ino, UNASKED_SESSIONS);
            seq = self
                .background_op(&BackgroundOp::ForgetOrphan { ino, session })
                .await?;
        }
        self.committed(origin, seq).await
    }

    /// Asks one session, and waits for its reply as long as it is registered.
    async fn query_session(
        &self,
        session: SessionId,
        batch: &[RemovedFile],
    ) -> Result<(), FsError> {
        let others = batch.iter().filter(|file| file.by != Some(session));
        let inodes: Vec<InodeId> = others.map(|file| file.ino).collect();
        if inodes.is_empty() {
            return Ok(());
        }
        self.removed_files.begin_query(session, &inodes);
        let open = self.open_files_of(session, &inodes).await;
        for ino in &open {
            let ino = *ino;
            self.background_op(&BackgroundOp::RecordOrphan { ino, session })
                .await?;
        }
        let mut forgotten = self.removed_files.end_query(session);
        if !self.shard.lock().sessions.contains_key(&session) {
            // It ended in the meantime, and its cleanup may have been here before this task.
            forgotten.extend(open);
        }
        for ino in forgotten {
            self.background_op(&BackgroundOp::ForgetOrphan { ino, session })
                .await?;
        }
        Ok(())
    }

    /// Which of these files the session has open.
    async fn open_files_of(&self, session: SessionId, inodes: &[InodeId]) -> Vec<InodeId> {
        let origin = RequestOrigin::server("ask about removed files");
        let request = CallbackRequest::CheckOpen {
            inodes: inodes.to_vec(),
        };
        loop {
            let reply = self.send_callback(session, &request);
            match self
                .waits
                .wait(origin, WaitReason::OpenFiles(session), reply)
                .await
            {
                Ok(Ok(CallbackOutcome::SessionEnded)) => return Vec::new(),
                Ok(Ok(CallbackOutcome::Reply(CallbackReplyBody::IsOpen(open))))
                    if open.len() == inodes.len() =>
                {
                    let open = inodes.iter().zip(open).filter(|(_, open)| *open);
                    return open.map(|(ino, _)| *ino).collect();
                }
                // The files are kept for the session until it forgets them or ends: a reply that does not belong to the request
                // frees nothing.
                Ok(Ok(CallbackOutcome::Reply(_))) => return inodes.to_vec(),
                // The server waits for the session, however long: its open files stay.
                Ok(Err(_)) => self.platform.clock.sleep(RETRY).await,
                Err(_) => {}
            }
        }
    }
}

fn unqueried_inode(key: &RecordKey) -> Option<InodeId> {
    match key.parse() {
        Some(ParsedKey::Orphan { ino, session }) if session == UNASKED_SESSIONS => Some(ino),
        _ => None,
    }
}
