//! Drives one operation through the state machine: apply, fetch missing records, apply again, stage.

use crate::core::Core;
use crate::glimpse::LeaseContext;
use crate::limits::ROUNDS_MAX;
use crate::pending_truncates::PendingTruncate;
use crate::records::{ScanCache, StoreView, to_store};
use crate::shard::{SessionInfo, Shard};
use crate::waits::{RequestOrigin, WaitReason};
use bytes::Bytes;
use gupfs_namespace::rights::OpenRights;
use gupfs_namespace::{
    ApplyResult, BackgroundOp, CachedRecord, Effects, FollowUp, OpContext, Operation,
    OriginalResult, Prerequisite, PurgeId, RecordBatch, RecordKey, RecordSource,
};
use gupfs_proto::meta::{self, AppliedChange, MetaReplyBody, SlotSeq};
use gupfs_proto::{Caller, FsError, Seq, SessionId, Timestamp, VirtualShard};
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// The party for which an operation is done.
#[derive(Clone, Copy)]
pub struct Requester<'a> {
    pub origin: RequestOrigin,
    /// The server itself, which needs no session.
    pub is_server: bool,
    pub slot_seq: Option<SlotSeq>,
    pub caller: &'a Caller,
    /// The files that the session has proved to have open.
    pub opens: &'a OpenRights,
    /// Set for a replay: the change was made before, and a power loss undid it.
    pub replay: Option<ReplayContext<'a>>,
}

/// How a replayed change was made the first time.
#[derive(Clone, Copy)]
pub struct ReplayContext<'a> {
    pub changed_at: Timestamp,
    pub recorded: &'a OriginalResult,
}

/// A record that an operation depends on: the operation is not done if the record has changed.
pub type ExpectedRecord = (RecordKey, Bytes);

/// The outcome of an operation. Its batch is staged, not committed.
pub struct AppliedOp {
    pub result: Result<MetaReplyBody, FsError>,
    /// The newest batch that the reply depends on: the operation's own, or one that it saw.
    pub seq: Seq,
    /// Whether it changed anything.
    pub changed: bool,
    /// The change that the operation made, now or when its request arrived first.
    pub change: Option<AppliedChange>,
    /// A truncate to run before the reply leaves.
    pub truncate: Option<Arc<PendingTruncate>>,
    /// A session that ended and needs cleanup.
    pub ended_session: Option<SessionId>,
    reserved_block: Option<(VirtualShard, Range<u64>)>,
    /// The reply leaves when `seq` is durable.
    pub durable: bool,
    /// The reply depends on attribute reports that other sessions sent meanwhile.
    pub used_callbacks: bool,
    /// The operation has more to do than one batch holds.
    has_more_batches: bool,
}

/// How one attempt ended.
enum Attempt {
    Done(AppliedOp),
    /// The number is how many blocks of inode numbers the shard had been given: a task that finds more does not reserve another.
    Need(Prerequisite, u64),
    RecordChanged,
}

impl AppliedOp {
    /// Nothing was staged.
    fn refused(error: FsError, seen: Seq) -> AppliedOp {
        AppliedOp {
            result: Err(error),
            seq: seen,
            changed: false,
            change: None,
            truncate: None,
            ended_session: None,
            reserved_block: None,
            durable: false,
            used_callbacks: false,
            has_more_batches: false,
        }
    }
}

impl Core {
    /// Applies an operation and stages its batch, or its batches if it has more to do than one batch holds.
    ///
    /// # Errors
    /// The reason why it could not be applied; the operation's own error is in `AppliedOp::result`.
    pub async fn drive(
        &self,
        requester: Requester<'_>,
        op: Operation<'_>,
    ) -> Result<AppliedOp, FsError> {
        match self.drive_if_unchanged(requester, op, None).await? {
            Some(applied) => Ok(applied),
            None => unreachable!("no record was expected"),
        }
    }

    /// The same, but returns None and does nothing if the expected record differs at that moment.
    pub async fn drive_if_unchanged(
        &self,
        requester: Requester<'_>,
        op: Operation<'_>,
        expected: Option<&ExpectedRecord>,
    ) -> Result<Option<AppliedOp>, FsError> {
        let mut scanned = ScanCache::new(self);
        let mut lease_context = LeaseContext::default();
        let mut rounds = 0;
        while rounds < ROUNDS_MAX {
            rounds += 1;
            let need = match self.attempt(requester, op, expected, &scanned, &lease_context)? {
                Attempt::Done(applied) if applied.has_more_batches => {
                    // It has made progress, and its scans are not the newest state any more.
                    (rounds, scanned) = (0, ScanCache::new(self));
                    self.wait_index_caught_up(requester.origin).await?;
                    continue;
                }
                Attempt::Done(mut applied) => {
                    applied.used_callbacks = lease_context.has_sent_callbacks();
                    return Ok(Some(applied));
                }
                Attempt::RecordChanged => return Ok(None),
                Attempt::Need(need, given) => (need, given),
            };
            match need {
                (Prerequisite::Keys(keys), _) => self.fetch_all(requester.origin, keys).await?,
                (Prerequisite::Scan { range, limit }, _) => {
                    scanned.read(requester.origin, range, limit).await?;
                }
                (Prerequisite::InodeNumbers(shard), given) => {
                    self.reserve_block(requester.origin, shard, given).await?
                }
                (Prerequisite::Truncate(id), _) => {
                    self.await_truncate(requester.origin, id).await?
                }
                // A replay runs in its order and waits for no other session.
                (Prerequisite::Callback { .. } | Prerequisite::LeaseQueue(_), _)
                    if requester.replay.is_some() =>
                {
                    return Err(FsError::Busy);
                }
                (Prerequisite::Callback { ino, revoke }, _) => {
                    // Boxed because it is rare, and its future is larger than the rest of this function.
                    Box::pin(self.glimpse_or_revoke(&mut lease_context, requester, ino, revoke))
                        .await?;
                }
                (Prerequisite::LeaseQueue(ino), _) => {
                    self.enter_lease_queue(&mut lease_context, requester.origin, ino)
                        .await?
                }
            }
        }
        // Every round brings records that were missing; only a store that evicts records faster than the operation asks gets
        // here.
        Err(FsError::Overloaded)
    }

    /// One attempt, under the shard's lock.
    fn attempt(
        &self,
        requester: Requester<'_>,
        op: Operation<'_>,
        expected: Option<&ExpectedRecord>,
        scanned: &ScanCache<'_>,
        lease_context: &LeaseContext<'_>,
    ) -> Result<Attempt, FsError> {
        let mut guard = self.shard.lock();
        let shard = &mut *guard;
        let session = self.session_of(shard, requester, op)?;
        let now = match &requester.replay {
            Some(replay) => shard.now_for_replay(replay.changed_at),
            None => shard.now(),
        };
        let entropy = shard.entropy.next();
        let view = StoreView::new(self, scanned, &shard.recent);
        if let Some((key, value)) = expected {
            match view.get(key) {
                CachedRecord::Value(now) if now.as_ref() == Some(value) => {}
                CachedRecord::Value(_) => return Ok(Attempt::RecordChanged),
                CachedRecord::Unknown => {
                    return Ok(Attempt::Need(Prerequisite::Keys(vec![key.clone()]), 0));
                }
            }
        }
        let ctx = OpContext {
            now,
            entropy,
            session,
            slot_seq: requester.slot_seq,
            caller: requester.caller,
            open_rights: requester.opens,
            shards: self.shards,
            owner_epoch: self.owner_epoch,
            targets: &shard.targets,
            growth_allowed: self.growth_allowed.load(Relaxed),
            is_only_session: shard.sessions.len() <= 1,
            is_private_file: match op {
                // While no other session is registered, the client knows whether it has promised their contents.
                Operation::Client(meta::MetaOp::SpillInline { ino, .. }) => {
                    !self.keeps_sessions || shard.new_files.is_private(*ino, session)
                }
                _ => false,
            },
            must_queue: match op {
                Operation::Client(meta::MetaOp::BeginWrite { ino, .. }) => {
                    !lease_context.is_first_in_queue(*ino) && self.lease_queues.has_waiters(*ino)
                }
                _ => false,
            },
            callbacks: &lease_context.results,
            seq: Seq(self.kv.last_seq().0 + 1),
            replay: requester.replay.map(|replay| replay.recorded),
        };
        match shard.machine.apply(&view, &ctx, op) {
            ApplyResult::Needs(need) => {
                if let Some(error) = view.failure() {
                    return Err(self.fail(&error));
                }
                let given = match &need {
                    Prerequisite::InodeNumbers(of) => shard.blocks_given(*of),
                    _ => 0,
                };
                Ok(Attempt::Need(need, given))
            }
            ApplyResult::Done(effects) => {
                let seen = view.newest();
                let applied = self.stage(shard, effects, seen, op, (session, now));
                Ok(Attempt::Done(applied))
            }
        }
    }

    /// The session of an operation. A new session gets the number of the batch that registers it, so its number is above all that
    /// were ever given; the session may be used once that batch is durable.
    fn session_of(
        &self,
        shard: &Shard,
        requester: Requester<'_>,
        op: Operation<'_>,
    ) -> Result<SessionId, FsError> {
        match op {
            Operation::Client(meta::MetaOp::OpenSession { .. }) => {
                Ok(SessionId(self.sessions_skipped + self.kv.last_seq().0 + 1))
            }
            Operation::Client(_)
                if !requester.is_server
                    && !shard.sessions.contains_key(&requester.origin.session) =>
            {
                Err(FsError::SessionEnded)
            }
            _ => Ok(requester.origin.session),
        }
    }

    /// Stages the batch and notes, at the same moment, what other tasks must know: truncates, purges, registered sessions.
    fn stage(
        &self,
        shard: &mut Shard,
        effects: Effects,
        seen: Seq,
        op: Operation<'_>,
        (session, now): (SessionId, Timestamp),
    ) -> AppliedOp {
        let changed = !effects.batch.is_empty();
        let seq = if changed {
            match self.stage_batch(shard, effects.batch) {
                Ok(seq) => seq,
                Err(error) => return AppliedOp::refused(error, seen),
            }
        } else {
            seen
        };
        let change_seq = effects.original_seq.or(changed.then_some(seq));
        let change = change_seq.map(|seq| AppliedChange { seq, at: now });
        let mut applied = AppliedOp {
            result: effects.reply,
            seq,
            changed,
            change,
            truncate: None,
            ended_session: None,
            reserved_block: None,
            durable: false,
            used_callbacks: false,
            has_more_batches: effects.unfinished,
        };
        for work in effects.follow_ups {
            match work {
                FollowUp::Truncate { id, objects } => {
                    applied.truncate = Some(self.pending_truncates.add(id, seq, objects))
                }
                FollowUp::Purge { id, objects } => self.purge_queue.add(id, seq, objects),
                FollowUp::Confirm(_) => self.confirm.expect(),
                FollowUp::InodeNumbers { shard, counters } => {
                    applied.reserved_block = Some((shard, counters))
                }
                FollowUp::SessionEnded(session) => {
                    self.unregister(shard, session);
                    self.may_announce_end(session);
                    applied.ended_session = Some(session);
                }
                FollowUp::AwaitDurable => applied.durable = true,
                FollowUp::FindOpeners { ino, by } => self.removed_files.add(ino, by, seq),
                FollowUp::InodeRemoved(_) => {} // the driver keeps nothing about an inode
            }
        }
        if let (Operation::Client(op), Ok(reply)) = (op, &applied.result)
            && self.keeps_sessions
        {
            shard.new_files.note_reply(session, op, reply);
        }
        match op {
            Operation::Client(meta::MetaOp::BeginWrite { ino, .. }) if applied.result.is_ok() => {
                self.lease_queues.lease_granted(*ino, session);
            }
            Operation::Client(meta::MetaOp::EndWrite {
                keep_lease: false, ..
            })
            | Operation::Background(BackgroundOp::RecoverWriteLease { .. }) => {
                self.lease_ended.notify_waiters()
            }
            Operation::Background(BackgroundOp::TruncateDone { id, .. })
                if applied.result.is_ok() =>
            {
                self.pending_truncates.remove(*id)
            }
            Operation::Client(meta::MetaOp::Forget { inodes }) if applied.result.is_ok() => {
                self.removed_files.forgotten(session, inodes);
            }
            Operation::Client(meta::MetaOp::OpenSession { client }) => {
                if let Ok(MetaReplyBody::Session { session, .. }) = &applied.result {
                    let info = SessionInfo {
                        client: client.clone(),
                        since: now,
                    };
                    shard.register(*session, info, self.platform.clock.boot());
                }
            }
            _ => {}
        }
        applied
    }

    /// Stages changes to records of the server itself, without the state machine.
    pub fn stage_server_records(&self, batch: RecordBatch) -> Result<Seq, FsError> {
        self.stage_batch(&mut self.shard.lock(), batch)
    }

    /// # Errors
    /// When the batch is larger than the log accepts: a bug of the operation, and nothing was staged.
    fn stage_batch(&self, shard: &mut Shard, batch: RecordBatch) -> Result<Seq, FsError> {
        if shard.recent.is_noting() {
            let next = Seq(self.kv.last_seq().0 + 1);
            shard.recent.note(next, batch.iter().map(|(key, _)| key));
        }
        // One log for all virtual shards so far.
        self.kv.stage(0, to_store(batch)).map_err(|error| {
            tracing::error!(%error, "the log refused a batch of metadata changes");
            FsError::Malformed(error.to_string())
        })
    }

    /// One step of a background task, staged and not committed.
    pub async fn background_op(&self, op: &BackgroundOp) -> Result<Seq, FsError> {
        let applied = self
            .drive(self.server_requester(), Operation::Background(op))
            .await?;
        applied.result.map(|_| applied.seq)
    }

    /// The server itself as a requester.
    pub fn server_requester(&self) -> Requester<'_> {
        Requester {
            origin: RequestOrigin::server("background task"),
            is_server: true,
            slot_seq: None,
            caller: &self.root,
            opens: OpenRights::NONE,
            replay: None,
        }
    }

    /// Reserves the next block of inode numbers, unless another task reserved one while this one waited for the lock.
    ///
    /// The block is durable before its first number is used: a number that a power loss undoes would be given to two files.
    async fn reserve_block(
        &self,
        origin: RequestOrigin,
        shard: VirtualShard,
        given: u64,
    ) -> Result<(), FsError> {
        let lock = self
            .waits
            .wait(origin, WaitReason::Numbers(shard), self.reserving.lock());
        let _lock = lock.await?;
        if self.shard.lock().blocks_given(shard) > given {
            return Ok(());
        }
        self.reserve_blocks(origin, &[shard]).await
    }

    /// Reserves a block for each of these shards, with one sync for all. Boxed because it drives the state machine itself.
    pub fn reserve_blocks<'a>(
        &'a self,
        origin: RequestOrigin,
        shards: &'a [VirtualShard],
    ) -> Pin<Box<dyn Future<Output = Result<(), FsError>> + Send + 'a>> {
        Box::pin(async move {
            let mut blocks = Vec::with_capacity(shards.len());
            let mut newest = Seq(0);
            for shard in shards {
                let op = BackgroundOp::ReserveInodeNumbers { shard: *shard };
                let applied = self
                    .drive(self.server_requester(), Operation::Background(&op))
                    .await?;
                applied.result?;
                newest = newest.max(applied.seq);
                blocks.extend(applied.reserved_block);
            }
            self.durable(origin, newest).await?;
            let mut guard = self.shard.lock();
            for (shard, counters) in blocks {
                guard.give_block(shard, counters);
                self.stats.number_blocks.fetch_add(1, Relaxed);
            }
            Ok(())
        })
    }

    /// Waits until this truncate is done. If it is not listed, it was done just now.
    pub async fn await_truncate(&self, origin: RequestOrigin, id: PurgeId) -> Result<(), FsError> {
        match self.pending_truncates.get(id) {
            Some(truncate) => self.run_truncate(origin, truncate).await,
            None => Ok(()),
        }
    }
}
