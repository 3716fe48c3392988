//! The model with a log of its own: it applies each operation that the shard applied, and a crash undoes the operations whose
//! batches the shard lost.

use super::model::{ComparedReply, ComparedResult, Model, RequestContext};
use gupfs_proto::meta::{MetaOp, MetaReplyBody, SlotSeq};
use gupfs_proto::{Attr, FileKind, FsError, SessionId, Slot};
use std::collections::{BTreeMap, VecDeque};

/// A change that the shard applied.
struct Change {
    seq: u64,
    op: MetaOp,
    context: RequestContext,
    slot_seq: SlotSeq,
}

#[derive(Clone)]
struct State {
    model: Model,
    /// The last change of each slot, with its reply.
    done: BTreeMap<(SessionId, Slot), (u64, ComparedReply)>,
}

pub struct ModelLog {
    current: State,
    durable: State,
    unsynced: VecDeque<Change>,
}

impl State {
    fn apply_change(&mut self, change: &Change) -> ComparedResult {
        let reply = self.model.apply(&change.op, change.context);
        if let Ok(reply) = &reply {
            let slot_seq = (change.context.session, change.slot_seq.slot);
            self.done
                .insert(slot_seq, (change.slot_seq.sequence, reply.clone()));
        }
        reply
    }
}

impl ModelLog {
    pub fn new(model: Model) -> ModelLog {
        let state = State {
            model,
            done: BTreeMap::new(),
        };
        ModelLog {
            current: state.clone(),
            durable: state,
            unsynced: VecDeque::new(),
        }
    }

    pub fn model(&self) -> &Model {
        &self.current.model
    }

    /// Whether the request was applied before. The server must then return the stored reply and change nothing.
    pub fn was_applied(&self, session: SessionId, slot_seq: SlotSeq) -> bool {
        let done = self.current.done.get(&(session, slot_seq.slot));
        done.is_some_and(|(sequence, _)| *sequence == slot_seq.sequence)
    }

    /// The reply to the slot's last change.
    pub fn reply_of(&self, session: SessionId, slot_seq: SlotSeq) -> Option<&ComparedReply> {
        self.current
            .done
            .get(&(session, slot_seq.slot))
            .map(|(_, reply)| reply)
    }

    /// Returns the expected reply of a request that changes nothing.
    pub fn expected_read(&mut self, op: &MetaOp, context: RequestContext) -> ComparedResult {
        self.current.model.apply(op, context)
    }

    pub fn apply_change(
        &mut self,
        seq: u64,
        op: &MetaOp,
        context: RequestContext,
        slot_seq: SlotSeq,
    ) -> ComparedResult {
        let change = Change {
            seq,
            op: op.clone(),
            context,
            slot_seq,
        };
        let reply = self.current.apply_change(&change);
        self.unsynced.push_back(change);
        reply
    }

    pub fn note_synced(&mut self, up_to: u64) {
        while self
            .unsynced
            .front()
            .is_some_and(|change| change.seq <= up_to)
        {
            let change = self.unsynced.pop_front().expect("the queue is not empty");
            let _ = self.durable.apply_change(&change); // the reply was compared when the change was new
        }
    }

    /// Undoes the changes after batch `kept_seq` and returns them.
    pub fn crash(&mut self, kept_seq: u64) -> Vec<MetaOp> {
        self.note_synced(kept_seq);
        self.current = self.durable.clone();
        self.unsynced.drain(..).map(|change| change.op).collect()
    }

    /// All sessions end, and their orphans are removed.
    pub fn end_sessions(&mut self) {
        self.current.done.clear();
        self.current
            .model
            .nodes
            .retain(|_, node| node.link_count > 0);
        self.durable = self.current.clone();
    }
}

/// Extracts the parts of a reply that are compared.
pub fn compared_reply(reply: &Result<MetaReplyBody, FsError>) -> ComparedResult {
    Ok(match reply.as_ref().map_err(Clone::clone)? {
        MetaReplyBody::Attr(attr) | MetaReplyBody::Entry(attr) => inode_reply(attr),
        MetaReplyBody::Opened(opened) => inode_reply(&opened.attr),
        MetaReplyBody::Removed(removed) => ComparedReply::Removed {
            victim: removed.victim,
            orphan: removed.is_orphan,
        },
        MetaReplyBody::Entries { entries, .. } => ComparedReply::Entries(
            entries
                .iter()
                .map(|entry| (entry.name.as_bytes().to_vec(), entry.ino))
                .collect(),
        ),
        MetaReplyBody::InlineTooLarge => ComparedReply::TooLarge,
        _ => ComparedReply::Done,
    })
}

pub fn inode_reply(attr: &Attr) -> ComparedReply {
    ComparedReply::Inode {
        ino: attr.ino,
        kind: attr.kind,
        mode: attr.mode.0.into(),
        nlink: attr.nlink,
        size: (attr.kind == FileKind::Regular).then_some(attr.size),
        mtime: attr.mtime,
    }
}
