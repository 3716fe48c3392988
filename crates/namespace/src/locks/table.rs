//! All locks, and the lock requests of each session.
//!
//! A session numbers its requests: a retransmission gets the stored reply, and a copy that arrives after the client has received
//! the reply is refused. So a request that is delivered twice, or late, neither releases a lock that was acquired later nor
//! acquires one that was released. Every change of a session's locks has a grant sequence number, from 1 on, so that its client
//! can apply the changes in the same order.

use super::file::{FileLocks, HeldLock};
use super::limits::{
    LOCKS_OF_ALL, LOCKS_OF_FILE, LOCKS_OF_SESSION, REPLIES_KEPT, WAITING_OF_SESSION,
};
use gupfs_proto::lock::{AdvisoryLock, LockOutcome, LockReply, LockRequest, LockSeq};
use gupfs_proto::{FsError, InodeId, SessionId};
use std::collections::BTreeMap;

#[derive(Default)]
pub struct LockTable {
    files: BTreeMap<InodeId, FileLocks>,
    sessions: BTreeMap<SessionId, SessionLocks>,
    /// Waiting requests by file, in order of arrival.
    queue: BTreeMap<(InodeId, u64), LockWaiter>,
    arrivals: u64,
    locks: usize,
}

/// The lock state of a session.
#[derive(Default)]
struct SessionLocks {
    replied_below: u64,
    /// Replies to requests that the client may retransmit, by number.
    replies: BTreeMap<u64, LockReply>,
    grant_seq: u64,
    locks: usize,
    /// Waiting requests by number: the key in the queue.
    waiting: BTreeMap<u64, (InodeId, u64)>,
    /// By request number: the grant sequence of grants that the client may not have received.
    granted: BTreeMap<u64, u64>,
}

/// A request that waits for a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LockWaiter {
    pub session: SessionId,
    /// The number of its request.
    pub acquire_number: u64,
    pub lock: AdvisoryLock,
    /// Time of arrival, by the clock of `request`'s caller.
    pub since: u64,
}

/// A waiting request got its lock: the server must tell its client (`callback::CallbackRequest::LockGranted`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LockGrant {
    pub session: SessionId,
    pub acquire_number: u64,
    pub grant_seq: u64,
}

/// The reason why a session cannot have held a lock that it reclaims.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ReclaimError {
    #[error("session {0} has reclaimed a conflicting lock")]
    HeldByOther(SessionId),
    #[error(transparent)]
    TooManyLocks(FsError),
}

impl LockTable {
    /// Executes a lock request of a live session; `now` is only stored (`LockWaiter::since`).
    ///
    /// # Errors
    /// `Malformed`: the client has received the reply before, or no correct client sends such a request.
    pub fn request(
        &mut self,
        session: SessionId,
        request: &LockRequest,
        now: u64,
    ) -> Result<(LockReply, Vec<LockGrant>), FsError> {
        let seq = match request {
            LockRequest::Test { lock } => {
                let outcome = Ok(LockOutcome::Conflict(self.test(session, *lock)));
                return Ok((
                    LockReply {
                        grant_seq: 0,
                        outcome,
                    },
                    Vec::new(),
                ));
            }
            LockRequest::Acquire { seq, lock, .. } if lock.range.is_valid() => *seq,
            LockRequest::Release { seq, range, .. } if range.is_valid() => *seq,
            LockRequest::Cancel { seq, .. } => *seq,
            _ => {
                return Err(FsError::Malformed(
                    "a lock request with an invalid byte range".into(),
                ));
            }
        };
        if let Some(reply) = self.stored_reply(session, seq)? {
            return Ok((reply, Vec::new()));
        }
        let grant_seq = self.next_grant_seq(session);
        let (outcome, ino) = match request {
            LockRequest::Acquire { lock, wait, .. } => {
                let outcome = self.acquire(session, seq.number, *lock, *wait, now);
                (outcome, Some(lock.holder.ino))
            }
            LockRequest::Release { holder, range, .. } => {
                self.change_locks(session, holder.ino, |locks| {
                    locks.release(session, *holder, *range)
                });
                (Ok(LockOutcome::Done), Some(holder.ino))
            }
            LockRequest::Cancel { acquire, .. } => (Ok(self.cancel(session, *acquire)), None),
            LockRequest::Test { .. } => unreachable!("a test request has no number"),
        };
        let reply = LockReply { grant_seq, outcome };
        let session_locks = self.sessions.entry(session).or_default();
        session_locks.replies.insert(seq.number, reply.clone());
        let grants = ino.map_or_else(Vec::new, |ino| self.grant(ino));
        Ok((reply, grants))
    }

    /// The stored reply, if the request was executed before.
    fn stored_reply(
        &mut self,
        session: SessionId,
        seq: LockSeq,
    ) -> Result<Option<LockReply>, FsError> {
        let session_locks = self.sessions.entry(session).or_default();
        let below = session_locks.replied_below.max(seq.replied_below);
        session_locks.replied_below = below;
        session_locks.replies = session_locks.replies.split_off(&below);
        if seq.number < below {
            return Err(FsError::Malformed(
                "a lock request whose reply the client has received".into(),
            ));
        }
        if let Some(reply) = session_locks.replies.get(&seq.number) {
            return Ok(Some(reply.clone()));
        }
        if session_locks.replies.len() >= REPLIES_KEPT {
            return Err(FsError::Malformed(
                "too many lock requests at a time".into(),
            ));
        }
        Ok(None)
    }

    fn acquire(
        &mut self,
        session: SessionId,
        number: u64,
        lock: AdvisoryLock,
        wait: bool,
        now: u64,
    ) -> Result<LockOutcome, FsError> {
        self.check_limits(session, lock.holder.ino, wait)?;
        self.change_locks(session, lock.holder.ino, |locks| {
            locks.release_for_conversion(session, &lock)
        });
        if self.conflict(session, lock).is_none() {
            self.change_locks(session, lock.holder.ino, |locks| {
                locks.acquire(session, lock)
            });
            return Ok(LockOutcome::Done);
        }
        if !wait {
            return Err(FsError::WouldBlock);
        }
        if self.would_deadlock(session, lock) {
            return Err(FsError::Deadlock);
        }
        self.arrivals += 1;
        let queue_key = (lock.holder.ino, self.arrivals);
        let session_locks = self.sessions.entry(session).or_default();
        session_locks.waiting.insert(number, queue_key);
        let waiter = LockWaiter {
            session,
            acquire_number: number,
            lock,
            since: now,
        };
        self.queue.insert(queue_key, waiter);
        Ok(LockOutcome::Queued)
    }

    /// Checked before any change: a session that is refused here keeps its locks.
    fn check_limits(&self, session: SessionId, ino: InodeId, wait: bool) -> Result<(), FsError> {
        self.check_limits_plus(session, ino, wait, 0)
    }

    /// Checks the limits, each increased by `more`.
    fn check_limits_plus(
        &self,
        session: SessionId,
        ino: InodeId,
        wait: bool,
        more: usize,
    ) -> Result<(), FsError> {
        let session_locks = self.sessions.get(&session);
        let of_session = session_locks.map_or(0, |locks| locks.locks);
        let waiting = session_locks.filter(|_| wait);
        let waiting = waiting.map_or(0, |locks| locks.waiting.len());
        let of_file = self.files.get(&ino).map_or(0, FileLocks::len);
        let full = [
            (of_session, LOCKS_OF_SESSION, "of this mount"),
            (of_file, LOCKS_OF_FILE, "of this file"),
            (self.locks, LOCKS_OF_ALL, "of all mounts"),
            (waiting, WAITING_OF_SESSION, "that this mount waits for"),
        ];
        match full.iter().find(|(now, most, _)| *now >= most + more) {
            Some((now, _, which)) => Err(FsError::TooManyLocks(format!("{now} {which}"))),
            None => Ok(()),
        }
    }

    fn cancel(&mut self, session: SessionId, acquire: u64) -> LockOutcome {
        let session_locks = self.sessions.entry(session).or_default();
        if let Some(queue_key) = session_locks.waiting.remove(&acquire) {
            self.queue.remove(&queue_key);
        } else if let Some(grant_seq) = session_locks.granted.get(&acquire) {
            return LockOutcome::WasGranted(*grant_seq);
        }
        LockOutcome::Done
    }

    /// Grants locks of this file to waiting requests, in order. A grant may replace a lock that its session held before, so the
    /// queue is searched from the start after each grant.
    fn grant(&mut self, ino: InodeId) -> Vec<LockGrant> {
        let mut grants = Vec::new();
        loop {
            let mut waiters = self.queue.range((ino, 0)..=(ino, u64::MAX));
            let is_free =
                |waiter: &LockWaiter| self.conflict(waiter.session, waiter.lock).is_none();
            let Some((queue_key, waiter)) = waiters.find(|(_, waiter)| is_free(waiter)) else {
                return grants;
            };
            let (queue_key, waiter) = (*queue_key, *waiter);
            self.queue.remove(&queue_key);
            let session = waiter.session;
            self.change_locks(session, ino, |locks| locks.acquire(session, waiter.lock));
            let grant_seq = self.next_grant_seq(session);
            let session_locks = self.sessions.entry(session).or_default();
            session_locks.waiting.remove(&waiter.acquire_number);
            session_locks
                .granted
                .insert(waiter.acquire_number, grant_seq);
            grants.push(LockGrant {
                session,
                acquire_number: waiter.acquire_number,
                grant_seq,
            });
        }
    }

    /// The client has received this grant.
    pub fn grant_delivered(&mut self, grant: &LockGrant) {
        if let Some(session_locks) = self.sessions.get_mut(&grant.session) {
            session_locks.granted.remove(&grant.acquire_number);
        }
    }

    /// A session reclaims a lock that it held before the server restarted. Idempotent.
    ///
    /// # Errors
    /// `HeldByOther` if another session has reclaimed a conflicting lock; `TooManyLocks` at a limit.
    pub fn reclaim(&mut self, session: SessionId, lock: AdvisoryLock) -> Result<(), ReclaimError> {
        if let Some(held) = self.conflict(session, lock) {
            return Err(ReclaimError::HeldByOther(held.session));
        }
        // One more than the limits, since the session may reclaim its last lock twice.
        self.check_limits_plus(session, lock.holder.ino, false, 1)
            .map_err(ReclaimError::TooManyLocks)?;
        self.change_locks(session, lock.holder.ino, |locks| {
            locks.acquire(session, lock)
        });
        Ok(())
    }

    /// The session is ending: it gets no more locks, and keeps its held locks until `end_session`.
    pub fn stop_waiting(&mut self, session: SessionId) {
        self.queue.retain(|_, waiter| waiter.session != session);
        if let Some(session_locks) = self.sessions.get_mut(&session) {
            session_locks.waiting.clear();
        }
    }

    /// The session has ended: releases all its locks.
    pub fn end_session(&mut self, session: SessionId) -> Vec<LockGrant> {
        self.stop_waiting(session);
        let mut touched = Vec::new();
        for (ino, locks) in &mut self.files {
            let before = locks.len();
            locks.end_session(session);
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

    /// The first conflicting lock. Its pid is returned only to the holder's own session.
    fn test(&self, session: SessionId, lock: AdvisoryLock) -> Option<AdvisoryLock> {
        let held = self.conflict(session, lock)?;
        let pid = match held.session == session {
            true => held.lock.pid,
            false => 0,
        };
        Some(AdvisoryLock { pid, ..held.lock })
    }

    pub fn conflict(&self, session: SessionId, lock: AdvisoryLock) -> Option<&HeldLock> {
        self.files.get(&lock.holder.ino)?.conflict(session, lock)
    }

    pub fn locks_of(&self, ino: InodeId) -> Option<&FileLocks> {
        self.files.get(&ino)
    }

    /// All waiting requests, by file.
    pub fn waiters(&self) -> impl Iterator<Item = &LockWaiter> {
        self.queue.values()
    }

    /// Number of locks of all sessions.
    pub fn len(&self) -> usize {
        self.locks
    }

    pub fn is_empty(&self) -> bool {
        self.locks == 0
    }

    fn next_grant_seq(&mut self, session: SessionId) -> u64 {
        let session_locks = self.sessions.entry(session).or_default();
        session_locks.grant_seq += 1;
        session_locks.grant_seq
    }

    /// All changes of locks go through this function, which updates the counts.
    fn change_locks(
        &mut self,
        session: SessionId,
        ino: InodeId,
        change: impl FnOnce(&mut FileLocks),
    ) {
        let locks = self.files.entry(ino).or_default();
        let before = locks.len();
        change(locks);
        let after = locks.len();
        if after == 0 {
            self.files.remove(&ino);
        }
        self.locks = self.locks + after - before;
        let session_locks = self.sessions.entry(session).or_default();
        session_locks.locks = session_locks.locks + after - before;
    }
}
