//! The locks of one file.
//!
//! POSIX: a process has at most one lock of a byte. A new one replaces what it had there; neighbours of one mode are one lock.

use gupfs_proto::SessionId;
use gupfs_proto::lock::{Extent, Holder, Kind, Lock, Mode};

/// A lock, and the session of the program that holds it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Held {
    pub session: SessionId,
    pub lock: Lock,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FileLocks(Vec<Held>);

impl Held {
    fn is_of(&self, session: SessionId, holder: Holder) -> bool {
        self.session == session && self.lock.holder == holder
    }

    fn excludes(&self, session: SessionId, lock: &Lock) -> bool {
        self.lock.holder.kind == lock.holder.kind
            && !self.is_of(session, lock.holder)
            && self.lock.extent.overlaps(lock.extent)
            && (self.lock.mode == Mode::Exclusive || lock.mode == Mode::Exclusive)
    }

    /// What is left of it on both sides.
    fn without(self, extent: Extent) -> impl Iterator<Item = Held> {
        let part = |first, last| Held {
            lock: Lock {
                extent: Extent { first, last },
                ..self.lock
            },
            ..self
        };
        let Extent { first, last } = self.lock.extent;
        let before = (first < extent.first).then(|| part(first, extent.first - 1));
        let after = (extent.last < last).then(|| part(extent.last + 1, last));
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

    pub fn all(&self) -> &[Held] {
        &self.0
    }

    pub fn has_any(&self, session: SessionId, holder: Holder) -> bool {
        self.0.iter().any(|held| held.is_of(session, holder))
    }

    /// What is in the way.
    pub fn conflicts(&self, session: SessionId, lock: Lock) -> impl Iterator<Item = &Held> {
        self.0
            .iter()
            .filter(move |held| held.excludes(session, &lock))
    }

    /// The one in the way that begins first.
    pub fn conflict(&self, session: SessionId, lock: Lock) -> Option<&Held> {
        self.conflicts(session, lock)
            .min_by_key(|held| held.lock.extent.first)
    }

    /// Nothing is in the way.
    pub fn take(&mut self, session: SessionId, lock: Lock) {
        self.free(session, lock.holder, lock.extent);
        let mut extent = lock.extent;
        self.0.retain(|held| {
            let is_same = held.is_of(session, lock.holder) && held.lock.mode == lock.mode;
            let beside = held.lock.extent;
            let touches = beside.last + 1 == extent.first || extent.last + 1 == beside.first;
            if is_same && touches {
                extent.first = extent.first.min(beside.first);
                extent.last = extent.last.max(beside.last);
            }
            !(is_same && touches)
        });
        let lock = Lock { extent, ..lock };
        self.0.push(Held { session, lock });
    }

    /// flock(2): a lock of the other mode is given up before the new one is tried; who then cannot have that has none.
    pub fn give_up_to_convert(&mut self, session: SessionId, lock: &Lock) {
        let differs = |held: &Held| held.is_of(session, lock.holder) && held.lock.mode != lock.mode;
        if lock.holder.kind == Kind::Flock && self.0.iter().any(differs) {
            self.free(session, lock.holder, Extent::WHOLE);
        }
    }

    pub fn free(&mut self, session: SessionId, holder: Holder, extent: Extent) {
        let mut rest = Vec::new();
        self.0.retain(|held| {
            let is_hit = held.is_of(session, holder) && held.lock.extent.overlaps(extent);
            if is_hit {
                rest.extend(held.without(extent));
            }
            !is_hit
        });
        self.0.append(&mut rest);
    }

    /// As if this had been allowed as far as it takes something away, and no further: the least that is held whether a request
    /// was done or not.
    pub fn weaken(&mut self, session: SessionId, lock: Lock) {
        self.give_up_to_convert(session, &lock);
        if lock.mode == Mode::Exclusive {
            return;
        }
        let exclusive = |held: &&Held| {
            held.is_of(session, lock.holder)
                && held.lock.mode == Mode::Exclusive
                && held.lock.extent.overlaps(lock.extent)
        };
        let strong: Vec<Lock> = self
            .0
            .iter()
            .filter(exclusive)
            .map(|held| held.lock)
            .collect();
        for held in strong {
            let extent = Extent {
                first: held.extent.first.max(lock.extent.first),
                last: held.extent.last.min(lock.extent.last),
            };
            self.take(session, Lock { extent, ..lock });
        }
    }

    pub fn end(&mut self, session: SessionId) {
        self.0.retain(|held| held.session != session);
    }
}
