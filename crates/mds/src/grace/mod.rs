//! # grace: the time after a start in which sessions reconnect
//!
//! Owns   the sessions that are expected, their replay records, and the replay.
//! Never  serves a request: every request waits until the grace is over.
//! Enter  at `Grace::expect`, `Core::replay_session`, `Core::finish_grace`.
//!
//! A power loss undoes changes that were answered and not synced. Clients keep such changes and replay them; replayed in their
//! order, before anything new, they give the same results (docs/decisions, "Clients replay changes"). The grace is over when every
//! recorded session has reconnected or has ended.

mod replay;

use crate::core::Core;
use crate::limits::{REPLAY_BYTES_MAX, REPLAY_RECORDS_MAX};
use crate::waits::{RequestOrigin, WaitReason};
use gupfs_proto::meta::{MetaReplyBody, ReplayRecord};
use gupfs_proto::{FsError, OwnerEpoch, Seq, SessionId};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use tokio::sync::Notify;

pub struct Grace {
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
type ReplayPosition = (OwnerEpoch, Seq, SessionId);

impl Default for Grace {
    /// No session is expected: the grace is over.
    fn default() -> Grace {
        Grace {
            table: Mutex::default(),
            changed: Notify::new(),
            is_over: AtomicBool::new(true),
            over: Notify::new(),
        }
    }
}

impl Grace {
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

    /// The condition that `Core::finish_grace` waits for may have changed.
    pub fn recheck(&self) {
        self.changed.notify_waiters();
    }

    /// # Errors
    /// `Malformed` when there are more records than an honest client keeps.
    fn add_records(
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

impl Core {
    /// Takes a part of a session's changes. After the last part, returns when the grace is over and all changes are durable.
    ///
    /// # Errors
    /// `SessionEnded` if the replay of one of its changes failed.
    pub async fn replay_session(
        &self,
        session: SessionId,
        of: OwnerEpoch,
        records: &[ReplayRecord],
        last: bool,
    ) -> Result<MetaReplyBody, FsError> {
        self.renew(session)?;
        // It is over if the session asks again; or it never began, because the former owner stopped in order, with everything
        // durable.
        if self.grace.is_over() {
            return Ok(MetaReplyBody::Done);
        }
        self.grace.add_records(session, of, records)?;
        if !last {
            return Ok(MetaReplyBody::Done);
        }
        self.grace.remove_missing(session);
        let origin = RequestOrigin {
            session,
            op: "return",
        };
        self.wait_for_grace(origin).await?;
        self.renew(session).map(|_| MetaReplyBody::Done)
    }

    /// Waits until the grace is over.
    pub async fn wait_for_grace(&self, origin: RequestOrigin) -> Result<(), FsError> {
        if self.grace.is_over() {
            return Ok(());
        }
        let missing = self.grace.missing().len();
        self.waits
            .wait(
                origin,
                WaitReason::SessionReplays(missing),
                self.grace.wait_until_over(),
            )
            .await
    }

    /// Waits for all expected sessions, replays their changes, and ends the grace.
    pub async fn finish_grace(&self) {
        loop {
            let mut changed = pin!(self.grace.changed.notified());
            changed.as_mut().enable();
            // An ended session held write leases: its files are recovered before others' changes to them are replayed.
            if self.grace.table.lock().missing.is_empty() && !self.callbacks.is_cleanup_pending() {
                break;
            }
            changed.await;
        }
        let records = std::mem::take(&mut self.grace.table.lock().records);
        match self.replay_all(records).await {
            Ok(failed) => {
                for session in failed {
                    self.end_by_server(session).await;
                }
                self.grace.is_over.store(true, SeqCst);
                self.grace.over.notify_waiters();
                tracing::info!(
                    "every session has reconnected or ended; the server serves all requests"
                );
            }
            // Only if the store failed: then the server serves nothing any more.
            Err(error) => tracing::error!(%error, "the replay of changes failed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
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
        let grace = Grace::default();
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
