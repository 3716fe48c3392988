//! The model beside the log: follows each applied operation, and goes back with it when a crash takes batches away.

use super::model::{Asked, Model, Seen, Try};
use gupfs_proto::meta::{MetaOp, MetaReplyBody, SlotSeq};
use gupfs_proto::{Attr, FileKind, FsError, SessionId, Slot};
use std::collections::{BTreeMap, VecDeque};

/// One change, as it was applied.
struct Change {
    seq: u64,
    op: MetaOp,
    asked: Asked,
    lane: SlotSeq,
}

#[derive(Clone)]
struct State {
    model: Model,
    /// The last change of each lane and what it was answered.
    done: BTreeMap<(SessionId, Slot), (u64, Seen)>,
}

pub struct Shadow {
    now: State,
    durable: State,
    behind: VecDeque<Change>,
}

impl State {
    fn change(&mut self, change: &Change) -> Try {
        let answer = self.model.apply(&change.op, change.asked);
        if let Ok(seen) = &answer {
            let lane = (change.asked.session, change.lane.slot);
            self.done.insert(lane, (change.lane.sequence, seen.clone()));
        }
        answer
    }
}

impl Shadow {
    pub fn new(model: Model) -> Shadow {
        let state = State {
            model,
            done: BTreeMap::new(),
        };
        Shadow {
            now: state.clone(),
            durable: state,
            behind: VecDeque::new(),
        }
    }

    pub fn model(&self) -> &Model {
        &self.now.model
    }

    /// Whether this request was done before: then it is answered as then, and does nothing.
    pub fn is_done(&self, session: SessionId, lane: SlotSeq) -> bool {
        let done = self.now.done.get(&(session, lane.slot));
        done.is_some_and(|(sequence, _)| *sequence == lane.sequence)
    }

    /// What kind of thing it was answered then.
    pub fn answered(&self, session: SessionId, lane: SlotSeq) -> Option<&Seen> {
        self.now
            .done
            .get(&(session, lane.slot))
            .map(|(_, seen)| seen)
    }

    /// What a request that changes nothing must be answered.
    pub fn look(&mut self, op: &MetaOp, asked: Asked) -> Try {
        self.now.model.apply(op, asked)
    }

    pub fn change(&mut self, seq: u64, op: &MetaOp, asked: Asked, lane: SlotSeq) -> Try {
        let change = Change {
            seq,
            op: op.clone(),
            asked,
            lane,
        };
        let answer = self.now.change(&change);
        self.behind.push_back(change);
        answer
    }

    pub fn synced(&mut self, upto: u64) {
        while self.behind.front().is_some_and(|change| change.seq <= upto) {
            let change = self.behind.pop_front().expect("there is one");
            let _ = self.durable.change(&change); // it was compared when it was new
        }
    }

    /// Back to what is left; returns the changes that are gone.
    pub fn crash(&mut self, kept: u64) -> Vec<MetaOp> {
        self.synced(kept);
        self.now = self.durable.clone();
        self.behind.drain(..).map(|change| change.op).collect()
    }

    /// All sessions are dead, and with them what they held.
    pub fn sessions_died(&mut self) {
        self.now.done.clear();
        self.now.model.nodes.retain(|_, node| node.names > 0);
        self.durable = self.now.clone();
    }
}

/// What of an answer is compared.
pub fn seen(answer: &Result<MetaReplyBody, FsError>) -> Try {
    Ok(match answer.as_ref().map_err(Clone::clone)? {
        MetaReplyBody::Attr(attr) | MetaReplyBody::Entry(attr) => of(attr),
        MetaReplyBody::Opened(opened) => of(&opened.attr),
        MetaReplyBody::Removed(removed) => Seen::Removed {
            victim: removed.victim,
            orphan: removed.is_orphan,
        },
        MetaReplyBody::Entries { entries, .. } => Seen::Entries(
            entries
                .iter()
                .map(|entry| (entry.name.as_bytes().to_vec(), entry.ino))
                .collect(),
        ),
        MetaReplyBody::InlineTooLarge => Seen::Outgrown,
        _ => Seen::Done,
    })
}

pub fn of(attr: &Attr) -> Seen {
    Seen::Inode {
        ino: attr.ino,
        kind: attr.kind,
        mode: attr.mode.0.into(),
        nlink: attr.nlink,
        size: (attr.kind == FileKind::Regular).then_some(attr.size),
        mtime: attr.mtime,
    }
}
