//! The replay log: the newest change number seen from the metadata server, and this client's changes that a power loss of the
//! server may still undo.
//!
//! Changes are numbered within one *instance* of the server, from a start to its end. When a reply comes from another instance,
//! the client reconnects (`reconnect`): it replays the log, and continues with the new instance's numbers.

use gupfs_proto::meta::{self, ReplayRecord};
use gupfs_proto::{MapEpoch, OwnerEpoch, Seq};
use parking_lot::Mutex;
use std::collections::BTreeMap;

#[derive(Default)]
pub struct ReplayLog(Mutex<ReplayLogState>);

#[derive(Default)]
struct ReplayLogState {
    instance: OwnerEpoch,
    /// The newest change over all replies of this instance.
    seq: Seq,
    durable: Seq,
    map_epoch: MapEpoch,
    /// This client's changes that are not known to be durable.
    changes: BTreeMap<Seq, ReplayRecord>,
    /// The log is being replayed to another instance: nothing can be added any more.
    frozen: bool,
}

/// What `record` did with a reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordOutcome {
    /// The reply is recorded. `newer_map`: it names a newer map than the known one.
    Recorded { newer_map: bool },
    /// The reply is of an instance that has ended: its change is not replayed.
    OtherInstance,
}

impl ReplayLog {
    /// A session was opened in this instance: the log starts empty.
    pub fn start(&self, instance: OwnerEpoch, reply: &meta::MetaReply) {
        let map_epoch = self.map_epoch();
        *self.0.lock() = ReplayLogState {
            instance,
            seq: reply.seq,
            durable: reply.durable,
            map_epoch: map_epoch.max(reply.map_epoch),
            ..ReplayLogState::default()
        };
    }

    /// Records a reply to a request that was sent to this instance, with the record to replay if it made a change.
    pub fn record(
        &self,
        instance: OwnerEpoch,
        reply: &meta::MetaReply,
        record: Option<ReplayRecord>,
    ) -> RecordOutcome {
        let mut state = self.0.lock();
        if state.instance != instance || (state.frozen && record.is_some()) {
            return RecordOutcome::OtherInstance;
        }
        let newer_map = reply.map_epoch > state.map_epoch;
        state.seq = state.seq.max(reply.seq);
        state.durable = state.durable.max(reply.durable);
        state.map_epoch = state.map_epoch.max(reply.map_epoch);
        let durable = state.durable;
        if let Some(record) = record
            && record.change.seq > durable
        {
            state.changes.insert(record.change.seq, record);
        }
        while let Some(first) = state.changes.first_entry()
            && *first.key() <= durable
        {
            first.remove();
        }
        RecordOutcome::Recorded { newer_map }
    }

    /// The changes in their order, and their instance. From here on the log does not change until `restart`.
    pub fn freeze(&self) -> (OwnerEpoch, Vec<ReplayRecord>) {
        let mut state = self.0.lock();
        state.frozen = true;
        (state.instance, state.changes.values().cloned().collect())
    }

    /// The new instance has made every change of the log durable.
    pub fn restart(&self, instance: OwnerEpoch, reply: &meta::MetaReply) {
        self.start(instance, reply);
    }

    /// The current instance, and the newest change seen in it.
    pub fn position(&self) -> (OwnerEpoch, Seq) {
        let state = self.0.lock();
        (state.instance, state.seq)
    }

    pub fn count(&self) -> usize {
        self.0.lock().changes.len()
    }

    pub fn seq(&self) -> Seq {
        self.0.lock().seq
    }

    pub fn durable(&self) -> Seq {
        self.0.lock().durable
    }

    pub fn map_epoch(&self) -> MapEpoch {
        self.0.lock().map_epoch
    }

    /// The newest change seen, unless it is known to survive a power loss.
    pub fn newest_not_durable(&self) -> Option<Seq> {
        let state = self.0.lock();
        (state.durable < state.seq).then_some(state.seq)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use gupfs_proto::meta::{AppliedChange, MetaReplyBody, SlotSeq};
    use gupfs_proto::{Caller, Slot, Timestamp};

    fn reply(seq: u64, durable: u64) -> meta::MetaReply {
        meta::MetaReply {
            seq: Seq(seq),
            durable: Seq(durable),
            map_epoch: MapEpoch(1),
            change: None,
            result: Ok(MetaReplyBody::Done),
        }
    }

    fn record(seq: u64) -> Option<ReplayRecord> {
        Some(ReplayRecord {
            change: AppliedChange {
                seq: Seq(seq),
                at: Timestamp::default(),
            },
            slot_seq: SlotSeq {
                slot: Slot(0),
                sequence: seq,
            },
            caller: Caller::root(),
            op: Bytes::new(),
            created: None,
            layout: None,
        })
    }

    fn logged_changes(replay_log: &ReplayLog) -> Vec<u64> {
        let (_, record) = replay_log.freeze();
        record.iter().map(|record| record.change.seq.0).collect()
    }

    #[test]
    fn changes_are_kept_until_they_are_durable() {
        let (replay_log, instance) = (ReplayLog::default(), OwnerEpoch(4));
        replay_log.start(instance, &reply(1, 1));
        for seq in [3, 2, 5] {
            replay_log.record(instance, &reply(seq, 1), record(seq));
        }
        replay_log.record(instance, &reply(5, 2), None);
        replay_log.record(instance, &reply(2, 2), record(2));
        assert_eq!(logged_changes(&replay_log), [3, 5]);
    }

    #[test]
    fn a_late_reply_of_an_ended_instance_is_not_recorded() {
        let (replay_log, instance) = (ReplayLog::default(), OwnerEpoch(4));
        replay_log.start(instance, &reply(1, 1));
        replay_log.record(instance, &reply(9, 1), record(9));
        assert_eq!(logged_changes(&replay_log), [9]);
        let late = replay_log.record(instance, &reply(8, 1), record(8));
        assert_eq!(late, RecordOutcome::OtherInstance);
        replay_log.restart(OwnerEpoch(5), &reply(3, 3));
        let late = replay_log.record(instance, &reply(10, 1), record(10));
        assert_eq!(
            (late, replay_log.position()),
            (RecordOutcome::OtherInstance, (OwnerEpoch(5), Seq(3)))
        );
        assert_eq!(
            (logged_changes(&replay_log), replay_log.newest_not_durable()),
            (vec![], None)
        );
    }
}
