//! Stages the batch of an applied operation, and notes what other tasks must know of it.

use super::{AppliedOp, ReplyLeases, ShardDriver};
use crate::shard::Shard;
use crate::store::to_store;
use gupfs_namespace::{BackgroundOp, Effects, FollowUp, Operation, RecordBatch};
use gupfs_proto::meta::{self, AppliedChange, MetaReplyBody};
use gupfs_proto::{FsError, Seq, SessionId, Timestamp};

impl ShardDriver {
    /// Stages the batch and notes, at the same moment, what other tasks must know: truncates, purges, registered sessions.
    pub(super) fn stage(
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
        if changed {
            let durable = self.store.durable_seq();
            shard.change_times.note(seq, now, durable);
        }
        let change_seq = effects.original_seq.or(changed.then_some(seq));
        // A request that arrives again is answered with the time of its change.
        let at = |seq| shard.change_times.of(seq).unwrap_or(now);
        let change = change_seq.map(|seq| AppliedChange { seq, at: at(seq) });
        let mut applied = AppliedOp {
            result: effects.reply,
            seq,
            changed,
            change,
            truncate: None,
            ended_session: None,
            reserved_block: None,
            // The first reply may be waiting for the log's sync, and this request does not say whether it had to.
            durable: effects.original_seq.is_some(),
            used_callbacks: false,
            has_more_batches: effects.unfinished,
            leases: ReplyLeases::default(),
        };
        for work in effects.follow_ups {
            self.note_follow_up(shard, work, session, &mut applied);
        }
        self.note_outcome(shard, op, &applied.result, (session, now));
        applied
    }

    /// Notes what the state machine leaves to do for this operation.
    fn note_follow_up(
        &self,
        shard: &mut Shard,
        work: FollowUp,
        session: SessionId,
        applied: &mut AppliedOp,
    ) {
        let seq = applied.seq;
        match work {
            FollowUp::Truncate { id, objects } => {
                let truncate = self.pending_truncates.add(id, seq, Some(session), objects);
                applied.truncate = Some(truncate)
            }
            FollowUp::Purge { id, objects } => self.purge_queue.add(id, seq, objects),
            FollowUp::Confirm(_) => self.confirm.expect(),
            FollowUp::Resync(_) => self.resync.expect(),
            FollowUp::InodeNumbers { shard, counters } => {
                applied.reserved_block = Some((shard, counters))
            }
            FollowUp::SessionEnded(session) => {
                self.registry.unregister_closed(shard, session);
                self.registry.may_announce_end(session);
                applied.ended_session = Some(session);
            }
            FollowUp::AwaitDurable => applied.durable = true,
            FollowUp::FindOpeners { ino, by } => self.removed_files.add(ino, by, seq),
            FollowUp::InodeRemoved(_) => {} // the driver keeps nothing about an inode
        }
    }

    /// Notes what the operation's result means to operations that wait.
    fn note_outcome(
        &self,
        shard: &mut Shard,
        op: Operation<'_>,
        result: &Result<MetaReplyBody, FsError>,
        (session, now): (SessionId, Timestamp),
    ) {
        if let (Operation::Client(op), Ok(reply)) = (op, result)
            && self.keeps_sessions
        {
            shard.new_files.note_reply(session, op, reply);
        }
        match op {
            Operation::Client(
                meta::MetaOp::BeginWrite { ino, .. } | meta::MetaOp::BeginWriteAt { ino, .. },
            ) if result.is_ok() => {
                self.leases.queues.lease_granted(*ino, session);
            }
            Operation::Client(
                meta::MetaOp::EndWrite {
                    keep_lease: false, ..
                }
                | meta::MetaOp::ReportWrites {
                    keep_lease: false, ..
                }
                | meta::MetaOp::DowngradeWrite { .. },
            )
            | Operation::Background(BackgroundOp::RecoverWriteLease { .. }) => {
                self.leases.ended.notify_waiters()
            }
            Operation::Background(BackgroundOp::TruncateDone { id, .. }) if result.is_ok() => {
                self.pending_truncates.remove(*id)
            }
            Operation::Client(meta::MetaOp::Forget { inodes }) if result.is_ok() => {
                self.removed_files.forgotten(session, inodes);
            }
            Operation::Client(meta::MetaOp::OpenSession { client }) => {
                if let Ok(MetaReplyBody::Session { session, .. }) = result {
                    self.registry.register(shard, *session, client, now);
                }
            }
            _ => {}
        }
    }

    /// Stages changes to records of the server itself, without the state machine.
    pub fn stage_server_records(&self, batch: RecordBatch) -> Result<Seq, FsError> {
        self.stage_batch(&mut self.shard.lock(), batch)
    }

    /// # Errors
    /// When the batch is larger than the log accepts: a bug of the operation, and nothing was staged.
    pub(super) fn stage_batch(
        &self,
        shard: &mut Shard,
        batch: RecordBatch,
    ) -> Result<Seq, FsError> {
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
}
