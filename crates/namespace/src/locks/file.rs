//! The locks of one file.
//!
//! POSIX: a process has at most one lock of a byte. A new lock replaces its earlier locks of the same bytes; adjacent locks of
//! one mode are merged.

use gupfs_proto::SessionId;
use gupfs_proto::lock::{AdvisoryLock, LockFamily, LockHolder, LockMode, LockRange};

/// A held lock, and the session of the program that holds it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeldLock {
    pub session: SessionId,
    pub lock: AdvisoryLock,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FileLocks(Vec<HeldLock>);

impl HeldLock {
    fn is_held_by(&self, session: SessionId, holder: LockHolder) -> bool {
        self.session == session && self.lock.holder == holder
    }

    fn conflicts_with(&self, session: SessionId, lock: &AdvisoryLock) -> bool {
        self.lock.holder.family == lock.holder.family
            && !self.is_held_by(session, lock.holder)
            && self.lock.range.overlaps(lock.range)
            && (self.lock.mode == LockMode::Exclusive || lock.mode == LockMode::Exclusive)
    }

    /// The remaining parts of the lock on both sides when these bytes are released.
    fn parts_outside(self, range: LockRange) -> impl Iterator<Item = HeldLock> {
        let part = |first, last| HeldLock {
            lock: AdvisoryLock {
                range: LockRange { first, last },
                ..self.lock
            },
            ..self
        };
        let LockRange { first, last } = self.lock.range;
        let before = (first < range.first).then(|| part(first, range.first - 1));
        let after = (range.last < last).then(|| part(range.last + 1, last));
        before.into_iter().chain(after)
    }
}

impl FileLocks {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn all(&self) -> &[HeldLock] {
        &self.0
    }

    pub fn has_any(&self, session: SessionId, holder: LockHolder) -> bool {
        self.0.iter().any(|held| held.is_held_by(session, holder))
    }

    /// The held locks that conflict with this one.
    pub fn conflicts(
        &self,
        session: SessionId,
        lock: AdvisoryLock,
    ) -> impl Iterator<Item = &HeldLock> {
        self.0
            .iter()
            .filter(move |held| held.conflicts_with(session, &lock))
    }

    /// The conflicting lock with the lowest first byte.
    pub fn conflict(&self, session: SessionId, lock: AdvisoryLock) -> Option<&HeldLock> {
        self.conflicts(session, lock)
            .min_by_key(|held| held.lock.range.first)
    }

    /// Adds the lock. The caller has checked that no held lock conflicts.
    pub fn acquire(&mut self, session: SessionId, lock: AdvisoryLock) {
        self.release(session, lock.holder, lock.range);
        let mut range = lock.range;
        self.0.retain(|held| {
            let is_same = held.is_held_by(session, lock.holder) && held.lock.mode == lock.mode;
            let beside = held.lock.range;
            let touches = beside.last + 1 == range.first || range.last + 1 == beside.first;
            if is_same && touches {
                range.first = range.first.min(beside.first);
                range.last = range.last.max(beside.last);
            }
            !(is_same && touches)
        });
        let lock = AdvisoryLock { range, ..lock };
        self.0.push(HeldLock { session, lock });
    }

    /// flock(2): a lock of the other mode is released before the new one is tried; if that one is refused, the caller holds no
    /// lock.
    pub fn release_for_conversion(&mut self, session: SessionId, lock: &AdvisoryLock) {
        let differs =
            |held: &HeldLock| held.is_held_by(session, lock.holder) && held.lock.mode != lock.mode;
        if lock.holder.family == LockFamily::Flock && self.0.iter().any(differs) {
            self.release(session, lock.holder, LockRange::WHOLE);
        }
    }

    pub fn release(&mut self, session: SessionId, holder: LockHolder, range: LockRange) {
        let mut rest = Vec::new();
        self.0.retain(|held| {
            let is_hit = held.is_held_by(session, holder) && held.lock.range.overlaps(range);
            if is_hit {
                rest.extend(held.parts_outside(range));
            }
            !is_hit
        });
        self.0.append(&mut rest);
    }

    /// Applies only the part of a lock request that weakens held locks: the result is the set of locks that are held whether the
    /// server executed the request or not.
    pub fn weaken(&mut self, session: SessionId, lock: AdvisoryLock) {
        self.release_for_conversion(session, &lock);
        if lock.mode == LockMode::Exclusive {
            return;
        }
        let exclusive = |held: &&HeldLock| {
            held.is_held_by(session, lock.holder)
                && held.lock.mode == LockMode::Exclusive
                && held.lock.range.overlaps(lock.range)
        };
        let strong: Vec<AdvisoryLock> = self
            .0
            .iter()
            .filter(exclusive)
            .map(|held| held.lock)
            .collect();
        for held in strong {
            let range = LockRange {
                first: held.range.first.max(lock.range.first),
                last: held.range.last.min(lock.range.last),
            };
            self.acquire(session, AdvisoryLock { range, ..lock });
        }
    }

    pub fn end_session(&mut self, session: SessionId) {
        self.0.retain(|held| held.session != session);
    }
}
