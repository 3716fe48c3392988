//! The ways back to clients: whom an operation asks that needs a holder's word, and who cannot be asked now.

use crate::core::Core;
use crate::limits::RETRY;
use gupfs_proto::recall::{Answer, Reply, Request};
use gupfs_proto::{Refusal, SessionId};
use gupfs_rpc::Peer;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use tokio::sync::Notify;

/// A client, as the server asks it.
pub type Back = Peer<Request, Reply>;

#[derive(Default)]
pub struct Holders {
    table: Mutex<Table>,
    /// Somebody can be asked, or will never be again.
    changed: Notify,
}

#[derive(Default)]
struct Table {
    /// Each with a number: tells a way from the one before it.
    ways: BTreeMap<SessionId, (u64, Back)>,
    next: u64,
    /// Sessions that ended and are being cleared up after: their files are recovered in a moment.
    ending: BTreeSet<SessionId>,
}

/// How a session can be asked.
enum Standing {
    /// It has ended, and everything was done for what it left.
    Gone,
    /// It is ending, or has no connection.
    Away,
    There(u64, Back),
}

/// What came of a question.
pub enum Word {
    Said(Answer),
    /// The session has ended, and its word is what its objects say, or nothing.
    Gone,
}

impl Holders {
    pub fn attach(&self, session: SessionId, back: Back) {
        let mut table = self.table.lock();
        table.next += 1;
        let number = table.next;
        table.ways.insert(session, (number, back));
        drop(table);
        self.changed.notify_waiters();
    }

    pub fn detach(&self, session: SessionId) {
        self.table.lock().ways.remove(&session);
        self.changed.notify_waiters();
    }

    /// The session has ended; called in the moment when it is no longer registered.
    pub fn ends(&self, session: SessionId) {
        let mut table = self.table.lock();
        table.ways.remove(&session);
        table.ending.insert(session);
        drop(table);
        self.changed.notify_waiters();
    }

    /// What could be done for what it left was done.
    pub fn ended(&self, session: SessionId) {
        self.table.lock().ending.remove(&session);
        self.changed.notify_waiters();
    }

    /// Whether a session has ended for which not everything was done yet.
    pub fn is_any_ending(&self) -> bool {
        !self.table.lock().ending.is_empty()
    }

    fn number(&self, session: SessionId) -> Option<u64> {
        let table = self.table.lock();
        table.ways.get(&session).map(|(number, _)| *number)
    }
}

impl Core {
    /// Asks a session, now or when it can be asked, until it answers or has ended. Has no deadline of its own.
    ///
    /// # Errors
    /// `TargetDown`: what the session is asked to say it cannot learn itself.
    pub async fn ask_session(
        &self,
        session: SessionId,
        question: &Request,
    ) -> Result<Word, Refusal> {
        loop {
            let mut changed = pin!(self.holders.changed.notified());
            changed.as_mut().enable();
            let (number, back) = match self.standing(session) {
                Standing::Gone => return Ok(Word::Gone),
                Standing::Away => {
                    changed.await;
                    continue;
                }
                Standing::There(number, back) => (number, back),
            };
            let mut asked = pin!(back.call(question.clone()));
            let reply = loop {
                tokio::select! {
                    biased;
                    reply = &mut asked => break Some(reply),
                    () = &mut changed => {}
                }
                changed.set(self.holders.changed.notified());
                changed.as_mut().enable();
                if self.holders.number(session) != Some(number) {
                    break None;
                }
            };
            match reply {
                // The connection is another, or there is none: the new one is asked.
                None => {}
                Some(Ok(answer)) => return Ok(Word::Said(answer)),
                Some(Err(refusal @ Refusal::TargetDown { .. })) => return Err(refusal),
                Some(Err(refusal)) => {
                    tracing::info!(%session, %refusal, question = question.name(), "a client could not answer; it is asked again");
                    tokio::select! {
                        biased;
                        () = &mut changed => {}
                        () = self.platform.clock.sleep(RETRY) => {}
                    }
                }
            }
        }
    }

    fn standing(&self, session: SessionId) -> Standing {
        let registered = self.shard.lock().sessions.contains_key(&session);
        let table = self.holders.table.lock();
        match table.ways.get(&session) {
            Some((number, back)) if registered => Standing::There(*number, back.clone()),
            _ if registered || table.ending.contains(&session) => Standing::Away,
            _ => Standing::Gone,
        }
    }
}
