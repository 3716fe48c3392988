//! Asks every session whether it has files open that lost their last name.

use crate::callback::{CallbackOutcome, CallbackTable};
use crate::join;
use crate::limits::{OST_CALLS, RETRY, SCAN_STEP};
use crate::origin::RequestOrigin;
use crate::pending_work::{RemovedFile, RemovedFiles};
use crate::shard::SessionTable;
use crate::shard_driver::ShardDriver;
use crate::store::MetadataStore;
use crate::waits::{WaitList, WaitReason};
use gupfs_namespace::{BackgroundOp, KeyRange, ParsedKey, RecordKey, RecordKind, UNASKED_SESSIONS};
use gupfs_platform::Clock;
use gupfs_proto::callback::{CallbackReplyBody, CallbackRequest};
use gupfs_proto::{FsError, InodeId, Seq, SessionId};
use std::sync::Arc;

pub struct OpenQueryTask {
    pub store: Arc<MetadataStore>,
    pub driver: Arc<ShardDriver>,
    pub sessions: SessionTable,
    pub callbacks: Arc<CallbackTable>,
    pub waits: Arc<WaitList>,
    pub removed_files: Arc<RemovedFiles>,
    pub clock: Clock,
}

impl OpenQueryTask {
    pub async fn run(self) {
        while self.store.failure().is_none() {
            let batch = self.removed_files.take();
            let outcome = if !batch.is_empty() {
                self.query_all_sessions(batch).await
            } else if self.removed_files.must_load() {
                self.load_removals().await
            } else {
                self.removed_files.wait().await;
                Ok(())
            };
            if let Err(error) = outcome {
                tracing::warn!(%error, "asking the sessions about removed files failed; the server tries again");
                self.clock.sleep(RETRY).await;
                self.removed_files.expect();
            }
        }
    }

    /// Reads from the records the files that are kept until every session was asked.
    async fn load_removals(&self) -> Result<(), FsError> {
        let seq = self.store.last_seq();
        for shard in self.store.all_shards() {
            let mut range = KeyRange::of_kind(shard, RecordKind::Orphan);
            loop {
                let records = self.store.scan_now(&range, SCAN_STEP).await?;
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
        self.store
            .committed(origin, newest.unwrap_or(Seq(0)))
            .await?;
        // A session that is registered later finds no name of the file.
        let sessions: Vec<SessionId> = self.sessions.ids();
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
                .driver
                .background_op(&BackgroundOp::ForgetOrphan { ino, session })
                .await?;
        }
        self.store.committed(origin, seq).await
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
            self.driver
                .background_op(&BackgroundOp::RecordOrphan { ino, session })
                .await?;
        }
        let mut forgotten = self.removed_files.end_query(session);
        if !self.sessions.is_registered(session) {
            // It ended in the meantime, and its cleanup may have been here before this task.
            forgotten.extend(open);
        }
        for ino in forgotten {
            self.driver
                .background_op(&BackgroundOp::ForgetOrphan { ino, session })
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
            let reply = self.callbacks.send_callback(session, &request);
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
                Ok(Err(_)) => self.clock.sleep(RETRY).await,
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
