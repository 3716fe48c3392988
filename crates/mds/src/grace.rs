//! # grace: the time after a start in which sessions reconnect
//!
//! Owns   the sessions that are expected, and their replay records; `replay` replays these.
//! Never  serves a request: every request waits until the grace is over.
//! Enter  at `Grace::expect`, `Grace::wait`.
//!
//! A power loss undoes changes that were answered and not synced. Clients keep such changes and replay them; replayed in their
//! order, before anything new, they give the same results (docs/decisions, "Clients replay changes"). The grace is over when every
//! recorded session has reconnected or has ended.

use crate::callback::CallbackTable;
use crate::limits::{REPLAY_BYTES_MAX, REPLAY_RECORDS_MAX};
use crate::origin::RequestOrigin;
use crate::waits::{WaitList, WaitReason};
use gupfs_proto::meta::ReplayRecord;
use gupfs_proto::{FsError, OwnerEpoch, Seq, SessionId};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use tokio::sync::Notify;

pub struct Grace {
    waits: Arc<WaitList>,
    table: Mutex<GraceTable>,
    /// Signals that a session reconnected, or has ended.
    changed: Notify,
    is_over: AtomicBool,
    /// Signals the end of the grace. (Not tokio's `watch`: that wakes in a random order of its own, and a seed must always do the
    /// same.)
    over: Notify,
}

#[derive(Default)]
struct GraceTable {
    missing: BTreeSet<SessionId>,
    records: BTreeMap<ReplayPosition, ReplayRecord>,
    bytes: usize,
}

/// The position of a change: owner epochs in order, and in each the order of its log. A client that missed a whole instance of
/// the server (which ended before it answered the client's replay) replays changes of an earlier instance than others; no client
/// can change the session in this key.
pub type ReplayPosition = (OwnerEpoch, Seq, SessionId);

impl Grace {
    /// No session is expected: the grace is over.
    pub fn new(waits: Arc<WaitList>) -> Grace {
        Grace {
            waits,
            table: Mutex::default(),
            changed: Notify::new(),
            is_over: AtomicBool::new(true),
            over: Notify::new(),
        }
    }

    /// Begins the grace, if any session is expected. Called before the server serves.
    pub fn expect(&self, sessions: BTreeSet<SessionId>) {
        self.is_over.store(sessions.is_empty(), SeqCst);
        self.table.lock().missing = sessions;
    }

    pub fn is_over(&self) -> bool {
        self.is_over.load(SeqCst)
    }

    /// Returns when the grace is over.
    pub async fn wait_until_over(&self) {
        let mut over = pin!(self.over.notified());
        over.as_mut().enable();
        if !self.is_over() {
            over.await;
        }
    }

    /// Waits until the grace is over.
    pub async fn wait(&self, origin: RequestOrigin) -> Result<(), FsError> {
        if self.is_over() {
            return Ok(());
        }
        let missing = self.missing().len();
        self.waits
            .wait(
                origin,
                WaitReason::SessionReplays(missing),
                self.wait_until_over(),
            )
            .await
    }

    pub fn is_missing(&self, session: SessionId) -> bool {
        self.table.lock().missing.contains(&session)
    }

    /// The sessions that have not reconnected yet.
    pub fn missing(&self) -> Vec<SessionId> {
        self.table.lock().missing.iter().copied().collect()
    }

    /// This session has reconnected, or has ended: the grace does not wait for it.
    pub fn remove_missing(&self, session: SessionId) {
        self.table.lock().missing.remove(&session);
        self.recheck();
    }

    /// The condition that `wait_for_sessions` waits for may have changed.
    pub fn recheck(&self) {
        self.changed.notify_waiters();
    }

    /// Returns when every expected session has reconnected or has ended, and the cleanup of all ended ones is complete.
    pub async fn wait_for_sessions(&self, callbacks: &CallbackTable) {
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            // An ended session held write leases: its files are recovered before others' changes to them are replayed.
            if self.table.lock().missing.is_empty() && !callbacks.is_cleanup_pending() {
                return;
            }
            changed.await;
        }
    }

    /// All changes to replay, in their order.
    pub fn take_records(&self) -> BTreeMap<ReplayPosition, ReplayRecord> {
        std::mem::take(&mut self.table.lock().records)
    }

    /// Ends the grace: every change was replayed.
    pub fn end(&self) {
        self.is_over.store(true, SeqCst);
        self.over.notify_waiters();
    }

    /// # Errors
    /// `Malformed` when there are more records than an honest client keeps.
    pub fn add_records(
        &self,
        session: SessionId,
        of: OwnerEpoch,
        records: &[ReplayRecord],
    ) -> Result<(), FsError> {
        let mut table = self.table.lock();
        for change in records {
            let position = (of, change.change.seq, session);
            table.bytes += change.op.len();
            if let Some(replaced) = table.records.insert(position, change.clone()) {
                table.bytes -= replaced.op.len();
            }
        }
        if table.bytes > REPLAY_BYTES_MAX || table.records.len() > REPLAY_RECORDS_MAX {
            return Err(FsError::Malformed(
                "the clients replay more changes than the server accepts".into(),
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use gupfs_platform::fake::FakePlatform;
    use gupfs_proto::meta::{AppliedChange, SlotSeq};
    use gupfs_proto::{Caller, Slot, Timestamp};

    fn records(seq: u64) -> ReplayRecord {
        ReplayRecord {
            change: AppliedChange {
                seq: Seq(seq),
                at: Timestamp::default(),
            },
            slot_seq: SlotSeq {
                slot: Slot(0),
                sequence: seq,
            },
            caller: Caller::root(),
            op: Bytes::from_static(b"op"),
            created: None,
            layout: None,
        }
    }

    #[test]
    fn changes_of_several_instances_with_equal_numbers_are_all_kept() {
        let clock = FakePlatform::new(1).platform().clock;
        let grace = Grace::new(Arc::new(WaitList::new(clock)));
        let (one, two) = (SessionId(1), SessionId(2));
        // The second session reached a later instance: its changes come after those of the first.
        grace
            .add_records(two, OwnerEpoch(5), &[records(7), records(9)])
            .unwrap();
        grace
            .add_records(one, OwnerEpoch(4), &[records(8), records(9)])
            .unwrap();
        // A part that is sent again counts once.
        grace
            .add_records(one, OwnerEpoch(4), &[records(8)])
            .unwrap();
        let table = grace.table.lock();
        let positions: Vec<(u64, u64)> = table
            .records
            .keys()
            .map(|(of, seq, _)| (of.0, seq.0))
            .collect();
        assert_eq!(positions, [(4, 8), (4, 9), (5, 7), (5, 9)]);
        assert_eq!(table.bytes, 8);
    }
}
