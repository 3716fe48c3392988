//! Files that lost their last name while several sessions are registered: everybody is asked whether he has them open.
//!
//! The records `O` of the session `NOT_ASKED` are the truth, and keep the file until all have answered. The queue here is
//! what is known of them without a scan.

use crate::core::Core;
use crate::holders::Word;
use crate::limits::{OST_CALLS, REMOVALS_KNOWN, RETRY, SCAN_STEP};
use crate::together;
use crate::waits::{Awaited, Who};
use gupfs_namespace::{ChoreOp, Key, KeyRange, Kind, NOT_ASKED, Parsed};
use gupfs_proto::limits::CHORE_BATCH;
use gupfs_proto::recall::{Answer, Request};
use gupfs_proto::{InodeId, Refusal, Seq, SessionId};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use tokio::sync::Notify;

#[derive(Default)]
pub struct Removals {
    queue: Mutex<Queue>,
    wake: Notify,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Removal>,
    /// There are records that the queue does not know.
    incomplete: bool,
    /// Questions that are not answered yet.
    asked: BTreeMap<SessionId, Asked>,
}

#[derive(Clone, Copy)]
struct Removal {
    ino: InodeId,
    /// Who took the last name: it holds the file by a record of its own.
    by: Option<SessionId>,
    /// The batch that took it, or a later one.
    seq: Seq,
}

#[derive(Default)]
struct Asked {
    about: BTreeSet<InodeId>,
    /// Forgotten already: the answer that it is open was overtaken.
    forgotten: BTreeSet<InodeId>,
}

impl Removals {
    /// Notes a file whose last name is taken by a staged batch.
    pub fn add(&self, ino: InodeId, by: SessionId, seq: Seq) {
        self.push(Removal {
            ino,
            by: Some(by),
            seq,
        });
    }

    /// There may be records of earlier times.
    pub fn expect(&self) {
        self.queue.lock().incomplete = true;
        self.wake.notify_one();
    }

    /// A session has said that it forgot these; its answer that it has them open may still be under way.
    pub fn forgotten(&self, session: SessionId, inodes: &[InodeId]) {
        let mut queue = self.queue.lock();
        if let Some(asked) = queue.asked.get_mut(&session) {
            let known = inodes.iter().filter(|ino| asked.about.contains(ino));
            asked.forgotten.extend(known.copied());
        }
    }

    fn push(&self, removal: Removal) {
        let mut queue = self.queue.lock();
        if queue.waiting.len() >= REMOVALS_KNOWN {
            queue.incomplete = true;
        } else {
            queue.waiting.push_back(removal);
        }
        drop(queue);
        self.wake.notify_one();
    }

    fn take(&self) -> Vec<Removal> {
        let mut queue = self.queue.lock();
        let count = queue.waiting.len().min(CHORE_BATCH);
        queue.waiting.drain(..count).collect()
    }

    fn must_load(&self) -> bool {
        std::mem::take(&mut self.queue.lock().incomplete)
    }

    fn asks(&self, session: SessionId, inodes: &[InodeId]) {
        let asked = Asked {
            about: inodes.iter().copied().collect(),
            ..Asked::default()
        };
        self.queue.lock().asked.insert(session, asked);
    }

    /// The answer was noted; returns what was forgotten meanwhile.
    fn answered(&self, session: SessionId) -> BTreeSet<InodeId> {
        let asked = self.queue.lock().asked.remove(&session);
        asked.unwrap_or_default().forgotten
    }
}

impl Core {
    pub(super) async fn ask_everybody_for_ever(self: Arc<Self>) {
        while self.failure().is_none() {
            let batch = self.removals.take();
            let outcome = if !batch.is_empty() {
                self.ask_everybody(batch).await
            } else if self.removals.must_load() {
                self.load_removals().await
            } else {
                self.removals.wake.notified().await;
                Ok(())
            };
            if let Err(refusal) = outcome {
                tracing::warn!(%refusal, "removed files wait for those who may have them open");
                self.platform.clock.sleep(RETRY).await;
                self.removals.expect();
            }
        }
    }

    /// Reads from the records which files are kept until everybody was asked.
    async fn load_removals(&self) -> Result<(), Refusal> {
        let seq = self.kv.last_seq();
        for shard in self.all_shards() {
            let mut range = KeyRange::of_kind(shard, Kind::Orphan);
            loop {
                let records = self.scan_now(&range, SCAN_STEP).await?;
                for (key, _) in &records {
                    if let Some(ino) = not_asked(key) {
                        let by = None;
                        self.removals.push(Removal { ino, by, seq });
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

    /// Asks every session about these files, keeps them for those who have them open, and lets go of the others.
    async fn ask_everybody(&self, batch: Vec<Removal>) -> Result<(), Refusal> {
        let who = Who::own("ask about removed files");
        let newest = batch.iter().map(|removal| removal.seq).max();
        self.committed(who, newest.unwrap_or(Seq(0))).await?;
        // Who comes later finds no name that leads there.
        let sessions: Vec<SessionId> = self.shard.lock().sessions.keys().copied().collect();
        let asked = sessions
            .into_iter()
            .map(|session| self.ask_about(session, &batch));
        for outcome in together::all(asked.collect(), OST_CALLS).await {
            outcome?;
        }
        let mut seq = Seq(0);
        for removal in &batch {
            let (ino, session) = (removal.ino, NOT_ASKED);
            seq = self.chore(&ChoreOp::ForgetOrphan { ino, session }).await?;
        }
        self.committed(who, seq).await
    }

    /// Asks one session, and waits for its answer as long as it is registered.
    async fn ask_about(&self, session: SessionId, batch: &[Removal]) -> Result<(), Refusal> {
        let others = batch.iter().filter(|removal| removal.by != Some(session));
        let inodes: Vec<InodeId> = others.map(|removal| removal.ino).collect();
        if inodes.is_empty() {
            return Ok(());
        }
        self.removals.asks(session, &inodes);
        let open = self.who_is_open(session, &inodes).await;
        for ino in &open {
            let ino = *ino;
            self.chore(&ChoreOp::HoldOrphan { ino, session }).await?;
        }
        let mut forgotten = self.removals.answered(session);
        if !self.shard.lock().sessions.contains_key(&session) {
            // It ended meanwhile, and whoever cleared up after it may have been here before us.
            forgotten.extend(open);
        }
        for ino in forgotten {
            self.chore(&ChoreOp::ForgetOrphan { ino, session }).await?;
        }
        Ok(())
    }

    /// Which of these files the session has open.
    async fn who_is_open(&self, session: SessionId, inodes: &[InodeId]) -> Vec<InodeId> {
        let who = Who::own("ask about removed files");
        let question = Request::Removed {
            inodes: inodes.to_vec(),
        };
        loop {
            let word = self.ask_session(session, &question);
            match self.waits.wait(who, Awaited::Opens(session), word).await {
                Ok(Ok(Word::Gone)) => return Vec::new(),
                Ok(Ok(Word::Said(Answer::Open(open)))) if open.len() == inodes.len() => {
                    let open = inodes.iter().zip(open).filter(|(_, open)| *open);
                    return open.map(|(ino, _)| *ino).collect();
                }
                // Kept for it until it forgets them or ends: an answer to another question frees nothing.
                Ok(Ok(Word::Said(_))) => return inodes.to_vec(),
                // It is waited for, however long: what it has open stays.
                Ok(Err(_)) => self.platform.clock.sleep(RETRY).await,
                Err(_) => {}
            }
        }
    }
}

fn not_asked(key: &Key) -> Option<InodeId> {
    match key.parse() {
        Some(Parsed::Orphan { ino, session }) if session == NOT_ASKED => Some(ino),
        _ => None,
    }
}
