//! The state machine of a shard: an operation goes in; its prerequisite or its effects come out.

use crate::background::{self, BackgroundOp};
use crate::context::OpContext;
use crate::digest::digest;
use crate::driver::{ApplyResult, Effects, FollowUp, OpError, OpResult, RecordBatch, RecordSource};
use crate::inode_numbers::ReservedInodeNumbers;
use crate::key::RecordKey;
use crate::ops;
use crate::record::StoredReply;
use crate::requester::Requester;
use crate::stored_reply::{stored_reply, summarize_reply};
use crate::view::OpView;
use gupfs_proto::meta::{self, MetaReplyBody};
use gupfs_proto::{FsError, Seq, VirtualShard};
use std::ops::Range;

/// An operation that the state machine can apply.
#[derive(Clone, Copy, Debug)]
pub enum Operation<'a> {
    Client(&'a meta::MetaOp),
    Background(&'a BackgroundOp),
}

/// The only state between operations that is not in the records: inode numbers reserved and not yet used. Losing it leaves a gap
/// in the numbers.
#[derive(Debug, Default)]
pub struct ShardMachine {
    reserved: ReservedInodeNumbers,
}

impl ShardMachine {
    pub fn new() -> ShardMachine {
        ShardMachine::default()
    }

    /// Applies one operation to the newest state. The same records, context and operation give the same result. After
    /// `ApplyResult::Needs` nothing has changed. After `ApplyResult::Done` the driver must commit the batch, and no other
    /// operation may read records without it.
    pub fn apply(
        &mut self,
        records: &dyn RecordSource,
        ctx: &OpContext,
        op: Operation,
    ) -> ApplyResult {
        tracing::trace!(target: "walk", file = file!(), "apply");
        let mut view = OpView::new(records, ctx, &self.reserved);
        let outcome = match op {
            Operation::Client(op) => apply_client_op(&mut view, ctx, op),
            Operation::Background(op) => background::apply(&mut view, ctx, op)
                .map(|()| CompletedOp::new(MetaReplyBody::Done)),
        };
        let finished = outcome.and_then(|done| Ok((done, view.finish()?)));
        match finished {
            Ok((done, changes)) => {
                if let Some(ino) = changes.created
                    && ctx.replay.is_none()
                {
                    self.reserved.mark_used(ino);
                }
                assert!(
                    !changes.unfinished || !changes.batch.is_empty(),
                    "an unfinished operation has made a change"
                );
                ApplyResult::Done(Effects {
                    batch: changes.batch,
                    original_seq: done.original_seq,
                    reply: Ok(done.reply),
                    follow_ups: changes.follow_ups,
                    unfinished: changes.unfinished,
                })
            }
            Err(OpError::Needs(need)) => ApplyResult::Needs(*need),
            Err(OpError::Refused(error)) => ApplyResult::Done(Effects {
                batch: RecordBatch::new(),
                original_seq: None,
                reply: Err(error),
                follow_ups: Vec::<FollowUp>::new(),
                unfinished: false,
            }),
        }
    }

    /// Adds the counters of `FollowUp::InodeNumbers`, once its batch is durable.
    pub fn add_reserved_numbers(&mut self, shard: VirtualShard, counters: Range<u64>) {
        self.reserved.add(shard, counters);
    }
}

/// An operation's reply, and, if the request was executed before, the batch of that execution.
struct CompletedOp {
    reply: MetaReplyBody,
    original_seq: Option<Seq>,
}

impl CompletedOp {
    fn new(reply: MetaReplyBody) -> CompletedOp {
        CompletedOp {
            reply,
            original_seq: None,
        }
    }
}

/// Executes a client's request, or recognises that it was executed before and returns the stored reply.
fn apply_client_op(view: &mut OpView, ctx: &OpContext, op: &meta::MetaOp) -> OpResult<CompletedOp> {
    if !op.changes() {
        return ops::dispatch(view, ctx, op).map(CompletedOp::new);
    }
    let Some(slot_seq) = ctx.slot_seq else {
        return Err(FsError::Malformed(format!("{} without a slot", op.name())).into());
    };
    let key = RecordKey::reply(op.home().shard(), ctx.session, slot_seq.slot);
    let digest = digest(op, ctx.caller);
    if let Some(last) = view.get::<StoredReply>(&key)?
        && last.sequence >= slot_seq.sequence
    {
        // No program waits for a replayed request's reply: the client only needs to know that it was executed, also if the slot
        // has been used for later requests since.
        let reply = match ctx.replay {
            Some(_) => MetaReplyBody::Done,
            None => {
                let session = &Requester::from_context(ctx).session;
                stored_reply(view, session, op, &last, slot_seq, digest)?
            }
        };
        return Ok(CompletedOp {
            reply,
            original_seq: Some(last.seq),
        });
    }
    let reply = ops::dispatch(view, ctx, op)?;
    // The reply is stored when the last batch of the operation is made.
    let is_complete = !view.is_unfinished() && !matches!(op, meta::MetaOp::CloseSession);
    if view.has_changes() && is_complete {
        let stored = StoredReply {
            sequence: slot_seq.sequence,
            digest,
            summary: summarize_reply(&reply)?,
            seq: ctx.seq,
        };
        view.put(key, &stored);
    }
    Ok(CompletedOp::new(reply))
}

#[cfg(test)]
mod tests {
    use crate::testing::*;
    use crate::{ApplyResult, Operation, ShardMachine};
    use gupfs_proto::meta::{self, MetaReplyBody, SlotSeq};
    use gupfs_proto::{Caller, FsError, Slot};

    fn slot_seq(slot: u16, sequence: u64) -> Option<SlotSeq> {
        Some(SlotSeq {
            slot: Slot(slot),
            sequence,
        })
    }

    fn mkdir(text: &str) -> meta::MetaOp {
        meta::MetaOp::Mkdir {
            dir: ROOT,
            name: name(text),
            create_mode: create_mode(0o755),
        }
    }

    #[test]
    fn a_retransmitted_request_gets_the_stored_reply_and_changes_nothing() {
        let mut server = TestServer::new(2);
        let root = Caller::root();
        let first = server.apply(&root, slot_seq(1, 5), Operation::Client(&mkdir("a")));
        server.commit(first.batch.clone());
        let replayed = server.apply(&root, slot_seq(1, 5), Operation::Client(&mkdir("a")));
        assert_eq!((replayed.reply, replayed.batch), (first.reply, vec![]));
        // In another slot it is another request.
        let other = server.apply(&root, slot_seq(2, 5), Operation::Client(&mkdir("a")));
        assert_eq!(other.reply, Err(FsError::Exists));
    }

    #[test]
    fn a_sequence_number_reused_for_another_request_or_too_old_is_refused() {
        let mut server = TestServer::new(2);
        let root = Caller::root();
        let first = server.apply(&root, slot_seq(1, 5), Operation::Client(&mkdir("a")));
        server.commit(first.batch);
        for (caller, slot_seq, op) in [
            (&root, slot_seq(1, 5), mkdir("b")),
            (&user(1000), slot_seq(1, 5), mkdir("a")),
            (&root, slot_seq(1, 4), mkdir("a")),
            (&root, None, mkdir("b")),
        ] {
            let refused = server.apply(caller, slot_seq, Operation::Client(&op));
            assert!(
                matches!(refused.reply, Err(FsError::Malformed(_))),
                "{:?}",
                refused.reply
            );
        }
    }

    #[test]
    fn a_refused_request_may_be_sent_again_and_succeed() {
        let mut server = TestServer::new(2);
        let root = Caller::root();
        server.mkdir(&root, ROOT, "a", 0o755).unwrap();
        let refused = server.apply(&root, slot_seq(1, 5), Operation::Client(&mkdir("a")));
        assert_eq!(refused.reply, Err(FsError::Exists));
        server.rmdir(&root, ROOT, "a").unwrap();
        let done = server.apply(&root, slot_seq(1, 5), Operation::Client(&mkdir("a")));
        assert!(matches!(done.reply, Ok(MetaReplyBody::Entry(_))));
    }

    #[test]
    fn inode_numbers_are_taken_when_an_operation_completes_and_never_twice() {
        let mut server = TestServer::new(1);
        let root = Caller::root();
        let first = server.create(&root, ROOT, "a", 0o644).unwrap().ino;
        assert_eq!(server.create(&root, ROOT, "a", 0o644), Err(FsError::Exists));
        let second = server.create(&root, ROOT, "b", 0o644).unwrap().ino;
        assert_eq!(second.counter(), first.counter() + 1);
        // A new machine, as after a start, has no reserved numbers: it continues after the reserved block.
        server.machine = ShardMachine::new();
        let third = server.create(&root, ROOT, "c", 0o644).unwrap().ino;
        assert_eq!(
            third.counter(),
            crate::inode_numbers::FIRST_INODE_COUNTER + gupfs_proto::limits::INODE_BLOCK
        );
        server.assert_clean();
    }

    #[test]
    fn an_operation_on_a_cold_cache_needs_records_and_changes_nothing() {
        let server = TestServer::new(1);
        let root = Caller::root();
        let ctx = server.context(&root, None);
        let result = ShardMachine::new().apply(
            &ColdRecords,
            &ctx,
            Operation::Client(&meta::MetaOp::GetAttr { ino: ROOT }),
        );
        assert!(
            matches!(result, ApplyResult::Needs(crate::Prerequisite::Keys(keys)) if keys == [crate::RecordKey::inode(ROOT)])
        );
    }

    #[test]
    fn a_record_of_a_later_version_is_refused_with_its_version() {
        let mut server = TestServer::new(1);
        server.records.insert(
            crate::RecordKey::inode(ROOT),
            bytes::Bytes::from_static(&[9, 1, 2]),
        );
        let reply = server.getattr(ROOT);
        assert!(
            matches!(&reply, Err(FsError::StoreFailed(why)) if why.contains("version 9")),
            "{reply:?}"
        );
    }
}
