//! # grace: the time after a start in which clients come back
//!
//! Owns   who is expected back, what they say again, and making it again.
//! Never  serves anybody: whoever asks something else waits until it is over.
//! Enter  at `Grace::expect`, `Core::come_back`, `Core::end_grace`.
//!
//! A power cut takes what was answered and not synced. Clients keep such changes and say them again; made in the order
//! they had, before anything new, they come out as they were (docs/decisions, "Changes said again"). It is over when every
//! session that is recorded has come back or has ended.

mod again;

use crate::core::Core;
use crate::limits::{KEPT_BYTES, KEPT_MOST};
use crate::waits::{Awaited, Who};
use gupfs_proto::meta::{Answer, Kept};
use gupfs_proto::{OwnerEpoch, Refusal, Seq, SessionId};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use tokio::sync::Notify;

pub struct Grace {
    table: Mutex<Table>,
    /// Somebody came back, or will not.
    changed: Notify,
    is_over: AtomicBool,
    /// It is. (Not tokio's `watch`: that wakes in an order of its own chance, and a seed must always do the same.)
    over: Notify,
}

#[derive(Default)]
struct Table {
    missing: BTreeSet<SessionId>,
    kept: BTreeMap<Place, Kept>,
    bytes: usize,
}

/// Where a change was: lives one after the other, and in each as its log was numbered. A client that missed a whole life (its
/// return was not answered before that ended) says changes of an earlier one than others; who says what is no client's to change.
type Place = (OwnerEpoch, Seq, SessionId);

impl Default for Grace {
    /// Nobody is expected: it is over.
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
    /// Begins, if anybody is expected. Nobody is served yet.
    pub fn expect(&self, sessions: BTreeSet<SessionId>) {
        self.is_over.store(sessions.is_empty(), SeqCst);
        self.table.lock().missing = sessions;
    }

    pub fn is_over(&self) -> bool {
        self.is_over.load(SeqCst)
    }

    /// Returns when it is over.
    pub async fn over(&self) {
        let mut over = pin!(self.over.notified());
        over.as_mut().enable();
        if !self.is_over() {
            over.await;
        }
    }

    pub fn is_missing(&self, session: SessionId) -> bool {
        self.table.lock().missing.contains(&session)
    }

    /// Who has not come back yet.
    pub fn missing(&self) -> Vec<SessionId> {
        self.table.lock().missing.iter().copied().collect()
    }

    /// This session is back, or has ended: nobody waits for it.
    pub fn ends(&self, session: SessionId) {
        self.table.lock().missing.remove(&session);
        self.looks_again();
    }

    /// What `Core::end_grace` waits for may have happened.
    pub fn looks_again(&self) {
        self.changed.notify_waiters();
    }

    /// # Errors
    /// `Malformed` when they are more than an honest client keeps.
    fn keep(&self, session: SessionId, of: OwnerEpoch, kept: &[Kept]) -> Result<(), Refusal> {
        let mut table = self.table.lock();
        for change in kept {
            let place = (of, change.change.seq, session);
            table.bytes += change.op.len();
            if let Some(said_before) = table.kept.insert(place, change.clone()) {
                table.bytes -= said_before.op.len();
            }
        }
        if table.bytes > KEPT_BYTES || table.kept.len() > KEPT_MOST {
            return Err(Refusal::Malformed("too many changes are said again".into()));
        }
        Ok(())
    }
}

impl Core {
    /// A session comes back, with a part of its changes. After the last part: when the grace is over, and all is durable.
    ///
    /// # Errors
    /// `SessionEnded` if something that it counts on could not be made again.
    pub async fn come_back(
        &self,
        session: SessionId,
        of: OwnerEpoch,
        kept: &[Kept],
        last: bool,
    ) -> Result<Answer, Refusal> {
        self.renew(session)?;
        // Over for who asks again; or never begun, because the former owner stopped in order, with everything durable.
        if self.grace.is_over() {
            return Ok(Answer::Done);
        }
        self.grace.keep(session, of, kept)?;
        if !last {
            return Ok(Answer::Done);
        }
        self.grace.ends(session);
        let who = Who {
            session,
            op: "return",
        };
        self.after_grace(who).await?;
        self.renew(session).map(|_| Answer::Done)
    }

    /// Waits until everybody is back.
    pub async fn after_grace(&self, who: Who) -> Result<(), Refusal> {
        if self.grace.is_over() {
            return Ok(());
        }
        let missing = self.grace.missing().len();
        self.waits
            .wait(who, Awaited::Returns(missing), self.grace.over())
            .await
    }

    /// Waits for everybody, makes again what they brought, and ends the grace.
    pub async fn end_grace(&self) {
        loop {
            let mut changed = pin!(self.grace.changed.notified());
            changed.as_mut().enable();
            // Who ended held files: they are recovered before others' changes of them are made again.
            if self.grace.table.lock().missing.is_empty() && !self.holders.is_any_ending() {
                break;
            }
            changed.await;
        }
        let kept = std::mem::take(&mut self.grace.table.lock().kept);
        match self.make_again(kept).await {
            Ok(failed) => {
                for session in failed {
                    self.end_from_here(session).await;
                }
                self.grace.is_over.store(true, SeqCst);
                self.grace.over.notify_waiters();
                tracing::info!("every session is back, or has ended; everybody is served");
            }
            // Only a store that failed: nobody is served any more.
            Err(refusal) => tracing::error!(%refusal, "changes could not be made again"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use gupfs_proto::meta::{Change, Lane};
    use gupfs_proto::{Caller, Slot, Timestamp};

    fn kept(seq: u64) -> Kept {
        Kept {
            change: Change {
                seq: Seq(seq),
                at: Timestamp::default(),
            },
            lane: Lane {
                slot: Slot(0),
                sequence: seq,
            },
            caller: Caller::root(),
            op: Bytes::from_static(b"op"),
            made: None,
            layout: None,
        }
    }

    #[test]
    fn changes_of_several_lives_have_the_same_numbers_and_none_is_lost() {
        let grace = Grace::default();
        let (one, two) = (SessionId(1), SessionId(2));
        // The second has lived a life longer: what it did comes after what the first did.
        grace.keep(two, OwnerEpoch(5), &[kept(7), kept(9)]).unwrap();
        grace.keep(one, OwnerEpoch(4), &[kept(8), kept(9)]).unwrap();
        // A part that is said again is said once.
        grace.keep(one, OwnerEpoch(4), &[kept(8)]).unwrap();
        let table = grace.table.lock();
        let places: Vec<(u64, u64)> = table
            .kept
            .keys()
            .map(|(of, seq, _)| (of.0, seq.0))
            .collect();
        assert_eq!(places, [(4, 8), (4, 9), (5, 7), (5, 9)]);
        assert_eq!(table.bytes, 8);
    }
}
