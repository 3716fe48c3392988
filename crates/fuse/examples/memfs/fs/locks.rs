//! POSIX locks and flock of one file.

use gupfs_fuse::op::{FileLock, Lock, LockKind};
use gupfs_fuse::{Errno, LockOwner, Result};

#[derive(Default)]
pub struct Locks(Vec<HeldLock>);

#[derive(Clone, Copy)]
struct HeldLock {
    owner: LockOwner,
    flock: bool,
    lock: FileLock,
}

impl HeldLock {
    fn conflicts(&self, with: &Lock) -> bool {
        self.owner != with.owner
            && self.flock == with.is_flock()
            && self.overlaps(&with.lock)
            && (self.lock.kind == LockKind::Write || with.lock.kind == LockKind::Write)
    }

    fn overlaps(&self, range: &FileLock) -> bool {
        self.lock.start <= range.end && range.start <= self.lock.end
    }

    /// The parts of this lock before and after `range`.
    fn around(self, range: &FileLock) -> impl Iterator<Item = HeldLock> {
        let before = (self.lock.start < range.start).then(|| HeldLock {
            lock: FileLock {
                end: range.start - 1,
                ..self.lock
            },
            ..self
        });
        let after = (self.lock.end > range.end).then(|| HeldLock {
            lock: FileLock {
                start: range.end + 1,
                ..self.lock
            },
            ..self
        });
        before.into_iter().chain(after)
    }
}

impl Locks {
    /// The first conflicting lock; `LockKind::Unlock` if there is none.
    pub fn conflicting(&self, requested: &Lock) -> FileLock {
        let found = self.0.iter().find(|held| held.conflicts(requested));
        found.map_or(
            FileLock {
                kind: LockKind::Unlock,
                ..requested.lock
            },
            |held| held.lock,
        )
    }

    /// Locks or unlocks; EAGAIN on a conflict. Returns whether waiting requests may try again.
    pub fn set(&mut self, requested: &Lock) -> Result<bool> {
        if requested.lock.kind != LockKind::Unlock
            && self.0.iter().any(|held| held.conflicts(requested))
        {
            return Err(Errno::EAGAIN);
        }
        let mut released = false;
        let held = std::mem::take(&mut self.0);
        for held in held {
            let same = held.owner == requested.owner
                && held.flock == requested.is_flock()
                && held.overlaps(&requested.lock);
            if same {
                released = true;
                self.0.extend(held.around(&requested.lock));
            } else {
                self.0.push(held);
            }
        }
        if requested.lock.kind != LockKind::Unlock {
            self.0.push(HeldLock {
                owner: requested.owner,
                flock: requested.is_flock(),
                lock: requested.lock,
            });
        }
        Ok(released)
    }

    /// Returns `true` if there were any.
    pub fn release_all(&mut self, owner: LockOwner, flock: bool) -> bool {
        let before = self.0.len();
        self.0
            .retain(|held| held.owner != owner || held.flock != flock);
        self.0.len() != before
    }
}
