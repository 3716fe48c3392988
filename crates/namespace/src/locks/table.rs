//! All locks, and what each session has asked about them.
//!
//! A request is known by its number: asked again it is answered as before, and a copy that comes after its answer was heard
//! is not done. So a request that is delivered twice, or late, neither frees a lock that was taken later nor takes one that was
//! freed. Whatever is done to a session's locks has a turn, from 1 on, so that its client can do the same in the same order.

use super::file::{FileLocks, Held};
use super::limits::{
    ANSWERS_KEPT, LOCKS_OF_ALL, LOCKS_OF_FILE, LOCKS_OF_SESSION, WAITING_OF_SESSION,
};
use gupfs_proto::lock::{Ask, Lock, Order, Said, Word};
use gupfs_proto::{InodeId, Refusal, SessionId};
use std::collections::BTreeMap;

#[derive(Default)]
pub struct Table {
    files: BTreeMap<InodeId, FileLocks>,
    sessions: BTreeMap<SessionId, Standing>,
    /// By file, in the order in which they came.
    queue: BTreeMap<(InodeId, u64), Waiter>,
    came: u64,
    locks: usize,
}

/// What is known of a session.
#[derive(Default)]
struct Standing {
    answered_below: u64,
    /// To requests whose answer may be asked for again.
    answers: BTreeMap<u64, Said>,
    turn: u64,
    locks: usize,
    /// By number: its place in the queue.
    waiting: BTreeMap<u64, (InodeId, u64)>,
    /// By number: the turn of a grant of which the client may not have heard.
    granted: BTreeMap<u64, u64>,
}

/// Who waits for a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Waiter {
    pub session: SessionId,
    /// The number of its request.
    pub take: u64,
    pub lock: Lock,
    /// When it came, by the caller's clock.
    pub since: u64,
}

/// A lock that was waited for is taken: its client is to be told (`recall::Request::Granted`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grant {
    pub session: SessionId,
    pub take: u64,
    pub turn: u64,
}

/// Why a lock that a session says it held is none that it can have held.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CannotBe {
    #[error("session {0} says that it holds it")]
    AnothersToo(SessionId),
    #[error(transparent)]
    TooMany(Refusal),
}

impl Table {
    /// A request of a session that lives; `now` is only told again (`Waiter::since`).
    ///
    /// # Errors
    /// `Malformed`: it was answered before, or no honest client asks so.
    pub fn ask(
        &mut self,
        session: SessionId,
        ask: &Ask,
        now: u64,
    ) -> Result<(Said, Vec<Grant>), Refusal> {
        let order = match ask {
            Ask::Test { lock } => {
                let word = Ok(Word::InTheWay(self.test(session, *lock)));
                return Ok((Said { turn: 0, word }, Vec::new()));
            }
            Ask::Take { order, lock, .. } if lock.extent.is_valid() => *order,
            Ask::Free { order, extent, .. } if extent.is_valid() => *order,
            Ask::Cancel { order, .. } => *order,
            _ => return Err(Refusal::Malformed("a lock of no bytes".into())),
        };
        if let Some(said) = self.begin(session, order)? {
            return Ok((said, Vec::new()));
        }
        let turn = self.next_turn(session);
        let (word, ino) = match ask {
            Ask::Take { lock, waits, .. } => {
                let word = self.take(session, order.number, *lock, *waits, now);
                (word, Some(lock.holder.ino))
            }
            Ask::Free { holder, extent, .. } => {
                self.change(session, holder.ino, |locks| {
                    locks.free(session, *holder, *extent)
                });
                (Ok(Word::Done), Some(holder.ino))
            }
            Ask::Cancel { take, .. } => (Ok(self.cancel(session, *take)), None),
            Ask::Test { .. } => unreachable!("a test has no order"),
        };
        let said = Said { turn, word };
        let standing = self.sessions.entry(session).or_default();
        standing.answers.insert(order.number, said.clone());
        let grants = ino.map_or_else(Vec::new, |ino| self.grant(ino));
        Ok((said, grants))
    }

    /// The answer, if this was asked before.
    fn begin(&mut self, session: SessionId, order: Order) -> Result<Option<Said>, Refusal> {
        let standing = self.sessions.entry(session).or_default();
        let below = standing.answered_below.max(order.answered_below);
        standing.answered_below = below;
        standing.answers = standing.answers.split_off(&below);
        if order.number < below {
            return Err(Refusal::Malformed("it was answered before".into()));
        }
        if let Some(said) = standing.answers.get(&order.number) {
            return Ok(Some(said.clone()));
        }
        if standing.answers.len() >= ANSWERS_KEPT {
            return Err(Refusal::Malformed("too many requests at a time".into()));
        }
        Ok(None)
    }

    fn take(
        &mut self,
        session: SessionId,
        number: u64,
        lock: Lock,
        waits: bool,
        now: u64,
    ) -> Result<Word, Refusal> {
        self.must_have_room(session, lock.holder.ino, waits)?;
        self.change(session, lock.holder.ino, |locks| {
            locks.give_up_to_convert(session, &lock)
        });
        if self.conflict(session, lock).is_none() {
            self.change(session, lock.holder.ino, |locks| locks.take(session, lock));
            return Ok(Word::Done);
        }
        if !waits {
            return Err(Refusal::WouldBlock);
        }
        if self.would_wait_for_ever(session, lock) {
            return Err(Refusal::Deadlock);
        }
        self.came += 1;
        let place = (lock.holder.ino, self.came);
        let standing = self.sessions.entry(session).or_default();
        standing.waiting.insert(number, place);
        let waiter = Waiter {
            session,
            take: number,
            lock,
            since: now,
        };
        self.queue.insert(place, waiter);
        Ok(Word::Waits)
    }

    /// Looked at before anything is done: who is refused so keeps what he has.
    fn must_have_room(&self, session: SessionId, ino: InodeId, waits: bool) -> Result<(), Refusal> {
        self.must_be_below(session, ino, waits, 0)
    }

    /// So many more than the limits are let pass.
    fn must_be_below(
        &self,
        session: SessionId,
        ino: InodeId,
        waits: bool,
        more: usize,
    ) -> Result<(), Refusal> {
        let standing = self.sessions.get(&session);
        let of_session = standing.map_or(0, |standing| standing.locks);
        let waiting = standing.filter(|_| waits);
        let waiting = waiting.map_or(0, |standing| standing.waiting.len());
        let of_file = self.files.get(&ino).map_or(0, FileLocks::len);
        let full = [
            (of_session, LOCKS_OF_SESSION, "of this mount"),
            (of_file, LOCKS_OF_FILE, "of this file"),
            (self.locks, LOCKS_OF_ALL, "of all mounts"),
            (waiting, WAITING_OF_SESSION, "waited for by this mount"),
        ];
        match full.iter().find(|(now, most, _)| *now >= most + more) {
            Some((now, _, which)) => Err(Refusal::TooManyLocks(format!("{now} {which}"))),
            None => Ok(()),
        }
    }

    fn cancel(&mut self, session: SessionId, take: u64) -> Word {
        let standing = self.sessions.entry(session).or_default();
        if let Some(place) = standing.waiting.remove(&take) {
            self.queue.remove(&place);
        } else if let Some(turn) = standing.granted.get(&take) {
            return Word::WasGranted(*turn);
        }
        Word::Done
    }

    /// Gives locks of this file to those who wait for them, in their order. What one gets may take away what it had before: then
    /// those that came earlier are looked at again.
    fn grant(&mut self, ino: InodeId) -> Vec<Grant> {
        let mut grants = Vec::new();
        loop {
            let mut waiters = self.queue.range((ino, 0)..=(ino, u64::MAX));
            let is_free = |waiter: &Waiter| self.conflict(waiter.session, waiter.lock).is_none();
            let Some((place, waiter)) = waiters.find(|(_, waiter)| is_free(waiter)) else {
                return grants;
            };
            let (place, waiter) = (*place, *waiter);
            self.queue.remove(&place);
            let session = waiter.session;
            self.change(session, ino, |locks| locks.take(session, waiter.lock));
            let turn = self.next_turn(session);
            let standing = self.sessions.entry(session).or_default();
            standing.waiting.remove(&waiter.take);
            standing.granted.insert(waiter.take, turn);
            grants.push(Grant {
                session,
                take: waiter.take,
                turn,
            });
        }
    }

    /// Its client has heard of this grant.
    pub fn was_heard(&mut self, grant: &Grant) {
        if let Some(standing) = self.sessions.get_mut(&grant.session) {
            standing.granted.remove(&grant.take);
        }
    }

    /// A session says again what it held in the server's former life. Said twice it is the same.
    ///
    /// # Errors
    /// Why it cannot have held that.
    pub fn claim(&mut self, session: SessionId, lock: Lock) -> Result<(), CannotBe> {
        if let Some(held) = self.conflict(session, lock) {
            return Err(CannotBe::AnothersToo(held.session));
        }
        // One more than there can be, since the last may be said twice.
        self.must_be_below(session, lock.holder.ino, false, 1)
            .map_err(CannotBe::TooMany)?;
        self.change(session, lock.holder.ino, |locks| locks.take(session, lock));
        Ok(())
    }

    /// The session ends: it gets nothing any more, and keeps what it has until `end`.
    pub fn stop_waiting(&mut self, session: SessionId) {
        self.queue.retain(|_, waiter| waiter.session != session);
        if let Some(standing) = self.sessions.get_mut(&session) {
            standing.waiting.clear();
        }
    }

    /// The session has ended, and with it all its locks.
    pub fn end(&mut self, session: SessionId) -> Vec<Grant> {
        self.stop_waiting(session);
        let mut touched = Vec::new();
        for (ino, locks) in &mut self.files {
            let before = locks.len();
            locks.end(session);
            if locks.len() < before {
                self.locks -= before - locks.len();
                touched.push(*ino);
            }
        }
        self.files.retain(|_, locks| !locks.is_empty());
        self.sessions.remove(&session);
        touched
            .into_iter()
            .flat_map(|ino| self.grant(ino))
            .collect()
    }

    /// The first lock in the way of this one. Who holds it is known in his own session only.
    fn test(&self, session: SessionId, lock: Lock) -> Option<Lock> {
        let held = self.conflict(session, lock)?;
        let pid = match held.session == session {
            true => held.lock.pid,
            false => 0,
        };
        Some(Lock { pid, ..held.lock })
    }

    pub fn conflict(&self, session: SessionId, lock: Lock) -> Option<&Held> {
        self.files.get(&lock.holder.ino)?.conflict(session, lock)
    }

    pub fn locks_of(&self, ino: InodeId) -> Option<&FileLocks> {
        self.files.get(&ino)
    }

    /// Those that wait, by file.
    pub fn waiters(&self) -> impl Iterator<Item = &Waiter> {
        self.queue.values()
    }

    /// Locks of all sessions.
    pub fn len(&self) -> usize {
        self.locks
    }

    pub fn is_empty(&self) -> bool {
        self.locks == 0
    }

    fn next_turn(&mut self, session: SessionId) -> u64 {
        let standing = self.sessions.entry(session).or_default();
        standing.turn += 1;
        standing.turn
    }

    /// All changes of locks go through here, so that they are counted.
    fn change(&mut self, session: SessionId, ino: InodeId, how: impl FnOnce(&mut FileLocks)) {
        let locks = self.files.entry(ino).or_default();
        let before = locks.len();
        how(locks);
        let after = locks.len();
        if after == 0 {
            self.files.remove(&ino);
        }
        self.locks = self.locks + after - before;
        let standing = self.sessions.entry(session).or_default();
        standing.locks = standing.locks + after - before;
    }
}
